// SPDX-License-Identifier: Apache-2.0
// The metrics of the last minutes, for the sidecar and for a trigger's baseline: each pass of 60 s, each second of 10
// min, each CPU for 10 s. All of it is bounded, in memory and (kMaxExportedBytes) as JSON, also with 1,024 CPUs.
//
// A second is the mean of its passes, and so is the baseline. For cpu.hottest and cpu.lopsided the sidecar has the
// second's maximum: a burst of 150 ms on one CPU would not be visible in the mean.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "libcore/store/sidecar.hpp"
#include "libcore/trigger/metric_pass.hpp"

namespace flight {

class MetricHistory {
 public:
  static constexpr std::uint64_t kStepNs = 100'000'000, kSecondNs = 1'000'000'000;
  static constexpr std::size_t kRecentSteps = 600, kSeconds = 600, kCpuSteps = 100;
  static constexpr std::uint64_t kBaselineNs = 300 * kSecondNs;
  static constexpr std::size_t kMaxExportedCpus = 128;           // if there are more, the busiest of these 10 s
  static constexpr std::size_t kMaxExportedBytes = 256U << 10U;  // as JSON without blanks

  void add(const MetricPass& pass);

  // The median of the known part of the 5 minutes before `before_ns`; nullopt: nothing is known.
  [[nodiscard]] std::optional<double> baseline(Metric metric, EventTime before_ns) const;
  // The metrics until now; numbers are rounded to 0.1. nullopt before the first pass.
  [[nodiscard]] std::optional<SidecarMetrics> exported() const;

 private:
  static constexpr std::size_t kMetricCount = kMetrics.size();
  struct CpuBusy {
    std::uint16_t cpu = 0, tenths = 0;  // of a percent
  };
  struct Pass {
    EventTime time_ns = 0;
    std::uint64_t span_ns = 0;
    std::array<float, kMetricCount> values{};  // NaN: unknown
  };
  struct CpuPass {
    EventTime time_ns = 0;
    std::uint64_t span_ns = 0;
    std::vector<CpuBusy> cpus;
  };
  struct Second {
    std::uint64_t number = 0;  // on the monotonic clock
    std::array<float, kMetricCount> sum{}, weight{}, most{};
  };
  void add_seconds(const MetricPass& pass);
  void forget();
  [[nodiscard]] SidecarSeries recent_series() const;
  [[nodiscard]] SidecarSeries minutes_series() const;
  [[nodiscard]] SidecarSeries cpus_series() const;

  std::deque<Pass> passes_;
  std::deque<CpuPass> cpu_passes_;
  std::deque<Second> seconds_;
};

}  // namespace flight
