// SPDX-License-Identifier: Apache-2.0
// Parses /proc/stat, /proc/loadavg and /proc/pressure/* (proc(5), Documentation/accounting/psi.rst). An unexpected
// line or number is ignored: missing values are unknown, and later kernels add more.
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

// The columns of a cpuN line in order; user includes guest time.
enum class CpuColumn : std::uint8_t { user, nice, system, idle, iowait, irq, softirq, steal };
inline constexpr std::size_t kCpuColumns = 8;

struct CpuTicks {
  int cpu = 0;
  std::array<std::uint64_t, kCpuColumns> ticks{};
  std::uint64_t guest = 0, guest_nice = 0;  // parts of user and nice
  [[nodiscard]] std::uint64_t of(CpuColumn column) const { return ticks.at(static_cast<std::size_t>(column)); }
};

struct ProcStat {
  std::vector<CpuTicks> cpus;  // of online CPUs, in the file's order
  std::optional<std::uint64_t> running, blocked;
};
// Parses into `out`, whose memory is reused.
void parse_proc_stat(std::string_view text, ProcStat& out);

// Tasks that run or wait for a CPU: the numerator of the fourth field.
[[nodiscard]] std::optional<std::uint64_t> parse_loadavg_running(std::string_view text);

// Microseconds since boot.
struct PressureTotals {
  std::optional<std::uint64_t> some_us, full_us;  // 5.10's cpu has no "full"
};
[[nodiscard]] PressureTotals parse_pressure(std::string_view text);

}  // namespace flight
