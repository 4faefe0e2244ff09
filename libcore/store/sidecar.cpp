// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/sidecar.hpp"

#include <cmath>

#include "libcore/base/finite.hpp"
#include "libcore/base/text.hpp"
#include "libcore/json/value.hpp"
#include "libcore/store/names.hpp"

namespace flight {
namespace {

using json::Array;
using json::Object;
using json::Value;

Value json_of(const std::optional<double>& value) { return value ? Value(finite(*value)) : Value(); }

Object json_of(const SidecarWindow& window) {
  return {{"begin_ns", window.begin_ns},
          {"end_ns", window.end_ns},
          {"seconds", finite(window.seconds)},
          {"begin", window.begin},
          {"end", window.end}};
}

Object json_of(const SidecarClockStep& step) {
  return {{"ns", step.ns}, {"before", step.before}, {"after", step.after}};
}

Object json_of(const SidecarFired& fired) {
  return {{"metric", fired.metric},     {"value", finite(fired.value)}, {"threshold", finite(fired.threshold)},
          {"baseline", fired.baseline}, {"since_ns", fired.since_ns},   {"stolen", json_of(fired.stolen)}};
}

Object json_of(const SidecarRequest& request) {
  return {{"uid", request.uid},
          {"pid", request.pid},
          {"comm", as_utf8(request.comm)},
          {"time", request.time},
          {"reason", request.reason}};
}

Object json_of(const SidecarHole& hole) {
  Object json{{"channel", hole.channel},
              {"cpu", hole.cpu},
              {"begin_ns", hole.begin_ns},
              {"end_ns", hole.end_ns},
              {"lost", hole.lost}};
  if (hole.cause.empty()) return json;
  json.add("cause", hole.cause);
  json.add("bytes", hole.bytes);
  json.add("estimated", hole.estimated);
  return json;
}

Object json_of(const SidecarRing& ring) {
  return {{"channel", ring.channel},
          {"cpu", ring.cpu},
          {"ring_bytes", ring.ring_bytes},
          {"oldest_ns", ring.oldest_ns},
          {"newest_ns", ring.newest_ns},
          {"records", ring.records},
          {"samples", ring.samples},
          {"blackout_us", finite(ring.blackout_us)},
          {"lost", ring.lost},
          {"torn_bytes", ring.torn_bytes},
          {"unknown_ids", ring.unknown_ids}};
}

Object json_of(const SidecarChannelCpus& channel) { return {{"channel", channel.channel}, {"cpus", channel.cpus}}; }

template <typename Row>
void add_named_by(Object& json, const Row& row) {
  if (row.named_by == NamedBy::kernel) json.add("named_by", "kernel");
  if (row.named_by == NamedBy::flightd) json.add("named_by", "flightd");
}

// The common part of SidecarTop and SidecarGroup.
template <typename Row>
void add_shares(Object& json, const Row& row) {
  json.add("samples", row.samples);
  json.add("share", finite(row.share));
  json.add("share_before", json_of(row.share_before));
  json.add("share_now", json_of(row.share_now));
  json.add("cpus_before", json_of(row.cpus_before));
  json.add("cpus_now", json_of(row.cpus_now));
  json.add("cpus", row.cpus);
}

Object json_of(const SidecarTop& top) {
  Object json{{"comm", as_utf8(top.comm)},
              {"pid", top.pid},
              {"cgroup", as_utf8(top.cgroup)},
              {"unit", as_utf8(top.unit)},
              {"units", top.units}};
  add_named_by(json, top);
  add_shares(json, top);
  return json;
}

Object json_of(const SidecarGroup& group) {
  Object json{{"name", as_utf8(group.name)},
              {"unit", as_utf8(group.unit)},
              {"container", as_utf8(group.container)},
              {"cgroup", as_utf8(group.cgroup)},
              {"program", as_utf8(group.program)},
              {"path", as_utf8(group.path)},
              {"units", group.units},
              {"processes", group.processes},
              {"pid", group.pid},
              {"comm", as_utf8(group.comm)},
              {"pid_share", finite(group.pid_share)},
              {"forks_per_second", finite(group.forks_per_second)},
              {"forked_by", as_utf8(group.forked_by)}};
  add_named_by(json, group);
  add_shares(json, group);
  return json;
}

void add_rates(Object& json, const SidecarForker& forker) {
  json.add("count", forker.count);
  json.add("per_second", finite(forker.per_second));
  json.add("per_second_before", json_of(forker.per_second_before));
  json.add("per_second_now", json_of(forker.per_second_now));
}

Object json_of(const SidecarForker& forker) {
  Object json{{"name", as_utf8(forker.name)},
              {"pid", forker.pid},
              {"unit", as_utf8(forker.unit)},
              {"cgroup", as_utf8(forker.cgroup)}};
  add_named_by(json, forker);
  add_rates(json, forker);
  return json;
}

// Whole numbers without ".0": most values are 0.
Object json_of(const SidecarSeries& series) {
  Object values;
  for (const auto& [name, numbers] : series.values)
    values.add(name, json::array_of(numbers, [](double number) {
                 const bool whole = number == std::trunc(number) && std::abs(number) < 1e15;
                 return whole ? Value(static_cast<std::int64_t>(number)) : Value(number);
               }));
  return {{"begin_ns", series.begin_ns}, {"step_ns", series.step_ns}, {"values", std::move(values)}};
}

Object json_of(const SidecarForks& forks) {
  Object json{{"complete", forks.complete}};
  add_rates(json, forks.all);
  json.add("by_unit", json::objects_of(forks.by_unit, json_of));
  json.add("by_program", json::objects_of(forks.by_program, json_of));
  json.add("by_pid", json::objects_of(forks.by_pid, json_of));
  json.add("unit_unknown", forks.unit_unknown);
  return json;
}

void add_messages(Object& json, const Sidecar& s) {
  Array warnings, messages;
  for (const auto* texts : {&s.errors, &s.warnings})
    for (const std::string& text : *texts) warnings.emplace_back(text);
  for (const auto& [severity, texts] : {std::pair("error", &s.errors), {"warning", &s.warnings}, {"info", &s.notes}})
    for (const std::string& text : *texts) messages.emplace_back(Object{{"severity", severity}, {"text", text}});
  if (!warnings.empty()) json.add("warnings", std::move(warnings));
  if (!messages.empty()) json.add("messages", std::move(messages));
}

// The keys in the order of the manual.
Object json_of(const Sidecar& s) {
  Object json;
  json.add("id", s.id);
  json.add("path", s.path);
  json.add("host", s.host);
  json.add("boot_id", s.boot_id);
  json.add("kernel", s.kernel);
  if (s.kallsyms) json.add("kallsyms", *s.kallsyms);
  json.add("version", s.version);
  json.add("config_digest", s.config_digest);
  json.add("trigger", s.trigger);
  if (s.test) json.add("test", true);
  if (s.record) {
    json.add("kind", "recording");
    json.add("record", json_of(*s.record));
  }
  json.add("fired", s.fired ? Value(json_of(*s.fired)) : Value());
  json.add("reason", s.reason);
  json.add("requests", json::objects_of(s.requests, json_of));
  if (!s.recording.empty()) json.add("recording", s.recording);
  json.add("capture", s.capture);
  json.add("compression", s.compression);
  json.add("size_bytes", s.size_bytes);
  json.add("raw_bytes", s.raw_bytes);
  json.add("samples", s.samples);
  json.add("window", json_of(s.window));
  json.add("common_window", json_of(s.common_window));
  if (!s.clock_steps.empty()) json.add("clock_steps", json::objects_of(s.clock_steps, json_of));
  json.add(
      "blackout",
      Object{{"max_us", finite(s.blackout.max_us)}, {"lost", s.blackout.lost}, {"lost_exact", s.blackout.lost_exact}});
  json.add("holes", json::objects_of(s.holes, json_of));
  json.add("rings", json::objects_of(s.rings, json_of));
  if (!s.channel_cpus.empty()) json.add("channel_cpus", json::objects_of(s.channel_cpus, json_of));
  json.add("tracker", Object{{"processes", s.tracker.processes},
                             {"exited", s.tracker.exited},
                             {"stale", s.tracker.stale},
                             {"evicted", s.tracker.evicted},
                             {"lost", s.tracker.lost},
                             {"unsure", s.tracker.unsure}});
  if (s.stacks)
    json.add("stacks", Object{{"checked", s.stacks->checked},
                              {"unchecked", s.stacks->unchecked},
                              {"callers", s.stacks->callers},
                              {"garbage_frames", s.stacks->garbage_frames}});
  const SidecarTimings& t = s.timings_us;
  json.add("timings_us", Object{{"queued", t.queued},
                                {"freeze", t.freeze},
                                {"walk", t.walk},
                                {"merge", t.merge},
                                {"write", t.write},
                                {"total", t.total}});
  if (s.compared)
    json.add("compared", Object{{"before_begin_ns", s.compared->before_begin_ns},
                                {"now_begin_ns", s.compared->now_begin_ns},
                                {"now_end_ns", s.compared->now_end_ns}});
  if (!s.top_cpus.empty()) json.add("top_cpus", s.top_cpus);
  json.add("top_units", json::objects_of(s.top_units, json_of));
  json.add("top_programs", json::objects_of(s.top_programs, json_of));
  json.add("top", json::objects_of(s.top, json_of));
  if (s.forks) json.add("forks", json_of(*s.forks));
  add_messages(json, s);
  return json;
}

// The metrics come last, each series on its own line: indented like the rest, with one number per line, they would
// take three times the space.
std::string dump(const Sidecar& sidecar, int indent) {
  std::string out = json::dump(json_of(sidecar), indent);
  if (!sidecar.metrics) return out;
  const bool lines = indent > 0;
  out.resize(out.size() - (lines ? 2 : 1));  // the closing brace
  out += lines ? kMetricsLine : ",\"metrics\":{";
  const SidecarMetrics& metrics = *sidecar.metrics;
  const char* before = lines ? "\n    " : "";
  const char* colon = lines ? ": " : ":";
  for (const auto& [name, series] :
       {std::pair("recent", &metrics.recent), {"minutes", &metrics.minutes}, {"cpus", &metrics.cpus}}) {
    out += fmt::format("{}\"{}\"{}{}", before, name, colon, json::dump(json_of(*series)));
    before = lines ? ",\n    " : ",";
  }
  return out + (lines ? "\n  }\n}" : "}}");
}

}  // namespace

json::Object json_of(const SidecarRecord& record) {
  Object out{{"first", record.first}, {"part", record.part}, {"ended", record.ended}};
  if (record.holes_known) out.add("holes_known", *record.holes_known);
  return out;
}

SidecarWindow SidecarWindow::of(EventTime begin_ns, EventTime end_ns, const ClockHistory& clock) {
  const EventTime span = end_ns > begin_ns ? end_ns - begin_ns : 0;
  // Rounds to the nearest millisecond, so that a requested 03:10:00 is shown as such.
  constexpr std::chrono::microseconds kHalf(500);
  return {.begin_ns = begin_ns,
          .end_ns = end_ns,
          .seconds = static_cast<double>(span) / 1e9,
          .begin = to_rfc3339(clock.wall_at(begin_ns) + kHalf),
          .end = to_rfc3339(clock.wall_at(end_ns) + kHalf)};
}

ClockHistory clock_of(const Sidecar& sidecar) {
  std::vector<ClockTriple> triples;
  const auto add = [&](EventTime time_ns, const std::string& text) {
    if (const auto wall = parse_time(text, WallTime{}))
      triples.push_back({.monotonic_ns = time_ns, .boottime_ns = time_ns, .wall = *wall});
  };
  if (sidecar.clock_steps.empty()) {
    add(sidecar.window.end_ns, sidecar.window.end);
  } else {
    const SidecarClockStep& first = sidecar.clock_steps.front();
    add(first.ns, first.before);
    if (!triples.empty() && first.ns > 0) {
      triples[0].monotonic_ns -= 1;
      triples[0].wall -= std::chrono::nanoseconds(1);
    }
    for (const SidecarClockStep& step : sidecar.clock_steps) add(step.ns, step.after);
  }
  ClockHistory out;
  out.restore(triples);
  return out;
}

std::string kallsyms_of(const std::optional<std::string>& kallsyms, const std::string& boot_id) {
  std::string file = kallsyms ? *kallsyms : kallsyms_file(boot_id);
  return is_kallsyms_file(file) ? file : std::string();
}

std::string to_json(const Sidecar& sidecar) { return dump(sidecar, 2) + "\n"; }
std::string to_json_line(const Sidecar& sidecar) { return dump(sidecar, -1); }

}  // namespace flight
