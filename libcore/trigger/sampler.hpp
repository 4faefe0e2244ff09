// SPDX-License-Identifier: Apache-2.0
// Looks at /proc/stat, /proc/loadavg and /proc/pressure/* through descriptors that stay open. Each source is optional:
// what the kernel does not have is missing, with the reason, and the rest is measured. One thread uses it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/trigger/cpu_usage.hpp"
#include "libcore/trigger/metric_pass.hpp"
#include "libcore/trigger/proc_stat.hpp"

namespace flight {

struct MissingMetric {
  Metric metric{};
  std::string why;  // "open /proc/pressure/memory: No such file or directory: …"
};

class Sampler {
 public:
  [[nodiscard]] static Sampler open(const std::string& proc_root = "/proc");

  // What this machine cannot measure, known since open().
  [[nodiscard]] const std::vector<MissingMetric>& missing() const { return missing_; }

  // One look. `now_ns` is monotonic_now() just before it. The first one knows levels (tasks.*) only.
  [[nodiscard]] MetricPass pass(EventTime now_ns);

 private:
  struct Source {
    UniqueFd fd;
    std::string path, why;  // why: it is not there
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
