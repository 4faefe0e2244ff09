// SPDX-License-Identifier: Apache-2.0
// A sidecar's text, read: input from outside. What is written is in sidecar.cpp.
#include "libcore/store/json_read.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {
namespace {

void read_window(const Members& in, SidecarWindow& out) {
  in.read("begin_ns", out.begin_ns);
  in.read("end_ns", out.end_ns);
  in.read("seconds", out.seconds);
  in.read("begin", out.begin);
  in.read("end", out.end);
}

void read_fired(const Members& in, SidecarFired& out) {
  in.read("metric", out.metric);
  in.read("value", out.value);
  in.read("threshold", out.threshold);
  std::optional<double> baseline;
  in.read("baseline", baseline);
  out.baseline = baseline.value_or(std::nan(""));
  in.read("since_ns", out.since_ns);
}

void read_request(const Members& in, SidecarRequest& out) {
  in.read("uid", out.uid);
  in.read("pid", out.pid);
  in.read("comm", out.comm);
  in.read("time", out.time);
  in.read("reason", out.reason);
}

void read_hole(const Members& in, SidecarHole& out) {
  in.read("channel", out.channel);
  in.read("cpu", out.cpu);
  in.read("begin_ns", out.begin_ns);
  in.read("end_ns", out.end_ns);
  in.read("lost", out.lost);
}

void read_ring(const Members& in, SidecarRing& out) {
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

void read_top(const Members& in, SidecarTop& out) {
  in.read("comm", out.comm);
  in.read("pid", out.pid);
  in.read("cgroup", out.cgroup);
  in.read("unit", out.unit);
  in.read("samples", out.samples);
  in.read("share", out.share);
  in.read("share_before", out.share_before);
  in.read("share_now", out.share_now);
  in.read("cpu_before", out.cpu_before);
  in.read("cpu_now", out.cpu_now);
  in.values("cpus", out.cpus);
}

void read_series(const Members& in, SidecarSeries& out) {
  in.read("begin_ns", out.begin_ns);
  in.read("step_ns", out.step_ns);
  in.object("values", [&](const Members& m) { m.all_numbers(out.values); });
}

void read_texts(const Members& in, Sidecar& out) {
  in.need("id", out.id);
  in.need("path", out.path);
  in.read("host", out.host);
  in.read("boot_id", out.boot_id);
  in.read("kernel", out.kernel);
  in.read("version", out.version);
  in.read("config_digest", out.config_digest);
  in.need("trigger", out.trigger);
  in.read("reason", out.reason);
  in.read("capture", out.capture);
  in.read("compression", out.compression);
  in.values("warnings", out.warnings);
}

void read_blocks(const Members& in, Sidecar& out) {
  in.object("fired", [&](const Members& m) { read_fired(m, out.fired.emplace()); });
  in.object("metrics", [&](const Members& m) {
    SidecarMetrics& metrics = out.metrics.emplace();
    m.object("recent", [&](const Members& series) { read_series(series, metrics.recent); });
    m.object("minutes", [&](const Members& series) { read_series(series, metrics.minutes); });
    m.object("cpus", [&](const Members& series) { read_series(series, metrics.cpus); });
  });
  in.object("compared", [&](const Members& m) {
    SidecarCompared& compared = out.compared.emplace();
    m.read("before_begin_ns", compared.before_begin_ns);
    m.read("now_begin_ns", compared.now_begin_ns);
    m.read("now_end_ns", compared.now_end_ns);
  });
  in.object("window", [&](const Members& m) { read_window(m, out.window); });
  in.object("common_window", [&](const Members& m) { read_window(m, out.common_window); });
  in.object("blackout", [&](const Members& m) {
    m.read("max_us", out.blackout.max_us);
    m.read("lost", out.blackout.lost);
    m.read("lost_exact", out.blackout.lost_exact);
  });
  in.object("ledger", [&](const Members& m) {
    m.read("processes", out.ledger.processes);
    m.read("exited", out.ledger.exited);
    m.read("stale", out.ledger.stale);
    m.read("evicted", out.ledger.evicted);
  });
  in.object("timings_us", [&](const Members& m) {
    m.read("queued", out.timings_us.queued);
    m.read("freeze", out.timings_us.freeze);
    m.read("walk", out.timings_us.walk);
    m.read("merge", out.timings_us.merge);
    m.read("write", out.timings_us.write);
    m.read("total", out.timings_us.total);
  });
}

}  // namespace

Result<Sidecar> parse_sidecar(std::string_view text) {
  const auto json = JsonText::parse(text, kMaxSidecarBytes);
  if (!json) return wrap(json.error(), "sidecar");
  Sidecar out;
  auto error = json->read_object([&](const Members& in) {
    read_texts(in, out);
    in.read("size_bytes", out.size_bytes);
    in.read("raw_bytes", out.raw_bytes);
    in.read("samples", out.samples);
    read_blocks(in, out);
    in.list("requests", out.requests, read_request);
    in.list("holes", out.holes, read_hole);
    in.list("rings", out.rings, read_ring);
    in.list("top", out.top, read_top);
  });
  if (error) return wrap(std::move(*error), "sidecar");
  return out;
}

}  // namespace flight
