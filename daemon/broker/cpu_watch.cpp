// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/cpu_watch.hpp"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>
#include <utility>

#include "libcore/sysinfo/cpus.hpp"

namespace flight::broker {
namespace {

constexpr unsigned kKernelGroup = 1;  // uevents of the kernel, not udev's
constexpr EventTime kWatchEveryNs = std::chrono::nanoseconds(kWatchEvery).count();
// A probe interrupts every CPU, so it is rare; it detects a suspend without any other sign.
constexpr EventTime kProbeEveryNs = 30'000'000'000;
constexpr EventTime kSleepNs = 1'000'000;  // CLOCK_BOOTTIME - CLOCK_MONOTONIC only moves in a suspend

EventTime slept() {
  timespec boot{};
  timespec monotonic{};
  ::clock_gettime(CLOCK_MONOTONIC, &monotonic);
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  const auto ns = [](const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
  return static_cast<EventTime>(ns(boot) - ns(monotonic));
}

// Matches "offline@/devices/system/cpu/cpu2\0ACTION=…". A suspend causes no uevent of a CPU, but on x86 some of
// machine check units.
bool is_of_a_cpu(std::string_view uevent) {
  return uevent.find("@/devices/system/cpu/cpu") != std::string_view::npos ||
         uevent.find("@/devices/system/machinecheck/") != std::string_view::npos;
}

// Matches "add@/module/ext4\0ACTION=…".
bool is_of_a_module(std::string_view uevent) { return uevent.find("@/module/") != std::string_view::npos; }

}  // namespace

CpuWatch CpuWatch::open(std::string root) {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kKernelGroup;
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
  CpuWatch watch(std::move(socket), std::move(root));
  watch.looked_ns_ = watch.tried_ns_ = watch.probed_ns_ = monotonic_now();
  watch.slept_ns_ = slept();
  return watch;
}

// True if a uevent is about a CPU, or if some were lost. Remembers uevents of modules.
bool CpuWatch::take_uevents() {
  bool found = false;
  std::array<char, 8192> text{};
  while (uevents_) {
    const ssize_t bytes = ::recv(uevents_.get(), text.data(), text.size(), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == ENOBUFS) found = module_news_ = true;
    if (bytes < 0) return found;
    const std::string_view uevent(text.data(), static_cast<std::size_t>(bytes));
    found = found || is_of_a_cpu(uevent);
    module_news_ = module_news_ || is_of_a_module(uevent);
  }
  return found;
}

std::optional<CpuWatch::Look> CpuWatch::look() {
  const EventTime now_ns = monotonic_now();
  const bool noticed = take_uevents();
  suspected_ = suspected_ || noticed;
  // A failed check is repeated after a second, not at once: a poll of fd() would spin.
  if (!noticed && now_ns - tried_ns_ < kWatchEveryNs) return std::nullopt;
  tried_ns_ = now_ns;
  const EventTime slept_ns = slept();
  const EventTime difference_ns = slept_ns > slept_ns_ ? slept_ns - slept_ns_ : slept_ns_ - slept_ns;
  suspected_ = suspected_ || difference_ns > kSleepNs;
  slept_ns_ = slept_ns;
  auto online = online_cpus(root_);
  if (!online) return std::nullopt;  // sysfs cannot be read now; the next look has the same reasons
  const bool suspected = std::exchange(suspected_, false);
  Look out{.online = std::move(*online), .probe = Probe::none, .good_ns = looked_ns_};
  if (suspected) {
    out.probe = Probe::suspected;
  } else if (now_ns - probed_ns_ >= kProbeEveryNs) {
    out.probe = Probe::routine;
    out.good_ns = probed_ns_;
  }
  looked_ns_ = now_ns;
  if (out.probe != Probe::none) probed_ns_ = now_ns;
  return out;
}

}  // namespace flight::broker
