// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/locked_memory.hpp"

#include <sys/capability.h>
#include <sys/resource.h>

#include <algorithm>

#include "libcore/base/units.hpp"
#include "libcore/recorder/channel_cpus.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/recorder/ring_memory.hpp"

namespace flight {
namespace {

// With the control page of each ring.
std::uint64_t locked_bytes(const RecordingPlan& plan, std::size_t cpu_count) {
  std::uint64_t bytes = (plan.sideband_ring_bytes + page_bytes()) * cpu_count;
  for (const ChannelPlan& channel : plan.channels)
    bytes += (channel.ring_bytes + page_bytes()) * most_rings(channel.cpus, cpu_count);
  return bytes + plan.watched_triggers() * (trigger_ring_bytes() + page_bytes()) * cpu_count;
}

}  // namespace

std::optional<std::uint64_t> locked_memory_limit(const KernelFeatures& features, std::size_t cpu_count) {
  constexpr int kUnlimited = -1;
  constexpr long kDefaultKb = 516;
  if (features.paranoid == kUnlimited || has_capability(CAP_IPC_LOCK)) return std::nullopt;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const long kb = kernel_sysctl("perf_event_mlock_kb").value_or(kDefaultKb);
  return static_cast<std::uint64_t>(std::max(kb, 0L)) * 1024 * cpu_count + limit.rlim_cur;
}

void fit_locked_memory(RecordingPlan& plan, std::size_t cpu_count, std::uint64_t limit_bytes) {
  const std::uint64_t sideband_bytes = plan.sideband_ring_bytes;
  std::vector<std::uint64_t> sizes;
  for (const ChannelPlan& channel : plan.channels) sizes.push_back(channel.ring_bytes);
  while (locked_bytes(plan, cpu_count) > limit_bytes / 2) {
    std::uint64_t* largest = plan.sideband_ring_bytes > kLeastSidebandRingBytes ? &plan.sideband_ring_bytes : nullptr;
    for (ChannelPlan& channel : plan.channels)
      if (channel.ring_bytes > kLeastRingBytes && (largest == nullptr || channel.ring_bytes > *largest))
        largest = &channel.ring_bytes;
    if (largest == nullptr) break;  // the kernel refuses them
    *largest /= 2;
  }
  std::string halved;
  const auto add = [&](const std::string& whose, std::uint64_t from, std::uint64_t to) {
    if (from != to)
      halved +=
          fmt::format("{}{} {} instead of {}", halved.empty() ? "" : ", ", whose, format_bytes(to), format_bytes(from));
  };
  add("the sideband's", sideband_bytes, plan.sideband_ring_bytes);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    add(fmt::format("channel '{}'", plan.channels[i].config.name), sizes[i], plan.channels[i].ring_bytes);
  if (!halved.empty())
    plan.warnings.push_back(
        fmt::format("the kernel locks at most {} for rings of this user, which lacks CAP_IPC_LOCK, and half of that is "
                    "for other perf "
                    "programs: rings are smaller ({} on each CPU): give flightd-broker CAP_IPC_LOCK, or raise "
                    "LimitMEMLOCK= (ulimit -l) or sysctl "
                    "kernel.perf_event_mlock_kb",
                    format_bytes(limit_bytes), halved));
}

}  // namespace flight
