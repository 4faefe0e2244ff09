// SPDX-License-Identifier: Apache-2.0
// The result of one pass: every metric as a plain number over the time since the previous pass. An unknown value is
// missing, never zero.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/config/metrics.hpp"

namespace flight {

// One CPU's time in percent of its total.
struct CpuShares {
  int cpu = 0;
  double busy = 0;  // neither idle nor waiting for I/O; stolen time counts as busy: a task wanted to run
  double user = 0, system = 0;
  double irq = 0;  // with soft interrupts
  double steal = 0, iowait = 0;
};

struct MetricPass {
  EventTime time_ns = 0;
  std::uint64_t span_ns = 0;  // the time that it covers, up to time_ns; 0: the first pass, which has only levels
  // In a slow pass (PassInterval::kCalm), the span of a quick one: a crossing first seen in it counts only for this
  // time. 0: a quick pass.
  std::uint64_t sure_ns = 0;
  std::array<std::optional<double>, kMetrics.size()> values;
  std::vector<CpuShares> cpus;  // those with known values, by number

  [[nodiscard]] std::optional<double>& of(Metric metric) { return values.at(index_of(metric)); }
  [[nodiscard]] std::optional<double> of(Metric metric) const { return values.at(index_of(metric)); }
};

// A longer pass does not show a lasting condition: the machine was suspended, or the thread did not run.
inline constexpr std::uint64_t kMaxPassSpanNs = 10'000'000'000;

}  // namespace flight
