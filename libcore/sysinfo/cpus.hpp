// SPDX-License-Identifier: Apache-2.0
// CPUs, their topology and NUMA nodes from sysfs. `root` is "" or a test's directory with a fake /sys in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// "0-3,8" as {0,1,2,3,8}; at most 65,536 CPUs.
[[nodiscard]] Result<std::vector<int>> parse_cpu_list(std::string_view text);
[[nodiscard]] std::string format_cpu_list(const std::vector<int>& cpus);

// Where sysfs is not mounted, or a server's file system covers it, those of /proc/stat.
[[nodiscard]] Result<std::vector<int>> online_cpus(const std::string& root = "");
// Those that run without a timer tick (the kernel's option nohz_full=); empty: there are none. `sysfs`: where sysfs is.
[[nodiscard]] std::vector<int> nohz_full_cpus(const std::string& sysfs = "/sys");
// The number of possible CPUs, offline ones included.
[[nodiscard]] std::uint32_t available_cpus(const std::string& root = "");

struct CpuTopology {
  struct Cpu {
    std::uint32_t core_id = 0, package_id = 0, die_id = 0;
    std::string core_siblings, thread_siblings, die_siblings;  // cpu lists; empty for an offline CPU
  };
  std::vector<Cpu> cpus;  // by CPU number, available_cpus() of them
};
[[nodiscard]] CpuTopology cpu_topology(const std::string& root = "");

struct NumaNode {
  std::uint32_t node = 0;
  std::uint64_t total_kb = 0, free_kb = 0;
  std::string cpu_list;
};
[[nodiscard]] std::vector<NumaNode> numa_nodes(const std::string& root = "");

// Every perf PMU: type number and name (/sys/bus/event_source/devices/*/type).
[[nodiscard]] std::vector<std::pair<std::uint32_t, std::string>> pmus(const std::string& root = "");

}  // namespace flight
