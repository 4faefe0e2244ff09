// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/sidecar.hpp"

#include <nlohmann/json.hpp>

#include "libcore/store/json_read.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const SidecarWindow& window) {
  return {{"begin_ns", window.begin_ns},
          {"end_ns", window.end_ns},
          {"seconds", finite(window.seconds)},
          {"begin", window.begin},
          {"end", window.end}};
}

Json json_of(const SidecarFired& fired) {
  return {{"metric", fired.metric},
          {"value", finite(fired.value)},
          {"threshold", finite(fired.threshold)},
          {"baseline", std::isfinite(fired.baseline) ? Json(fired.baseline) : Json()},
          {"since_ns", fired.since_ns}};
}

Json json_of(const SidecarRequest& request) {
  return {{"uid", request.uid},
          {"pid", request.pid},
          {"comm", request.comm},
          {"time", request.time},
          {"reason", request.reason}};
}

Json json_of(const SidecarHole& hole) {
  return {{"channel", hole.channel},
          {"cpu", hole.cpu},
          {"begin_ns", hole.begin_ns},
          {"end_ns", hole.end_ns},
          {"lost", hole.lost}};
}

Json json_of(const SidecarRing& ring) {
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

Json json_of(const std::optional<double>& value) { return value ? Json(finite(*value)) : Json(); }

Json json_of(const SidecarTop& top) {
  return {{"comm", top.comm},
          {"pid", top.pid},
          {"cgroup", top.cgroup},
          {"unit", top.unit},
          {"samples", top.samples},
          {"share", finite(top.share)},
          {"share_before", json_of(top.share_before)},
          {"share_now", json_of(top.share_now)},
          {"cpu_before", json_of(top.cpu_before)},
          {"cpu_now", json_of(top.cpu_now)},
          {"cpus", Json(top.cpus)}};
}

// Whole numbers without ".0": most are 0.
Json json_of(const SidecarSeries& series) {
  Json values = Json::object();
  for (const auto& [name, numbers] : series.values) {
    Json& list = values[name] = Json::array();
    for (const double number : numbers)
      if (!std::isfinite(number))
        list.push_back(Json());
      else if (number == std::trunc(number) && std::abs(number) < 1e15)
        list.push_back(static_cast<std::int64_t>(number));
      else
        list.push_back(number);
  }
  return {{"begin_ns", series.begin_ns}, {"step_ns", series.step_ns}, {"values", std::move(values)}};
}

template <typename T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(json_of(item));
  return list;
}

// The keys in the order in which the manual has them.
Json json_of(const Sidecar& s) {
  Json json;
  json["id"] = s.id;
  json["path"] = s.path;
  json["host"] = s.host;
  json["boot_id"] = s.boot_id;
  json["kernel"] = s.kernel;
  json["version"] = s.version;
  json["config_digest"] = s.config_digest;
  json["trigger"] = s.trigger;
  json["fired"] = s.fired ? json_of(*s.fired) : Json();
  json["reason"] = s.reason;
  json["requests"] = list_of(s.requests);
  json["capture"] = s.capture;
  json["compression"] = s.compression;
  json["size_bytes"] = s.size_bytes;
  json["raw_bytes"] = s.raw_bytes;
  json["samples"] = s.samples;
  json["window"] = json_of(s.window);
  json["common_window"] = json_of(s.common_window);
  json["blackout"] = {
      {"max_us", finite(s.blackout.max_us)}, {"lost", s.blackout.lost}, {"lost_exact", s.blackout.lost_exact}};
  json["holes"] = list_of(s.holes);
  json["rings"] = list_of(s.rings);
  json["ledger"] = {{"processes", s.ledger.processes},
                    {"exited", s.ledger.exited},
                    {"stale", s.ledger.stale},
                    {"evicted", s.ledger.evicted}};
  const SidecarTimings& t = s.timings_us;
  json["timings_us"] = {{"queued", t.queued}, {"freeze", t.freeze}, {"walk", t.walk},
                        {"merge", t.merge},   {"write", t.write},   {"total", t.total}};
  if (s.compared)
    json["compared"] = {{"before_begin_ns", s.compared->before_begin_ns},
                        {"now_begin_ns", s.compared->now_begin_ns},
                        {"now_end_ns", s.compared->now_end_ns}};
  json["top"] = list_of(s.top);
  if (!s.warnings.empty()) json["warnings"] = s.warnings;
  return json;
}

std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

// The metrics come last, each series on a line of its own: indented like the rest, one number a line, they would take
// three times the room.
std::string dump(const Sidecar& sidecar, int indent) {
  std::string out = dump(json_of(sidecar), indent);
  if (!sidecar.metrics) return out;
  const bool lines = indent > 0;
  out.resize(out.size() - (lines ? 2 : 1));  // the closing brace
  out += lines ? kMetricsLine : ",\"metrics\":{";
  const SidecarMetrics& metrics = *sidecar.metrics;
  const char* before = lines ? "\n    " : "";
  const char* colon = lines ? ": " : ":";
  for (const auto& [name, series] :
       {std::pair("recent", &metrics.recent), {"minutes", &metrics.minutes}, {"cpus", &metrics.cpus}}) {
    out += fmt::format("{}\"{}\"{}{}", before, name, colon, dump(json_of(*series), -1));
    before = lines ? ",\n    " : ",";
  }
  return out + (lines ? "\n  }\n}" : "}}");
}

}  // namespace

SidecarWindow SidecarWindow::of(EventTime begin_ns, EventTime end_ns, const ClockPair& clock) {
  const EventTime span = end_ns > begin_ns ? end_ns - begin_ns : 0;
  // To the nearest millisecond: what was asked for as 03:10:00 reads so.
  constexpr std::chrono::microseconds kHalf(500);
  return {.begin_ns = begin_ns,
          .end_ns = end_ns,
          .seconds = static_cast<double>(span) / 1e9,
          .begin = to_rfc3339(clock.wall_at(begin_ns) + kHalf),
          .end = to_rfc3339(clock.wall_at(end_ns) + kHalf)};
}

std::string to_json(const Sidecar& sidecar) { return dump(sidecar, 2) + "\n"; }
std::string to_json_line(const Sidecar& sidecar) { return dump(sidecar, -1); }

}  // namespace flight
