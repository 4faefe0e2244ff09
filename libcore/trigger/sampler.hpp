// SPDX-License-Identifier: Apache-2.0
// Samples /proc/stat, /proc/loadavg and /proc/pressure/* through descriptors that stay open. Each source is optional:
// a metric that the kernel lacks is missing, with the reason, and the rest is measured. One thread uses it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/sysinfo/proc_stat.hpp"
#include "libcore/trigger/cpu_usage.hpp"
#include "libcore/trigger/metric_pass.hpp"

namespace flight {

struct MissingMetric {
  Metric metric{};
  std::string why;  // "open /proc/pressure/memory: No such file or directory: …"
};

class Sampler {
 public:
  [[nodiscard]] static Sampler open(const std::string& proc_root = "/proc");

  // The metrics that this machine does not have, known since open().
  [[nodiscard]] const std::vector<MissingMetric>& missing() const { return missing_; }

  // Reads one pass. `now_ns` is monotonic_now() just before it. The first pass has only levels (tasks.*).
  [[nodiscard]] MetricPass pass(EventTime now_ns);

 private:
  struct Source {
    UniqueFd fd;
    std::string path, why;  // why: the reason if it is missing
  };
  struct Pressure {
    PressureTotals totals;
    EventTime time_ns = 0;
  };
  Sampler() = default;
  void find_missing();
  [[nodiscard]] std::string_view text_of(Source& source);
  void measure_pressure(std::size_t resource, MetricPass& pass);

  std::array<Source, 5> sources_;  // by MetricSource
  std::array<Pressure, 3> pressure_;
  std::vector<MissingMetric> missing_;
  CpuUsage cpu_usage_;
  ProcStat stat_;
  std::string buffer_;
  EventTime last_ns_ = 0;
};

}  // namespace flight
