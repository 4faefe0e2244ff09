// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/mapped_code.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/gaps.hpp"

namespace flight {
namespace {

// A page of every process of x86-64, which is not among its mappings (arch/x86/entry/vsyscall/vsyscall_64.c).
constexpr std::uint64_t kVsyscall = 0xffffffffff600000, kVsyscallLast = kVsyscall + 0xfff;

// The kernel calls memory without a file "//anon" or by its purpose; what can be mapped twice is of a file that only
// memory has.
bool is_generated(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames{"//anon",  "[anon",     "/anon_hugepage", "[heap]",
                                                   "/memfd:", "/dev/zero", "/SYSV"};
  return std::any_of(kNames.begin(), kNames.end(), [name](std::string_view one) { return name.starts_with(one); });
}

}  // namespace

CodeStretch MappedRanges::stretch_of(std::uint64_t address) const {
  const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                     [](std::uint64_t wanted, const Range& range) { return wanted < range.begin; });
  CodeStretch out;
  if (next != ranges_.end()) out.last = next->begin - 1;
  if (next == ranges_.begin()) return out;
  const Range& before = *(next - 1);
  if (address < before.end) return {.first = before.begin, .last = before.end - 1, .code = true};
  out.first = before.end;
  return out;
}

void MappedRanges::add(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  if (end > address) ranges_.push_back({.begin = address, .end = end});
}

std::size_t MappedRanges::finish() {
  const auto bounds = [](const Range& range) { return std::pair(range.begin, range.end); };
  std::sort(ranges_.begin(), ranges_.end(), [&](const Range& a, const Range& b) { return bounds(a) < bounds(b); });
  const auto last = std::unique(ranges_.begin(), ranges_.end(),
                                [&](const Range& a, const Range& b) { return bounds(a) == bounds(b); });
  ranges_.erase(last, ranges_.end());
  std::vector<Range> apart;
  for (const Range& range : ranges_)
    if (apart.empty() || apart.back().end < range.begin)
      apart.push_back(range);
    else
      apart.back().end = std::max(apart.back().end, range.end);
  return std::exchange(ranges_, std::move(apart)).size();
}

MappedCode::MappedCode(const TrackerExport& sideband) : sideband_(sideband) {
  if (sideband.maps_from_ns == UINT64_MAX) return;
  learn(sideband.prologue);
  learn(sideband.log);
  for (Memory& memory : memories_) memory.mappings = memory.ranges.finish();
}

MappedCode::Stay MappedCode::stay_of(std::uint32_t pid, EventTime time_ns) const {
  const EventTime maps_from_ns = sideband_.maps_from_ns;
  if (time_ns < maps_from_ns) return {.from_ns = 0, .to_ns = maps_from_ns - 1, .memory = kUnknown};
  Stay out{.from_ns = maps_from_ns, .to_ns = UINT64_MAX, .memory = kUnknown};
  const auto known = pid == 0 || pid == kKernelPid ? lives_.end() : lives_.find(pid);
  if (known == lives_.end()) return out;
  const std::vector<Life>& lives = known->second;
  const auto next = std::upper_bound(lives.begin(), lives.end(), time_ns,
                                     [](EventTime wanted, const Life& life) { return wanted < life.from_ns; });
  if (next != lives.end()) out.to_ns = next->from_ns - 1;
  if (next == lives.begin()) return out;
  const Life& life = *(next - 1);
  out.from_ns = std::max(maps_from_ns, life.from_ns);
  if (memories_[life.memory].is_known()) out.memory = life.memory;
  return out;
}

CodeStretch MappedCode::stretch_of(std::size_t memory, std::uint64_t address) const {
  CodeStretch out = memories_[memory].ranges.stretch_of(address);
  if (out.code) return out;
  if (address < kVsyscall)
    out.last = std::min(out.last, kVsyscall - 1);
  else if (address > kVsyscallLast)
    out.first = std::max(out.first, kVsyscallLast + 1);
  else
    out = {.first = kVsyscall, .last = kVsyscallLast, .code = true};
  return out;
}

void MappedCode::learn(std::span<const std::byte> records) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (const auto trailer = parse_trailer(record)) take(record, trailer->time_ns);
  }
}

void MappedCode::take(std::span<const std::byte> record, EventTime time_ns) {
  switch (load<perf_event_header>(record.data()).type) {
    case PERF_RECORD_FORK: {
      const auto fork = parse_task(record);
      if (!fork || fork->pid != fork->tid) return;  // a thread
      const auto parent = fork->exec ? lives_.end() : lives_.find(fork->ppid);
      return begin(fork->pid, time_ns, parent != lives_.end() ? parent->second.back().memory : new_memory());
    }
    case PERF_RECORD_COMM:
      if (const auto comm = parse_comm(record); comm && comm->exec) begin(comm->pid, time_ns, new_memory());
      return;
    case PERF_RECORD_MMAP2: {
      const auto map = parse_mmap2(record);
      if (!map || map->cpumode != PERF_RECORD_MISC_USER) return;
      Memory& memory = newest_memory_of(map->pid, time_ns);
      memory.ranges.add(map->address, map->bytes);
      memory.has_vdso = memory.has_vdso || map->name == "[vdso]";
      memory.whole = memory.whole && map->name != kLostName && !is_generated(map->name);
      return;
    }
    default:
      return;
  }
}

std::size_t MappedCode::new_memory() {
  memories_.emplace_back();
  return memories_.size() - 1;
}

void MappedCode::begin(std::uint32_t pid, EventTime time_ns, std::size_t memory) {
  lives_[pid].push_back({.from_ns = time_ns, .memory = memory});
  if (sideband_.partial_maps.contains(pid)) memories_[memory].whole = false;
}

MappedCode::Memory& MappedCode::newest_memory_of(std::uint32_t pid, EventTime time_ns) {
  if (!lives_.contains(pid)) begin(pid, time_ns, new_memory());
  return memories_[lives_[pid].back().memory];
}

}  // namespace flight
