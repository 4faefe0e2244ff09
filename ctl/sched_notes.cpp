// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "ctl/output.hpp"
#include "ctl/sched_text.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

using Notes = std::vector<std::string>;

void add_knowledge(const SchedKnowledge& knowledge, Notes& out) {
  if (!knowledge.has_wakeups)
    out.emplace_back(
        "how long threads waited after a wake-up: wake-ups are not recorded. The profile \"deep\" has them");
  else if (!knowledge.normal_wakeups)
    out.emplace_back(
        "how long threads waited after a wake-up: only those of real-time threads are recorded. WAIT is that of "
        "threads "
        "that another one took the CPU from. The profile \"deep\" has all wake-ups");
  if (!knowledge.stacks)
    out.emplace_back("where threads were blocked: switches have no stacks. The profile \"deep\" has them");
  if (!knowledge.every_switch) out.emplace_back("most of the times: the event does not record every switch");
  out.emplace_back(
      "threads that were blocked or asleep all this time, and CPUs that never switched: they are not there");
}

void add_holes(const SchedProfile& profile, Notes& out) {
  if (profile.holes.count() > 0) {
    const auto [cpu, missing_ns] = profile.holes.worst(profile.shown.begin_ns, profile.shown.end_ns);
    if (missing_ns > 0)
      out.push_back(
          fmt::format("what happened in holes, {} of CPU {} at most; a thread that was off the CPUs meanwhile "
                      "can have run, and has a ~",
                      ns_text(missing_ns), cpu));
  }
  std::uint64_t breaks = 0, unknown_ns = 0;
  std::size_t worst = 0;
  for (std::size_t cpu = 0; cpu < profile.cpus.size(); ++cpu) {
    breaks += profile.cpus[cpu].breaks;
    unknown_ns += profile.cpus[cpu].unknown_ns;
    if (profile.cpus[cpu].unknown_ns > profile.cpus[worst].unknown_ns) worst = cpu;
  }
  if (breaks > 0)
    out.push_back(fmt::format("who ran for {} of all CPUs, {} of it on CPU {}: switches are missing in {}",
                              ns_text(unknown_ns), ns_text(profile.cpus[worst].unknown_ns), worst,
                              counted(breaks, "place")));
  if (profile.lost > 0) out.push_back(fmt::format("{} that the kernel lost", counted(profile.lost, "switch record")));
}

void add_limits(const Sidecar& sidecar, const SchedProfile& profile, Notes& out) {
  if (profile.left_out > 0)
    out.push_back(fmt::format("what was before: there are too many switches, and {} are left out",
                              counted(profile.left_out, "older record")));
  if (profile.left_out_threads > 0)
    out.push_back(fmt::format("the times of some threads: there are more than {}", SchedReplay::kMostThreads));
  if (profile.lanes.left_out_off() > 0) out.push_back(left_out_off_text(profile.lanes.left_out_off()));
  if (profile.malformed > 0)
    out.push_back(fmt::format("{} that cannot be read", counted(profile.malformed, "switch record")));
  for (const SidecarChannelCpus& channel : sidecar.channel_cpus)
    out.push_back(
        fmt::format("what threads did on CPUs that are not recorded, if \"{}\" has the switches: it records "
                    "only CPUs {}",
                    printable(channel.channel), printable(channel.cpus)));
}

}  // namespace

std::string left_out_off_text(std::uint64_t left_out) {
  return fmt::format("{} {} off the CPUs: there are too many, and the longest are kept", left_out,
                     left_out == 1 ? "stretch" : "stretches");
}

Notes sched_notes(const Sidecar& sidecar, const SchedProfile& profile, bool all_covered) {
  Notes out;
  add_knowledge(profile.knowledge, out);
  if (!all_covered)
    out.push_back(fmt::format("what ran on some CPUs before {}: their rings do not reach back further",
                              local_time(sidecar.common_window.begin)));
  add_holes(profile, out);
  add_limits(sidecar, profile, out);
  return out;
}

}  // namespace flight::ctl
