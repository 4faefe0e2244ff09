// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/exits.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace flight {
namespace {

struct Entry {
  EventTime time_ns = 0;
  std::size_t offset = 0, size = 0;
};
struct Exit {
  EventTime exit_ns = 0;
  EventTime reused_ns = UINT64_MAX;  // the FORK that reuses the tid; or records are missing from here on
  std::size_t entry = 0;
};

// The log's records, and the EXITs of tasks with samples.
struct Index {
  std::vector<Entry> entries;
  std::vector<Exit> exits;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> of_tid;  // indices of exits, oldest first
  EventTime earliest_ns = UINT64_MAX;

  // The time until which no other task can have the number, as far as the log is complete.
  [[nodiscard]] static EventTime known_until(EventTime exit_ns, std::span<const SidebandGap> gaps) {
    for (const SidebandGap& gap : gaps)
      if (gap.end_ns >= exit_ns) return std::max(gap.begin_ns, exit_ns);
    return UINT64_MAX;
  }

  void add_task(std::uint32_t type, const TaskRecord& task, EventTime time_ns, std::span<const SidebandGap> gaps) {
    std::vector<std::size_t>& known = of_tid[task.tid];
    if (type == PERF_RECORD_FORK) {
      if (!known.empty()) exits[known.back()].reused_ns = std::min(exits[known.back()].reused_ns, time_ns);
      return;
    }
    known.push_back(exits.size());
    exits.push_back({.exit_ns = time_ns, .reused_ns = known_until(time_ns, gaps), .entry = entries.size() - 1});
    earliest_ns = std::min(earliest_ns, time_ns);
  }
};

Index index_of(std::span<const std::byte> log, std::span<const SidebandGap> gaps, const Selection& selection) {
  Index out;
  std::size_t offset = 0;
  for (auto record = next_record(log); !record.empty(); record = next_record(log.subspan(offset))) {
    const auto trailer = parse_trailer(record);
    out.entries.push_back({trailer ? trailer->time_ns : 0, offset, record.size()});
    const auto type = load<std::uint32_t>(record.data());
    if (trailer && (type == PERF_RECORD_EXIT || type == PERF_RECORD_FORK)) {
      if (const auto task = parse_task(record); task && selection.tids.contains(task->tid))
        out.add_task(type, *task, trailer->time_ns, gaps);
    }
    offset += record.size();
  }
  return out;
}

// The newest sample of each exit's task in one ring; 0 if there is none after the exit.
std::vector<EventTime> newest_samples(const RingSelection& ring, const Index& index) {
  std::vector<EventTime> out(index.exits.size());
  const auto begin = ring.walk.records.begin();
  const auto first =
      std::lower_bound(begin + static_cast<std::ptrdiff_t>(ring.first), begin + static_cast<std::ptrdiff_t>(ring.last),
                       index.earliest_ns, [](const RecordRef& a, EventTime time_ns) { return a.time_ns < time_ns; });
  for (auto i = static_cast<std::size_t>(first - begin); i < ring.last; ++i) {
    const RingSelection::Task& task = ring.task_of(i);
    const auto known = task.is_known() ? index.of_tid.find(task.tid()) : index.of_tid.end();
    if (known == index.of_tid.end()) continue;
    const EventTime time_ns = ring.walk.records[i].time_ns;
    for (const std::size_t exit : known->second) {
      if (index.exits[exit].exit_ns <= time_ns && time_ns < index.exits[exit].reused_ns)
        out[exit] = std::max(out[exit], time_ns);
    }
  }
  return out;
}

}  // namespace

std::optional<RecordBuffer> exits_behind_samples(std::span<const std::byte> log, std::span<const SidebandGap> gaps,
                                                 const Selection& selection, WorkerPool& workers) {
  Index index = index_of(log, gaps, selection);
  if (index.exits.empty()) return std::nullopt;
  std::vector<std::vector<EventTime>> newest(selection.rings.size());
  std::vector<int> cpus;
  for (const RingSelection& ring : selection.rings) cpus.push_back(ring.cpu);
  workers.for_each_ring(cpus, [&](std::size_t i) { newest[i] = newest_samples(selection.rings[i], index); });

  bool moved = false;
  for (std::size_t i = 0; i < index.exits.size(); ++i) {
    EventTime last_ns = 0;
    for (const auto& ring : newest) last_ns = std::max(last_ns, ring[i]);
    if (last_ns == 0) continue;
    index.entries[index.exits[i].entry].time_ns = last_ns + 1;
    moved = true;
  }
  if (!moved) return std::nullopt;

  std::stable_sort(index.entries.begin(), index.entries.end(),
                   [](const Entry& a, const Entry& b) { return a.time_ns < b.time_ns; });
  RecordBuffer out;
  out.reserve(log.size());
  for (const Entry& entry : index.entries) {
    const auto record = log.subspan(entry.offset, entry.size);
    out.insert(out.end(), record.begin(), record.end());
    if (load<std::uint32_t>(record.data()) != PERF_RECORD_EXIT) continue;
    std::byte* trailer = out.data() + out.size() - sizeof(Trailer);
    std::memcpy(trailer + offsetof(Trailer, time_ns), &entry.time_ns, sizeof entry.time_ns);
  }
  return out;
}

}  // namespace flight
