// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/firefox_marks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "libcore/base/units.hpp"

namespace flight {
namespace {

void add_firing(const Sidecar& sidecar, std::vector<FirefoxMarker>& to) {
  if (!sidecar.fired) return;
  const SidecarFired& fired = *sidecar.fired;
  to.push_back({.name = "firing",
                .text = fmt::format("{}: {} is {:.6g}, the threshold is {:.6g}", sidecar.trigger, fired.metric,
                                    fired.value, fired.threshold),
                .begin_ns = fired.since_ns,
                .end_ns = std::max(fired.since_ns, sidecar.window.end_ns)});
}

void add_requests(const Sidecar& sidecar, std::vector<FirefoxMarker>& to) {
  const ClockHistory clock = clock_of(sidecar);
  for (const SidecarRequest& request : sidecar.requests) {
    const auto time = parse_time(request.time, WallTime{});
    if (!time) continue;
    to.push_back(
        {.name = "request",
         .text = fmt::format("{} (pid {}, uid {}): {}", request.comm, request.pid, request.uid, request.reason),
         .begin_ns = clock.event_at(*time, sidecar.window.end_ns),
         .end_ns = std::nullopt});
  }
}

void add_compared(const Sidecar& sidecar, std::vector<FirefoxMarker>& to) {
  if (!sidecar.compared) return;
  const SidecarCompared& compared = *sidecar.compared;
  if (compared.before_begin_ns < compared.now_begin_ns)
    to.push_back({.name = "before",
                  .text = "what now is compared with",
                  .begin_ns = compared.before_begin_ns,
                  .end_ns = compared.now_begin_ns});
  if (compared.now_begin_ns < compared.now_end_ns)
    to.push_back({.name = "now",
                  .text = "what is compared with before",
                  .begin_ns = compared.now_begin_ns,
                  .end_ns = compared.now_end_ns});
}

void add_holes(const Sidecar& sidecar, std::vector<FirefoxMarker>& to) {
  for (const SidecarHole& hole : sidecar.holes)
    to.push_back({.name = "hole",
                  .text = fmt::format("{}, CPU {}: {} lost", hole.channel, hole.cpu, counted(hole.lost, "record")),
                  .begin_ns = hole.begin_ns,
                  .end_ns = std::max(hole.begin_ns, hole.end_ns)});
  // A ring whose oldest record is later was not full: its CPU was idle.
  for (const SidecarRing& ring : sidecar.rings)
    if (ring.oldest_ns > sidecar.window.begin_ns && ring.oldest_ns <= sidecar.common_window.begin_ns)
      to.push_back({.name = "no older records",
                    .text = fmt::format("{}, CPU {}: its ring has no older records", ring.channel, ring.cpu),
                    .begin_ns = sidecar.window.begin_ns,
                    .end_ns = ring.oldest_ns});
}

}  // namespace

std::vector<FirefoxMarker> firefox_markers(const Sidecar& sidecar) {
  std::vector<FirefoxMarker> out;
  add_firing(sidecar, out);
  add_requests(sidecar, out);
  add_compared(sidecar, out);
  add_holes(sidecar, out);
  out.resize(std::min(out.size(), kMostFirefoxMarkers));
  std::stable_sort(out.begin(), out.end(),
                   [](const FirefoxMarker& a, const FirefoxMarker& b) { return a.begin_ns < b.begin_ns; });
  return out;
}

FirefoxSchedMarkers firefox_sched_markers(const SchedProfile& sched, const TimedSamples& samples) {
  FirefoxSchedMarkers out;
  out.of_threads.resize(samples.threads().size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> tracks;  // by tid and pid
  for (std::size_t i = 0; i < samples.threads().size(); ++i)
    if (const TimedSamples::Thread& thread = samples.threads()[i]; thread.known)
      tracks.try_emplace({thread.tid, thread.pid}, i);
  const auto text_of = [&sched](std::uint32_t thread) {
    return thread < sched.threads.size() ? fmt::format("{} ({})", sched.name_of(thread), sched.threads[thread].tid)
                                         : std::string("switches are missing");
  };
  for (const SchedOff& one : sched.lanes.all_off()) {
    // That a thread sleeps is no news.
    if (one.state == SchedState::sleeping) continue;
    const SchedThread& thread = sched.threads[one.thread];
    const auto track = tracks.find({thread.tid, thread.pid});
    std::vector<FirefoxMarker>& to = track == tracks.end() ? out.others : out.of_threads[track->second];
    to.push_back({.name = one.state == SchedState::blocked ? "blocked (state D)" : "waits for a CPU",
                  .text = text_of(one.thread) + (one.unsure ? ", across a hole" : ""),
                  .begin_ns = one.begin_ns,
                  .end_ns = one.end_ns});
  }
  for (const SchedRan& one : sched.lanes.all_ran())
    out.cpus.push_back({.name = fmt::format("CPU {}", one.cpu),
                        .text = text_of(one.thread),
                        .begin_ns = one.begin_ns,
                        .end_ns = one.end_ns});
  return out;
}

std::vector<FirefoxCounter> firefox_counters(const Sidecar& sidecar) {
  std::vector<FirefoxCounter> out;
  if (!sidecar.metrics) return out;
  const SidecarSeries& series = sidecar.metrics->recent;
  for (const auto& [name, values] : series.values) {
    FirefoxCounter counter{.name = name, .values = {}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const EventTime time_ns = series.begin_ns + i * series.step_ns;
      if (std::isfinite(values[i]) && time_ns >= sidecar.window.begin_ns && time_ns <= sidecar.window.end_ns)
        counter.values.emplace_back(time_ns, values[i]);
    }
    if (!counter.values.empty()) out.push_back(std::move(counter));
  }
  return out;
}

}  // namespace flight
