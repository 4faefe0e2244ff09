// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/unit_times.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace flight {
namespace {

// The next sample of a ring; rings are read together, in the order of time.
struct NextSample {
  EventTime time_ns = 0;
  std::size_t ring = 0, index = 0;

  friend bool operator>(const NextSample& a, const NextSample& b) { return a.time_ns > b.time_ns; }
};
using SampleQueue = std::priority_queue<NextSample, std::vector<NextSample>, std::greater<>>;

void push_next_sample(SampleQueue& queue, const Selection& selection, std::size_t ring, std::size_t index) {
  const RingSelection& from = selection.rings[ring];
  while (index < from.last && from.walk.records[index].type != PERF_RECORD_SAMPLE) ++index;
  if (index < from.last) queue.push({from.walk.records[index].time_ns, ring, index});
}

}  // namespace

UnitTimes::UnitTimes(const Selection& selection, std::span<const Contribution> sorted,
                     const std::unordered_set<std::uint32_t>& pids, Lives& lives) {
  std::unordered_set<std::uint32_t> movers;
  for (std::size_t i = 0, end = 0; i < sorted.size(); i = end) {
    const Contribution& first = sorted[i];
    bool one = true;
    for (; end < sorted.size() && sorted[end].pid == first.pid && sorted[end].process == first.process; ++end)
      one = one && sorted[end].unit == first.unit;
    if (!pids.contains(first.pid)) continue;
    std::vector<Since>& units = units_[{first.pid, first.process}];
    if (one)
      units.push_back({.time_ns = 0, .unit = first.unit});
    else
      movers.insert(first.pid);
  }
  if (!movers.empty()) read(selection, movers, lives);
}

void UnitTimes::read(const Selection& selection, const std::unordered_set<std::uint32_t>& movers, Lives& lives) {
  SampleQueue queue;
  for (std::size_t i = 0; i < selection.rings.size(); ++i)
    push_next_sample(queue, selection, i, selection.rings[i].first);
  while (!queue.empty()) {
    const NextSample next = queue.top();
    queue.pop();
    push_next_sample(queue, selection, next.ring, next.index + 1);
    const RingSelection& ring = selection.rings[next.ring];
    const RingSelection::Task& task = ring.task_of(next.index);
    if (!task.is_known()) continue;
    const RingSelection::Source& source = ring.sources[task.source()];
    if (source.cgroup == 0 || !movers.contains(source.pid)) continue;
    const Lives::Life* life = lives.find(source.pid, lives.number_of(task.in_program(), source.pid, next.time_ns));
    if (life == nullptr) continue;
    std::vector<Since>& units = units_[{source.pid, life->process}];
    const std::uint32_t unit = lives.unit_of(source.cgroup);
    if (units.empty() || units.back().unit != unit)
      units.push_back({.time_ns = next.time_ns, .newest_ns = next.time_ns, .unit = unit});
    units.back().newest_ns = next.time_ns;
  }
}

std::uint32_t UnitTimes::at(std::uint32_t pid, std::uint32_t process, EventTime time_ns, bool is_moved) const {
  const auto found = units_.find({pid, process});
  if (found == units_.end() || found->second.empty()) return Lives::kUnitUnknown;
  const std::vector<Since>& units = found->second;
  const auto after = std::upper_bound(units.begin(), units.end(), time_ns,
                                      [](EventTime time, const Since& since) { return time < since.time_ns; });
  if (after == units.begin()) return after->unit;
  const Since& last = *std::prev(after);
  return is_moved && after != units.end() && time_ns > last.newest_ns ? Lives::kUnitUnknown : last.unit;
}

}  // namespace flight
