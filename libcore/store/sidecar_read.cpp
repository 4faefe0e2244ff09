// SPDX-License-Identifier: Apache-2.0
// Reads a sidecar's text, which is input from outside. sidecar.cpp writes it.
#include <cmath>

#include "libcore/json/parse.hpp"
#include "libcore/json/reader.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {
namespace {

void read_window(const json::Reader& in, SidecarWindow& out) {
  in.read("begin_ns", out.begin_ns);
  in.read("end_ns", out.end_ns);
  in.read("seconds", out.seconds);
  in.read("begin", out.begin);
  in.read("end", out.end);
}

void read_clock_step(const json::Reader& in, SidecarClockStep& out) {
  in.read("ns", out.ns);
  in.read("before", out.before);
  in.read("after", out.after);
}

void read_fired(const json::Reader& in, SidecarFired& out) {
  in.read("metric", out.metric);
  in.read("value", out.value);
  in.read("threshold", out.threshold);
  std::optional<double> baseline;
  in.read("baseline", baseline);
  out.baseline = baseline.value_or(std::nan(""));
  in.read("since_ns", out.since_ns);
  in.read("stolen", out.stolen);
}

void read_request(const json::Reader& in, SidecarRequest& out) {
  in.read("uid", out.uid);
  in.read("pid", out.pid);
  in.read("comm", out.comm);
  in.read("time", out.time);
  in.read("reason", out.reason);
}

void read_hole(const json::Reader& in, SidecarHole& out) {
  in.read("channel", out.channel);
  in.read("cpu", out.cpu);
  in.read("begin_ns", out.begin_ns);
  in.read("end_ns", out.end_ns);
  in.read("lost", out.lost);
  in.read("cause", out.cause);
  in.read("bytes", out.bytes);
  in.read("estimated", out.estimated);
}

void read_ring(const json::Reader& in, SidecarRing& out) {
  in.read("channel", out.channel);
  in.read("cpu", out.cpu);
  in.read("ring_bytes", out.ring_bytes);
  in.read("oldest_ns", out.oldest_ns);
  in.read("newest_ns", out.newest_ns);
  in.read("records", out.records);
  in.read("samples", out.samples);
  in.read("blackout_us", out.blackout_us);
  in.read("lost", out.lost);
  in.read("torn_bytes", out.torn_bytes);
  in.read("unknown_ids", out.unknown_ids);
}

void read_channel_cpus(const json::Reader& in, SidecarChannelCpus& out) {
  in.read("channel", out.channel);
  in.read("cpus", out.cpus);
}

// A word of a later flightd is not the kernel's.
void read_named_by(const json::Reader& in, NamedBy& out) {
  std::string word;
  in.read("named_by", word);
  out = word == "kernel" ? NamedBy::kernel : word == "flightd" ? NamedBy::flightd : NamedBy::process;
}

// The common part of SidecarTop and SidecarGroup.
template <typename Row>
void read_shares(const json::Reader& in, Row& out) {
  in.read("samples", out.samples);
  in.read("share", out.share);
  in.read("share_before", out.share_before);
  in.read("share_now", out.share_now);
  // "cpu_" in sidecars of flightd 0.1.
  for (const char* key : {"cpu_before", "cpus_before"}) in.read(key, out.cpus_before);
  for (const char* key : {"cpu_now", "cpus_now"}) in.read(key, out.cpus_now);
  in.values("cpus", out.cpus);
}

void read_top(const json::Reader& in, SidecarTop& out) {
  in.read("comm", out.comm);
  in.read("pid", out.pid);
  in.read("cgroup", out.cgroup);
  in.read("unit", out.unit);
  in.read("units", out.units);
  read_named_by(in, out.named_by);
  read_shares(in, out);
}

void read_group(const json::Reader& in, SidecarGroup& out) {
  in.read("name", out.name);
  in.read("unit", out.unit);
  in.read("container", out.container);
  in.read("cgroup", out.cgroup);
  in.read("program", out.program);
  in.read("path", out.path);
  in.read("units", out.units);
  in.read("processes", out.processes);
  in.read("pid", out.pid);
  in.read("comm", out.comm);
  in.read("pid_share", out.pid_share);
  in.read("forks_per_second", out.forks_per_second);
  in.read("forked_by", out.forked_by);
  read_named_by(in, out.named_by);
  read_shares(in, out);
}

void read_forker(const json::Reader& in, SidecarForker& out) {
  in.read("name", out.name);
  in.read("pid", out.pid);
  in.read("unit", out.unit);
  in.read("cgroup", out.cgroup);
  read_named_by(in, out.named_by);
  in.read("count", out.count);
  in.read("per_second", out.per_second);
  in.read("per_second_before", out.per_second_before);
  in.read("per_second_now", out.per_second_now);
}

void read_forks(const json::Reader& in, SidecarForks& out) {
  in.read("complete", out.complete);
  read_forker(in, out.all);
  in.list("by_unit", out.by_unit, read_forker);
  in.list("by_program", out.by_program, read_forker);
  in.list("by_pid", out.by_pid, read_forker);
  in.read("unit_unknown", out.unit_unknown);
}

void read_series(const json::Reader& in, SidecarSeries& out) {
  in.read("begin_ns", out.begin_ns);
  in.read("step_ns", out.step_ns);
  in.object("values", [&](const json::Reader& m) { m.all_numbers(out.values); });
}

struct Message {
  std::string severity, text;
};

// `warnings` repeats the texts of errors and warnings.
void read_messages(const json::Reader& in, Sidecar& out) {
  std::vector<Message> messages;
  in.list("messages", messages, [](const json::Reader& m, Message& message) {
    m.read("severity", message.severity);
    m.read("text", message.text);
  });
  in.values("warnings", out.warnings);
  if (messages.empty()) return;
  out.warnings.clear();
  for (Message& message : messages) {
    auto& texts = message.severity == "error" ? out.errors : message.severity == "info" ? out.notes : out.warnings;
    texts.push_back(std::move(message.text));
  }
}

void read_texts(const json::Reader& in, Sidecar& out) {
  in.need("id", out.id);
  in.need("path", out.path);
  in.read("host", out.host);
  in.read("boot_id", out.boot_id);
  in.read("kernel", out.kernel);
  in.read("kallsyms", out.kallsyms);
  in.read("version", out.version);
  in.read("config_digest", out.config_digest);
  in.need("trigger", out.trigger);
  in.read("test", out.test);
  in.read("reason", out.reason);
  in.read("recording", out.recording);
  in.read("capture", out.capture);
  in.read("compression", out.compression);
  in.read("top_cpus", out.top_cpus);
  read_messages(in, out);
}

void read_blocks(const json::Reader& in, Sidecar& out) {
  in.object("record", [&](const json::Reader& m) { read_record(m, out.record.emplace()); });
  in.object("fired", [&](const json::Reader& m) { read_fired(m, out.fired.emplace()); });
  in.object("metrics", [&](const json::Reader& m) {
    SidecarMetrics& metrics = out.metrics.emplace();
    m.object("recent", [&](const json::Reader& series) { read_series(series, metrics.recent); });
    m.object("minutes", [&](const json::Reader& series) { read_series(series, metrics.minutes); });
    m.object("cpus", [&](const json::Reader& series) { read_series(series, metrics.cpus); });
  });
  in.object("compared", [&](const json::Reader& m) {
    SidecarCompared& compared = out.compared.emplace();
    m.read("before_begin_ns", compared.before_begin_ns);
    m.read("now_begin_ns", compared.now_begin_ns);
    m.read("now_end_ns", compared.now_end_ns);
  });
  in.object("window", [&](const json::Reader& m) { read_window(m, out.window); });
  in.object("common_window", [&](const json::Reader& m) { read_window(m, out.common_window); });
  in.object("blackout", [&](const json::Reader& m) {
    m.read("max_us", out.blackout.max_us);
    m.read("lost", out.blackout.lost);
    m.read("lost_exact", out.blackout.lost_exact);
  });
  // "ledger" in sidecars of flightd 0.1.
  for (const char* key : {"ledger", "tracker"})
    in.object(key, [&](const json::Reader& m) {
      m.read("processes", out.tracker.processes);
      m.read("exited", out.tracker.exited);
      m.read("stale", out.tracker.stale);
      m.read("evicted", out.tracker.evicted);
      m.read("lost", out.tracker.lost);
      m.read("unsure", out.tracker.unsure);
    });
  in.object("stacks", [&](const json::Reader& m) {
    SidecarStacks& stacks = out.stacks.emplace();
    m.read("checked", stacks.checked);
    m.read("unchecked", stacks.unchecked);
    m.read("callers", stacks.callers);
    m.read("garbage_frames", stacks.garbage_frames);
  });
  in.object("timings_us", [&](const json::Reader& m) {
    m.read("queued", out.timings_us.queued);
    m.read("freeze", out.timings_us.freeze);
    m.read("walk", out.timings_us.walk);
    m.read("merge", out.timings_us.merge);
    m.read("write", out.timings_us.write);
    m.read("total", out.timings_us.total);
  });
}

}  // namespace

