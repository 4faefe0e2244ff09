// SPDX-License-Identifier: Apache-2.0
// The features that this kernel and this process have for perf events: probed once at start, then a plain value, of
// which only the two limits change.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flight {

struct KernelFeatures {
  bool sample_cgroup = false;      // PERF_SAMPLE_CGROUP and attr.cgroup: 5.7 with CONFIG_CGROUP_PERF
  bool format_lost = false;        // PERF_FORMAT_LOST: 6.0
  bool hardware_pmu = false;       // cycles opens
  int paranoid = 2;                // /proc/sys/kernel/perf_event_paranoid; 4 if it cannot be read
  std::uint16_t max_stack = 127;   // /proc/sys/kernel/perf_event_max_stack
  std::uint16_t max_contexts = 8;  // /proc/sys/kernel/perf_event_max_contexts_per_stack
  bool copies_stacks = true;       // PERF_SAMPLE_STACK_USER of all processes does no harm (can_copy_stacks())
  // /proc/sys/kernel/perf_event_max_sample_rate, which the kernel lowers when sampling takes too much time.
  std::uint64_t max_sample_rate = std::numeric_limits<std::uint64_t>::max();

  // Opens and closes a few events on CPU `cpu`, which must be online, as the calling process.
  [[nodiscard]] static KernelFeatures probe(int cpu);
  // Reads max_stack, max_contexts and max_sample_rate again.
  void read_limits();
};

// Whether samples of all processes may copy the user's stack. On arm64 that can crash a kernel without the commit
// 4f6fc7821283 ("perf: Fix sample vs do_exit()"): a task is sampled after it gave its memory back. It is in Linux 6.16,
// 6.15.4, 6.12.35, 6.6.95, 6.1.142, 5.15.186 and 5.10.239. `release`, `version`: uname -r and -v; Debian names the
// stable release only in the latter.
[[nodiscard]] bool can_copy_stacks(std::string_view release, std::string_view version, bool arm64);

// A number in /proc/sys/kernel; nullopt if it cannot be read.
[[nodiscard]] std::optional<long> kernel_sysctl(const std::string& name);
// Whether this process can use the capability (CAP_PERFMON, …) now, not whether it could raise it.
[[nodiscard]] bool has_capability(int capability);

// Why perf_event_open, or mapping its ring, was refused to this process, as a sentence that names the missing
// capability and the value of perf_event_paranoid; empty if nothing is known to be missing.
[[nodiscard]] std::string explain_privilege(int error_number);

}  // namespace flight
