// SPDX-License-Identifier: Apache-2.0
// The texts of /proc/stat, /proc/loadavg and /proc/pressure/* (proc(5), Documentation/accounting/psi.rst) as numbers.
// A line or number that is not as it should be is passed over: what is missing is unknown, and later kernels add more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace flight {

inline constexpr std::size_t kMaxStatCpus = 8192;      // CONFIG_NR_CPUS' own maximum
inline constexpr std::uint64_t kTicksPerSecond = 100;  // USER_HZ, on x86-64 and arm64 alike

// The columns of a cpuN line in their order; guest time is within user's.
enum class CpuColumn : std::uint8_t { user, nice, system, idle, iowait, irq, softirq, steal };
inline constexpr std::size_t kCpuColumns = 8;

struct CpuTicks {
  int cpu = 0;
  std::array<std::uint64_t, kCpuColumns> ticks{};
  [[nodiscard]] std::uint64_t of(CpuColumn column) const { return ticks.at(static_cast<std::size_t>(column)); }
};

struct ProcStat {
  std::vector<CpuTicks> cpus;  // of CPUs that are on, in the file's order
  std::optional<std::uint64_t> running, blocked;
};
// Into `out`, whose memory is used again.
void parse_proc_stat(std::string_view text, ProcStat& out);

// Tasks that run or wait for a CPU: the numerator of the fourth field.
[[nodiscard]] std::optional<std::uint64_t> parse_loadavg_running(std::string_view text);

// Microseconds since boot.
struct PressureTotals {
  std::optional<std::uint64_t> some_us, full_us;  // 5.10's cpu has no "full"
};
[[nodiscard]] PressureTotals parse_pressure(std::string_view text);

}  // namespace flight
