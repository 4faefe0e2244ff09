// SPDX-License-Identifier: Apache-2.0
// The features that this kernel and this process have for perf events: probed once at start, then a plain value, of
// which only the two limits change.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace flight {

struct KernelFeatures {
  bool sample_cgroup = false;     // PERF_SAMPLE_CGROUP and attr.cgroup: 5.7 with CONFIG_CGROUP_PERF
  bool format_lost = false;       // PERF_FORMAT_LOST: 6.0
  bool hardware_pmu = false;      // cycles opens
  int paranoid = 2;               // /proc/sys/kernel/perf_event_paranoid; 4 if it cannot be read
  std::uint16_t max_stack = 127;  // /proc/sys/kernel/perf_event_max_stack
  // /proc/sys/kernel/perf_event_max_sample_rate, which the kernel lowers when sampling takes too much time.
  std::uint64_t max_sample_rate = std::numeric_limits<std::uint64_t>::max();

  // Opens and closes a few events on CPU `cpu`, which must be online, as the calling process.
  [[nodiscard]] static KernelFeatures probe(int cpu);
  // Reads max_stack and max_sample_rate again.
  void read_limits();
};

// A number in /proc/sys/kernel; nullopt if it cannot be read.
[[nodiscard]] std::optional<long> kernel_sysctl(const std::string& name);
// Whether this process can use the capability (CAP_PERFMON, …) now, not whether it could raise it.
[[nodiscard]] bool has_capability(int capability);

// Why perf_event_open, or mapping its ring, was refused to this process, as a sentence that names the missing
// capability and the value of perf_event_paranoid; empty if nothing is known to be missing.
[[nodiscard]] std::string explain_privilege(int error_number);

}  // namespace flight
