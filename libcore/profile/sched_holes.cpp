// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sched_holes.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace flight {
namespace {

std::set<std::string> other_channels(const Sidecar& sidecar, std::span<const std::uint64_t> records) {
  std::set<std::string> out;
  for (const SidecarRing& ring : sidecar.rings) {
    const auto cpu = static_cast<std::size_t>(std::max(ring.cpu, 0));
    if (cpu < records.size() && ring.samples < records[cpu]) out.insert(ring.channel);
  }
  return out;
}

}  // namespace

SchedHoles::SchedHoles(const Sidecar& sidecar, std::span<const std::uint64_t> records) {
  const std::set<std::string> others = other_channels(sidecar, records);
  for (const SidecarHole& hole : sidecar.holes) {
    if (hole.cpu < 0 || hole.end_ns < hole.begin_ns || others.contains(hole.channel)) continue;
    if (++count_ > kMostHoles) continue;
    all_.emplace_back(hole.begin_ns, hole.end_ns);
    of_cpu_[static_cast<std::uint32_t>(hole.cpu)].emplace_back(hole.begin_ns, hole.end_ns);
  }
  all_ = merged(std::move(all_));
  for (auto& [cpu, stretches] : of_cpu_) stretches = merged(std::move(stretches));
}

SchedHoles::Stretches SchedHoles::merged(Stretches stretches) {
  std::sort(stretches.begin(), stretches.end());
  Stretches out;
  for (const auto& [begin_ns, end_ns] : stretches)
    if (!out.empty() && begin_ns <= out.back().second)
      out.back().second = std::max(out.back().second, end_ns);
    else
      out.emplace_back(begin_ns, end_ns);
  return out;
}

bool SchedHoles::overlaps(const Stretches& stretches, EventTime begin_ns, EventTime end_ns) {
  const auto found = std::partition_point(stretches.begin(), stretches.end(),
                                          [&](const auto& stretch) { return stretch.second <= begin_ns; });
  return found != stretches.end() && found->first < end_ns;
}

bool SchedHoles::any_on(std::uint32_t cpu, EventTime begin_ns, EventTime end_ns) const {
  const auto found = of_cpu_.find(cpu);
  return found != of_cpu_.end() && overlaps(found->second, begin_ns, end_ns);
}

std::pair<std::uint32_t, std::uint64_t> SchedHoles::worst(EventTime begin_ns, EventTime end_ns) const {
  std::pair<std::uint32_t, std::uint64_t> out;
  for (const auto& [cpu, stretches] : of_cpu_) {
    std::uint64_t missing_ns = 0;
    for (const auto& [from_ns, until_ns] : stretches) {
      const EventTime first = std::max(from_ns, begin_ns), last = std::min(until_ns, end_ns);
      if (first < last) missing_ns += last - first;
    }
    if (missing_ns > out.second) out = {cpu, missing_ns};
  }
  return out;
}

}  // namespace flight
