// SPDX-License-Identifier: Apache-2.0
// Shares out of the ticks of /proc/stat. A CPU has 10 ticks in 100 ms, so a share is of what all its columns sum up
// to; and its counters do go backwards: iowait always did (proc(5)), idle when a CPU comes back. Rather no value than
// a wrong one: a CPU that was away, jumped, or has too few ticks to tell is left out of this pass.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/trigger/metric_pass.hpp"
#include "libcore/trigger/proc_stat.hpp"

namespace flight {

class CpuUsage {
 public:
  // Fills `pass`.cpus and its cpu.* metrics with what went on since the call before. `stat`'s at `pass`.time_ns.
  void measure(const ProcStat& stat, MetricPass& pass);

 private:
  struct Cpu {
    bool known = false;
    CpuTicks base;
    EventTime base_ns = 0;
    std::uint64_t seen = 0;  // the last measurement it was in
  };
  using Columns = std::array<std::uint64_t, kCpuColumns>;
  [[nodiscard]] std::optional<Columns> advance(const CpuTicks& now, EventTime time_ns);

  std::vector<Cpu> cpus_;  // by number
  std::uint64_t measurements_ = 0;
};

}  // namespace flight
