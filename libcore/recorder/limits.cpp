// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/limits.hpp"

#include <sys/resource.h>

#include <cerrno>

#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/units.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/recorder/channel_cpus.hpp"

namespace flight {
namespace {

constexpr const char* kMoreDescriptors =
    "raise LimitNOFILE= in flightd-broker's unit (ulimit -n by hand), or record fewer events";

}  // namespace

std::size_t fds_needed(const RecordingPlan& plan, std::size_t cpu_count) {
  constexpr std::size_t kOthers = 32;
  constexpr std::size_t kOfTrigger = 2;
  std::size_t needed = (1 + kOfTrigger * plan.watched_triggers()) * cpu_count + kOthers;
  for (const ChannelPlan& channel : plan.channels)
    needed += (1 + channel.events.size()) * most_rings(channel.cpus, cpu_count);
  return needed;
}

void fit_descriptors(RecordingPlan& plan, std::size_t cpu_count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::size_t needed = fds_needed(plan, cpu_count);
  const std::string why = fmt::format("this configuration needs about {} descriptors, RLIMIT_NOFILE is {}: {}", needed,
                                      limit.rlim_cur, kMoreDescriptors);
  std::string names;
  for (auto trigger = plan.triggers.rbegin(); trigger != plan.triggers.rend(); ++trigger) {
    if (fds_needed(plan, cpu_count) <= limit.rlim_cur) break;
    if (!trigger->off.empty()) continue;
    trigger->off = why;
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", trigger->name);
  }
  if (!names.empty()) plan.warnings.push_back(fmt::format("kernel-event triggers are off ({}): {}", names, why));
}

Result<void> check_ring_count(const RecordingPlan& plan, std::size_t cpu_count) {
  std::size_t needed = (1 + plan.watched_triggers()) * cpu_count;
  for (const ChannelPlan& channel : plan.channels) needed += most_rings(channel.cpus, cpu_count);
  if (needed <= kMaxRings) return {};
  return fail(std::errc::argument_list_too_long, "{} and {} on {} need more than {} rings, the maximum",
              counted(plan.channels.size(), "channel"), counted(plan.watched_triggers(), "kernel-event trigger"),
              counted(cpu_count, "CPU"), kMaxRings);
}

Failure explain_limit(Error error, std::size_t fd_count) {
  if (error.errno_value() == ENFILE) {
    error.what += descriptor_advice(error);
  } else if (error.errno_value() == EMFILE) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    error.what += fmt::format("; this configuration needs about {} descriptors, RLIMIT_NOFILE is {}: {}", fd_count,
                              limit.rlim_cur, kMoreDescriptors);
  }
  return Failure(std::move(error));
}

}  // namespace flight
