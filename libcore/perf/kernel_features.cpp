// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/kernel_features.hpp"

#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>

#include "libcore/base/kernel_file.hpp"
#include "libcore/perf/attr.hpp"

namespace flight {

std::optional<long> kernel_sysctl(const std::string& name) {
  const auto text = read_kernel_line("/proc/sys/kernel/" + name);
  if (!text) return std::nullopt;
  long value = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || stop == text->data()) return std::nullopt;
  return value;
}

namespace {

// MAJOR.MINOR.PATCH at the beginning; what is missing is 0.
std::array<unsigned, 3> kernel_numbers(std::string_view text) {
  std::array<unsigned, 3> numbers{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (unsigned& number : numbers) {
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || stop == end || *stop != '.') break;
    at = stop + 1;
  }
  return numbers;
}

}  // namespace

bool can_copy_stacks(std::string_view release, std::string_view version, bool arm64) {
  if (!arm64) return true;
  // "#1 SMP Debian 6.1.147-1 (2025-08-02)"
  constexpr std::string_view kDebian = "Debian ";
  const std::size_t debian = version.find(kDebian);
  const auto of_version = debian == std::string_view::npos ? std::array<unsigned, 3>{}
                                                           : kernel_numbers(version.substr(debian + kDebian.size()));
  const auto numbers = std::max(kernel_numbers(release), of_version);
  constexpr std::array<unsigned, 3> kFirst{6, 16, 0};
  constexpr std::array<std::array<unsigned, 3>, 6> kStable{
      {{5, 10, 239}, {5, 15, 186}, {6, 1, 142}, {6, 6, 95}, {6, 12, 35}, {6, 15, 4}}};
  return numbers >= kFirst || std::any_of(kStable.begin(), kStable.end(), [&](const auto& stable) {
           return numbers[0] == stable[0] && numbers[1] == stable[1] && numbers[2] >= stable[2];
         });
}

bool has_capability(int capability) {
  struct Free {
    void operator()(cap_t caps) const { ::cap_free(caps); }
  };
  const std::unique_ptr<std::remove_pointer_t<cap_t>, Free> caps(::cap_get_proc());
  cap_flag_value_t set = CAP_CLEAR;
  return caps && ::cap_get_flag(caps.get(), capability, CAP_EFFECTIVE, &set) == 0 && set == CAP_SET;
}

namespace {

constexpr int kUnreadableParanoid = 4;

int read_paranoid() { return static_cast<int>(kernel_sysctl("perf_event_paranoid").value_or(kUnreadableParanoid)); }

bool opens(const perf_event_attr& attr, int cpu) { return open_event(attr, cpu, "probe").has_value(); }

// Debian's and Ubuntu's kernels require CAP_SYS_ADMIN from 3 on, before they check CAP_PERFMON; other kernels do not
// use 3.
std::string missing_for_events() {
  const int paranoid = read_paranoid();
  const bool sys_admin = has_capability(CAP_SYS_ADMIN);
  if (sys_admin) return {};
  if (paranoid >= 3)
    return fmt::format(
        "this process lacks CAP_SYS_ADMIN, and kernel.perf_event_paranoid is {}: Debian's and Ubuntu's kernels require "
        "it from 3 on; give it CAP_SYS_ADMIN, or set sysctl kernel.perf_event_paranoid=2 and give it CAP_PERFMON",
        paranoid);
  if (paranoid >= 0 && !has_capability(CAP_PERFMON))
    return fmt::format(
        "this process lacks CAP_PERFMON, and kernel.perf_event_paranoid is {}: run it as root or give it CAP_PERFMON",
        paranoid);
  return {};
}

std::string missing_for_locked_memory() {
  if (read_paranoid() == -1 || has_capability(CAP_IPC_LOCK)) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string memlock =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur / 1024);
  return fmt::format(
      "this process lacks CAP_IPC_LOCK, so its rings must fit into sysctl kernel.perf_event_mlock_kb ({} KiB for "
      "each CPU, for all of this user's rings) and RLIMIT_MEMLOCK ({}): give it CAP_IPC_LOCK, raise one of them, or "
      "make the rings smaller",
      kernel_sysctl("perf_event_mlock_kb").value_or(0), memlock);
}

}  // namespace

void KernelFeatures::read_limits() {
  constexpr long kMostStack = std::numeric_limits<std::uint16_t>::max();
  if (const auto stack = kernel_sysctl("perf_event_max_stack"))
    max_stack = static_cast<std::uint16_t>(std::clamp(*stack, 0L, kMostStack));
  if (const auto contexts = kernel_sysctl("perf_event_max_contexts_per_stack"))
    max_contexts = static_cast<std::uint16_t>(std::clamp(*contexts, 0L, kMostStack));
  if (const auto rate = kernel_sysctl("perf_event_max_sample_rate"); rate && *rate > 0)
    max_sample_rate = static_cast<std::uint64_t>(*rate);
}

KernelFeatures KernelFeatures::probe(int cpu) {
  KernelFeatures features;
  features.paranoid = read_paranoid();
  features.read_limits();
  utsname names{};
  ::uname(&names);
#if defined(__aarch64__)
  constexpr bool kArm64 = true;
#else
  constexpr bool kArm64 = false;
#endif
  features.copies_stacks = can_copy_stacks(names.release, names.version, kArm64);

  // Tests one new feature at a time on top of an event that every kernel since 5.10 opens.
  const perf_event_attr plain = owner_attr(KernelFeatures{});
  perf_event_attr attr = plain;
  attr.read_format |= PERF_FORMAT_LOST;
  features.format_lost = opens(attr, cpu);
  attr = plain;
  attr.sample_type |= PERF_SAMPLE_CGROUP;
  attr.cgroup = 1;
  features.sample_cgroup = opens(attr, cpu);
  attr = plain;
  attr.type = PERF_TYPE_HARDWARE;
  attr.config = PERF_COUNT_HW_CPU_CYCLES;
  attr.freq = 1;
  attr.sample_freq = 1;  // the smallest value of kernel.perf_event_max_sample_rate
  features.hardware_pmu = opens(attr, cpu);
  return features;
}

std::string explain_privilege(int error_number) {
  if (error_number != EACCES && error_number != EPERM) return {};
  std::string text = missing_for_events();
  if (error_number != EPERM) return text;
  // EPERM can also mean that mmap exceeded the locked memory (perf_event_open(2)); EACCES cannot.
  const std::string memory = missing_for_locked_memory();
  if (!text.empty() && !memory.empty()) text += "; ";
  return text + memory;
}

}  // namespace flight
