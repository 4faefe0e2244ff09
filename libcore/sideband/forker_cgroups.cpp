// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/forker_cgroups.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "libcore/sideband/process_table.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

struct Unsampled {
  std::uint32_t pid = 0;
  std::uint64_t count = 0;
  EventTime first_ns = ~EventTime{0};
  Comm comm{};
  bool one_name = true;
};

std::vector<Unsampled> forkers(const TrackerExport& window, const std::unordered_set<std::uint32_t>& sampled) {
  std::unordered_map<std::uint32_t, Unsampled> by_pid;
  const auto add = [&](const ForkCount& one, std::uint32_t pid, const Comm& comm) {
    if (pid == 0 || sampled.contains(pid)) return;
    Unsampled& found = by_pid[pid];
    if (found.pid == 0) found.comm = comm;
    found.pid = pid;
    found.count += one.count;
    // A slice's begin is inexact.
    found.first_ns = std::min(found.first_ns, std::max(one.begin_ns, one.end_ns));
    found.one_name = found.one_name && found.comm == comm;
  };
  for (const ForkCount& one : window.forks) {
    add(one, one.pid, one.comm);
    add(one, one.shell, one.shell_comm);
  }
  std::vector<Unsampled> out;
  for (const auto& [pid, found] : by_pid)
    if (found.one_name) out.push_back(found);
  std::sort(out.begin(), out.end(), [](const Unsampled& a, const Unsampled& b) {
    return a.count != b.count ? a.count > b.count : a.pid < b.pid;
  });
  if (out.size() > kMostForkersRead) out.resize(kMostForkersRead);
  return out;
}

}  // namespace

void read_forker_cgroups(TrackerExport& window, const std::unordered_set<std::uint32_t>& sampled,
                         const ClockHistory& clock, const std::string& root) {
  for (const Unsampled& forker : forkers(window, sampled)) {
    ProcessInfo now;
    if (!read_process(forker.pid, now, root) || now.cgroup.empty()) continue;
    if (now.cgroup == "/.." || now.cgroup.starts_with("/../")) continue;  // outside of this cgroup namespace
    const EventTime started_ns = clock.event_at_boottime(now.started_boottime_ns);
    const Comm& comm = forker.comm;
    if (started_ns > forker.first_ns + kStartToleranceNs || is_lost_comm(comm) || now.comm != name_of(comm)) continue;
    window.forker_cgroups[forker.pid].path = std::move(now.cgroup);
  }
}

}  // namespace flight