void read_record(const json::Reader& in, SidecarRecord& out) {
  in.read("first", out.first);
  in.read("part", out.part);
  in.read("ended", out.ended);
  if (in.has("holes_known")) in.read("holes_known", out.holes_known);
}

Result<Sidecar> parse_sidecar(std::string_view text) {
  const auto value = json::parse(text, {.max_bytes = kMaxSidecarBytes});
  if (!value) return wrap(value.error(), "sidecar");
  Sidecar out;
  const auto read = json::read_object(*value, json::Missing::keeps_default, [&](const json::Reader& in) {
    read_texts(in, out);
    in.read("size_bytes", out.size_bytes);
    in.read("raw_bytes", out.raw_bytes);
    in.read("samples", out.samples);
    read_blocks(in, out);
    in.list("clock_steps", out.clock_steps, read_clock_step);
    in.list("requests", out.requests, read_request);
    in.list("holes", out.holes, read_hole);
    in.list("rings", out.rings, read_ring);
    in.list("channel_cpus", out.channel_cpus, read_channel_cpus);
    in.list("top_units", out.top_units, read_group);
    in.list("top_programs", out.top_programs, read_group);
    in.list("top", out.top, read_top);
    in.object("forks", [&](const json::Reader& m) { read_forks(m, out.forks.emplace()); });
  });
  if (!read) return wrap(read.error(), "sidecar");
  return out;
}

}  // namespace flight
