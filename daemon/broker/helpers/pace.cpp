// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/helpers/pace.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <ctime>
#include <string>
#include <utility>

#include "libcore/base/files.hpp"

namespace flight::broker {

std::uint64_t used_cpu_ns(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(used.tv_nsec);
}

bool Pace::goes_on() {
  const std::uint64_t before_ns = std::exchange(used_ns_, used_cpu_ns(pid_));
  return used_ns_ != before_ns || state() == 'R';
}

// The letter behind the name in proc_pid_stat(5).
char Pace::state() const {
  constexpr std::size_t kMaxStatBytes = 4096;
  const auto text = read_file(fmt::format("/proc/{}/stat", pid_), kMaxStatBytes);
  const std::size_t end = text ? text->rfind(") ") : std::string::npos;
  return end == std::string::npos || end + 2 >= text->size() ? '?' : (*text)[end + 2];
}

}  // namespace flight::broker
