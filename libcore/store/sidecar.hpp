// SPDX-License-Identifier: Apache-2.0
// The sidecar: everything that is known about one snapshot, as the JSON file beside it and as what
// `flightctl --json snapshot` and `info` print. ns are CLOCK_MONOTONIC; wall times RFC 3339, UTC, ms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"

namespace flight {

struct SidecarFired {
  std::string metric;
  double value = 0, threshold = 0;
  double baseline = 0;  // NaN (null in the file): not known
  EventTime since_ns = 0;
};
struct SidecarRequest {
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
  std::string comm, time, reason;
};
struct SidecarWindow {
  EventTime begin_ns = 0, end_ns = 0;
  double seconds = 0;
  std::string begin, end;

  [[nodiscard]] static SidecarWindow of(EventTime begin_ns, EventTime end_ns, const ClockPair& clock);
};
struct SidecarHole {
  std::string channel;
  int cpu = 0;
  EventTime begin_ns = 0, end_ns = 0;
  std::uint64_t lost = 0;
};
struct SidecarRing {
  std::string channel;
  int cpu = 0;
  std::uint64_t ring_bytes = 0;
  EventTime oldest_ns = 0, newest_ns = 0;
  std::uint64_t records = 0, samples = 0;
  double blackout_us = 0;
  std::uint64_t lost = 0, torn_bytes = 0, unknown_ids = 0;
  std::uint64_t record_bytes = 0;  // of the records; for the status's rates, not written
};
struct SidecarTop {
  std::string comm;
  std::uint32_t pid = 0;
  std::string cgroup;
  std::string unit;  // systemd's, by the cgroup; empty: none
  std::uint64_t samples = 0;
  double share = 0;  // 0 to 1, of the window's samples
  // The same of SidecarCompared's two stretches; nothing where that has no samples at all.
  std::optional<double> share_before, share_now;
  // CPUs' worth of time: 0.94 is 94 % of one CPU. Nothing where the samples cannot tell (see top_processes()).
  std::optional<double> cpu_before, cpu_now;
  std::vector<int> cpus;  // with at least 2 % of its samples
};
// Which stretches of the window are compared in the rows of `top`: before [before_begin_ns, now_begin_ns), now
// [now_begin_ns, now_end_ns]. Where both begin at once nothing is held of the time before.
struct SidecarCompared {
  EventTime before_begin_ns = 0, now_begin_ns = 0, now_end_ns = 0;
};
// Metrics before the freeze, one value a step, the oldest first. NaN (null in the file): not known.
struct SidecarSeries {
  EventTime begin_ns = 0;
  std::uint64_t step_ns = 0;
  std::vector<std::pair<std::string, std::vector<double>>> values;
};
struct SidecarMetrics {
  SidecarSeries recent;   // 60 s at 100 ms; names are metrics
  SidecarSeries minutes;  // 10 min at 1 s
  SidecarSeries cpus;     // 10 s at 100 ms: busy percent; names are CPU numbers
};
struct SidecarTimings {
  std::uint64_t queued = 0, freeze = 0, walk = 0, merge = 0, write = 0, total = 0;
};

struct Sidecar {
  std::string id, path, host, boot_id, kernel, version, config_digest;
  std::string trigger;
  std::optional<SidecarFired> fired;
  std::string reason;
  std::vector<SidecarRequest> requests;
  std::string capture, compression;
  std::uint64_t size_bytes = 0, raw_bytes = 0, samples = 0;
  SidecarWindow window, common_window;
  struct {
    double max_us = 0;
    std::uint64_t lost = 0;
    bool lost_exact = true;
  } blackout;
  std::vector<SidecarHole> holes;
  std::vector<SidecarRing> rings;
  struct {
    std::uint64_t processes = 0, exited = 0;
    bool stale = false;
    std::uint64_t evicted = 0;
  } ledger;
  SidecarTimings timings_us;
  std::optional<SidecarCompared> compared;  // written only where there is one
  std::vector<SidecarTop> top;              // the most samples first
  std::optional<SidecarMetrics> metrics;    // written only where there are some
  std::vector<std::string> warnings;        // how this snapshot is less than it should be; written only when not empty
};

// One JSON object, indented by 2, keys in the order above, a newline at the end. Bytes of names that are no UTF-8
// become U+FFFD.
[[nodiscard]] std::string to_json(const Sidecar& sidecar);
// The same on one line.
[[nodiscard]] std::string to_json_line(const Sidecar& sidecar);
// Input from outside: unknown keys are ignored, missing ones keep their defaults; `id`, `path`, `trigger` must be
// there.
[[nodiscard]] Result<Sidecar> parse_sidecar(std::string_view text);

// Where the metrics begin in a sidecar as to_json() writes it: all that a list wants stands before it.
inline constexpr std::string_view kMetricsLine = ",\n  \"metrics\": {";

// What a list says of a sidecar. Every text that parse_sidecar() takes is taken, at a fraction of its cost; in what is
// not kept a wrong type passes.
struct SidecarSummary {
  std::string boot_id, reason;
  std::uint64_t size_bytes = 0, samples = 0;
  double seconds = 0;
};
[[nodiscard]] Result<SidecarSummary> summarize_sidecar(std::string_view text);

}  // namespace flight
