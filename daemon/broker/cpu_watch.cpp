// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/cpu_watch.hpp"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>

#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

constexpr unsigned kKernelGroup = 1;  // uevents as the kernel sends them, not udev's
constexpr EventTime kWatchEveryNs = std::chrono::nanoseconds(kWatchEvery).count();
// A probe interrupts every CPU: seldom, for a suspend that left no other sign.
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

// "offline@/devices/system/cpu/cpu2\0ACTION=…". A suspend tells of no CPU, but on x86 of their machine check units.
bool is_of_a_cpu(std::string_view uevent) {
  return uevent.find("@/devices/system/cpu/cpu") != std::string_view::npos ||
         uevent.find("@/devices/system/machinecheck/") != std::string_view::npos;
}

}  // namespace

CpuWatch CpuWatch::open() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kKernelGroup;
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
  CpuWatch watch(std::move(socket));
  watch.looked_ns_ = watch.probed_ns_ = monotonic_now();
  watch.slept_ns_ = slept();
  return watch;
}

// True where one is of a CPU, or some were lost.
bool CpuWatch::take_uevents() {
  bool found = false;
  std::array<char, 8192> text{};
  while (uevents_) {
    const ssize_t bytes = ::recv(uevents_.get(), text.data(), text.size(), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return found || errno == ENOBUFS;
    found = found || is_of_a_cpu({text.data(), static_cast<std::size_t>(bytes)});
  }
  return found;
}

std::optional<CpuWatch::Look> CpuWatch::look() {
  const EventTime now_ns = monotonic_now();
  bool suspected = take_uevents();
  if (!suspected && now_ns - looked_ns_ < kWatchEveryNs) return std::nullopt;
  const EventTime slept_ns = slept();
  const EventTime difference_ns = slept_ns > slept_ns_ ? slept_ns - slept_ns_ : slept_ns_ - slept_ns;
  suspected = suspected || difference_ns > kSleepNs;
  slept_ns_ = slept_ns;
  auto online = online_cpus();
  if (!online) return std::nullopt;  // sysfs is not read now: the next time
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

}  // namespace flight
