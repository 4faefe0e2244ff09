// SPDX-License-Identifier: Apache-2.0
// CPU shares from the ticks of /proc/stat. A CPU has 10 ticks in 100 ms, so a share is relative to the sum of its
// columns. Counters can go backwards: iowait (proc(5)), and idle when a CPU comes back. A CPU that was offline, whose
// counters went back or jumped, or that has too few ticks is left out of this pass.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/sysinfo/proc_stat.hpp"
#include "libcore/trigger/metric_pass.hpp"

namespace flight {

class CpuUsage {
 public:
  // Sets `pass`.cpus and its cpu.* metrics for the time since the previous call. `stat` was read at `pass`.time_ns.
  void measure(const ProcStat& stat, MetricPass& pass);

 private:
  struct Cpu {
    bool known = false;
    CpuTicks base;
    EventTime base_ns = 0;
    std::uint64_t seen = 0;  // the last measurement that contained it
  };
  using Columns = std::array<std::uint64_t, kCpuColumns>;
  [[nodiscard]] std::optional<Columns> advance(const CpuTicks& now, EventTime time_ns);

  std::vector<Cpu> cpus_;  // by number
  std::uint64_t measurements_ = 0;
};

}  // namespace flight
