// SPDX-License-Identifier: Apache-2.0
// What one look at the machine gave: every metric as a plain number over the time since the look before. What is not
// known is absent, never zero.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/config/metrics.hpp"

namespace flight {

// One CPU's time in percent of what it had.
struct CpuShares {
  int cpu = 0;
  double busy = 0;  // neither idle nor waiting for I/O; stolen time is busy: somebody wanted to run
  double user = 0, system = 0;
  double irq = 0;  // with soft interrupts
  double steal = 0, iowait = 0;
};

struct MetricPass {
  EventTime time_ns = 0;
  std::uint64_t span_ns = 0;  // what it covers, up to time_ns; 0: the first look, which knows levels only
  std::array<std::optional<double>, kMetrics.size()> values;
  std::vector<CpuShares> cpus;  // those that are known now, by number

  [[nodiscard]] std::optional<double>& of(Metric metric) { return values.at(index_of(metric)); }
  [[nodiscard]] std::optional<double> of(Metric metric) const { return values.at(index_of(metric)); }
};

// A pass over more than this is no evidence of anything lasting: the machine slept, or nobody looked.
inline constexpr std::uint64_t kMaxPassSpanNs = 10'000'000'000;

}  // namespace flight
