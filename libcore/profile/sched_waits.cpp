// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sched_waits.hpp"

#include <algorithm>

namespace flight {

SchedWaits::SchedWaits(const std::vector<std::uint32_t>& threads, EventTime begin_ns, EventTime end_ns)
    : begin_ns_(begin_ns), end_ns_(end_ns) {
  for (const std::uint32_t thread : threads) chosen_.try_emplace(thread);
}

void SchedWaits::count(const Waiting& waiting, const Cpu& cpu, EventTime until_ns) {
  if (cpu.runs == kNobody) return;
  const EventTime from_ns = std::max({waiting.since_ns, cpu.since_ns, begin_ns_});
  until_ns = std::min(until_ns, end_ns_);
  if (from_ns >= until_ns) return;
  auto& others = chosen_.at(waiting.thread).others;
  if (others.size() < kMostOthers || others.contains(cpu.runs)) others[cpu.runs] += until_ns - from_ns;
}

void SchedWaits::runs(std::uint32_t cpu, std::uint32_t thread, EventTime time_ns, bool thread_before_is_known) {
  if (cpu >= cpus_.size()) cpus_.resize(cpu + std::size_t{1});
  Cpu& on = cpus_[cpu];
  if (thread_before_is_known)
    for (const Waiting& waiting : on.waiting) count(waiting, on, time_ns);
  on.runs = thread;
  on.since_ns = time_ns;
}

void SchedWaits::waits(std::uint32_t thread, std::uint32_t cpu, EventTime time_ns) {
  const auto found = chosen_.find(thread);
  if (found == chosen_.end() || found->second.waits) return;
  if (cpu >= cpus_.size()) cpus_.resize(cpu + std::size_t{1});
  found->second.waits = true;
  found->second.cpu = cpu;
  cpus_[cpu].waiting.push_back({.thread = thread, .since_ns = time_ns});
}

void SchedWaits::stops(std::uint32_t thread, EventTime time_ns) {
  const auto found = chosen_.find(thread);
  if (found == chosen_.end() || !found->second.waits) return;
  Cpu& on = cpus_[found->second.cpu];
  const auto waiting =
      std::find_if(on.waiting.begin(), on.waiting.end(), [thread](const Waiting& one) { return one.thread == thread; });
  count(*waiting, on, time_ns);
  on.waiting.erase(waiting);
  found->second.waits = false;
}

void SchedWaits::finish() {
  for (const auto& [thread, chosen] : chosen_) stops(thread, end_ns_);
}

std::vector<SchedInstead> SchedWaits::instead_of(std::uint32_t thread, std::size_t most) const {
  std::vector<SchedInstead> out;
  const auto found = chosen_.find(thread);
  if (found == chosen_.end()) return out;
  for (const auto& [other, ns] : found->second.others) out.push_back({.thread = other, .ns = ns});
  std::sort(out.begin(), out.end(), [](const SchedInstead& a, const SchedInstead& b) {
    return a.ns != b.ns ? a.ns > b.ns : a.thread < b.thread;
  });
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace flight
