// SPDX-License-Identifier: Apache-2.0
// Samples /proc/stat, /proc/loadavg and /proc/pressure/* through descriptors that stay open. Each source is optional:
// a metric that cannot be measured is missing, with the reason, and the rest is measured. A source that fails is opened
// again every kSourceAgain: there may be a descriptor for it later. A file that waits for a server is one that fails
// (kernel_file.hpp). One thread uses it.
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/sysinfo/proc_stat.hpp"
#include "libcore/trigger/cpu_usage.hpp"
#include "libcore/trigger/metric_pass.hpp"

namespace flight {

inline constexpr std::chrono::seconds kSourceAgain(10);

struct MissingMetric {
  Metric metric{};
  std::string why;       // "open /proc/pressure/memory: No such file or directory; this kernel …"
  bool passing = false;  // its source failed for another reason than that there is none (EMFILE, ENOMEM)
  bool operator==(const MissingMetric&) const = default;
};

class Sampler {
 public:
  [[nodiscard]] static Sampler open(const std::string& proc_root = "/proc");

  // The metrics that cannot be measured; known since open(), and a pass may change them.
  [[nodiscard]] const std::vector<MissingMetric>& missing() const { return missing_; }
  // Whether missing() has changed since the last call; true at the first one.
  [[nodiscard]] bool take_changed() { return std::exchange(changed_, false); }

  // Reads one pass. `now_ns` is monotonic_now() just before it. The first pass has only levels (tasks.*).
  [[nodiscard]] MetricPass pass(EventTime now_ns);

 private:
  struct Source {
    UniqueFd fd;
    std::string path, why;  // why: the reason if it failed
    bool passing = false;   // see MissingMetric
    void fails(const Error& error);
  };
  struct Pressure {
    PressureTotals totals;
    EventTime time_ns = 0;
  };
  Sampler() = default;
  void open_failed_sources();
  void look_again(EventTime now_ns);
  void find_missing();
  [[nodiscard]] std::string_view text_of(Source& source);
  void measure_pressure(std::size_t resource, MetricPass& pass);

  std::array<Source, kMetricSources> sources_;  // by MetricSource
  std::array<Pressure, 3> pressure_;
  std::vector<MissingMetric> missing_;
  bool changed_ = true;
  EventTime look_again_ns_ = 0;
  CpuUsage cpu_usage_;
  ProcStat stat_;
  std::string buffer_;
  EventTime last_ns_ = 0;
};

}  // namespace flight
