// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/who_forked.hpp"

#include <algorithm>

namespace flight {
namespace {

// The process that made these forks: the only one that had the pid at that time, or the one with this name.
const Lives::Life* life_of(const ForkCount& forks, std::uint32_t pid, std::uint32_t comm, const Lives& lives) {
  const EventTime end_ns = std::max(forks.begin_ns, forks.end_ns);
  const std::uint32_t first = lives.number_at(pid, forks.begin_ns);
  const std::uint32_t last = lives.number_at(pid, end_ns);
  const Lives::Life* out = nullptr;
  for (std::uint32_t number = first; number <= last; ++number) {
    const Lives::Life* life = lives.find(pid, number);
    if (life == nullptr || life->begin_ns > end_ns) continue;
    if (first != last && life->comm != comm) continue;
    if (out != nullptr) return nullptr;
    out = life;
  }
  return out;
}

EventTime middle_of(const ForkCount& forks) {
  return forks.begin_ns + (std::max(forks.begin_ns, forks.end_ns) - forks.begin_ns) / 2;
}

}  // namespace

WhoForked::Known WhoForked::known(const ForkCount& forks, std::uint32_t pid, const Comm& comm, Lives& lives) const {
  if (pid == 0) return {};  // not the idle tasks
  const std::uint32_t name = lives.comm_id(comm);
  const auto [program, kernel] = lives.forker(pid, name);
  Known out{.by = {.pid = pid, .comm = comm, .program = program, .kernel = kernel}};
  if (const Lives::Life* life = life_of(forks, pid, name, lives)) {
    out.by.program = life->program;
    out.by.kernel = life->kernel;
    out.by.process = life->process;
    const EventTime time_ns = middle_of(forks);
    if (inherited_.was_there(pid, life->process, time_ns))
      out.by.unit = units_.at(pid, life->process, time_ns, inherited_.is_moved(pid, life->process));
    out.has_unit = true;
    return out;
  }
  if (lives.is_sampled(pid)) return out;  // another process, or it is not known which
  const auto cgroup = sideband_.forker_cgroups.find(pid);
  if (cgroup != sideband_.forker_cgroups.end() && forks.begin_ns >= cgroup->second.since_ns) {
    out.by.unit = lives.unit_of_path(cgroup->second.path);
    out.has_unit = true;
  } else if (forks.begin_ns == forks.end_ns) {
    out.by.unit = inherited_.at(pid, forks.begin_ns);
  }
  return out;
}

ForkedBy WhoForked::made(const ForkCount& forks, Lives& lives) const {
  const Known own = known(forks, forks.pid, forks.comm, lives);
  if (forks.shell == 0) return own.by;
  const ForkedBy shell = known(forks, forks.shell, forks.shell_comm, lives).by;
  const InheritedUnits::Place place{.pid = shell.pid, .process = shell.process, .unit = shell.unit};
  if (forks.pid == 0) {
    if (inherited_.keeps_its_copies(place)) return shell;
    return {.program = shell.program, .kernel = shell.kernel};  // its copies execute what it does
  }
  const bool is_subshell =
      own.has_unit ? own.by.unit == shell.unit : inherited_.is_subshell(forks.pid, place, forks.begin_ns);
  return is_subshell ? shell : own.by;
}

}  // namespace flight
