// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/intake.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string_view>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/gaps.hpp"

namespace flight {
namespace {

constexpr EventTime kSecondNs = 1'000'000'000;
constexpr std::size_t kMostFloods = 8;
// A process that wrote at least this part of what its group wrote (its ancestor with all its children) is named
// itself.
constexpr std::uint64_t kOfGroup = 4;
constexpr int kMostGenerations = 8;  // from a process to the ancestor for which it counts
// Layout of a sideband record: header 8, then u32 pid, u32 tid or, for FORK and EXIT, u32 ppid; then, for MMAP2, u64
// address, u64 bytes.
constexpr std::size_t kBodyOffset = 8, kAddressOffset = 16, kBytesOffset = 24, kLeastMmap2 = 72;

std::uint64_t hash_of(std::span<const std::byte> record) {
  const auto body = record.subspan(kAddressOffset, record.size() - kAddressOffset - sizeof(Trailer));
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(body.data()), body.size()});
}

}  // namespace

void Intake::sift(RecordBuffer& records, EventTime now_ns) {
  if (now_ns - second_ns_ >= kSecondNs) next_second(now_ns);
  std::size_t kept = 0;
  std::size_t done = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(std::span(records).subspan(done))) {
    const std::size_t size = record.size();
    note_time(std::span(records).subspan(done, size));
    if (keep(record, now_ns)) {
      if (kept != done) std::memmove(records.data() + kept, records.data() + done, size);
      kept += size;
    }
    done += size;
  }
  if (kept == done) return;
  records.erase(records.begin() + static_cast<std::ptrdiff_t>(kept),
                records.begin() + static_cast<std::ptrdiff_t>(done));
}

void Intake::note_time(std::span<std::byte> record) {
  const auto trailer = parse_trailer(record);
  if (!trailer || trailer->cpu >= kMostCpus) return;
  if (trailer->cpu >= last_of_cpu_.size()) last_of_cpu_.resize(trailer->cpu + 1);
  EventTime& last_ns = last_of_cpu_[trailer->cpu];
  if (last_ns != 0 && trailer->reserved == 0 && lost_fields(record)) {
    std::memcpy(record.data() + sizeof(perf_event_header), &last_ns, sizeof last_ns);
    std::memcpy(record.data() + record.size() - sizeof(Trailer) + offsetof(Trailer, reserved), &kLostSince,
                sizeof kLostSince);
  }
  last_ns = trailer->time_ns;
}

EventTime Intake::last_of(std::uint32_t cpu) const { return cpu < last_of_cpu_.size() ? last_of_cpu_[cpu] : 0; }

// Processes without records for a second are removed.
void Intake::next_second(EventTime now_ns) {
  const bool long_ago = now_ns - second_ns_ >= 2 * kSecondNs;
  second_ns_ = now_ns;
  all_before_ = long_ago ? 0 : all_now_;
  all_now_ = 0;
  for (auto one = processes_.begin(); one != processes_.end();) {
    Process& process = one->second;
    process.before = long_ago ? 0 : process.now;
    process.now = 0;
    process.maps_now = 0;
    one = process.before == 0 ? processes_.erase(one) : std::next(one);
  }
}

bool Intake::keep(std::span<const std::byte> record, EventTime now_ns) {
  const auto header = load<perf_event_header>(record.data());
  if (record.size() < kBodyOffset + 16 + sizeof(Trailer)) return true;
  if (header.type != PERF_RECORD_FORK && header.type != PERF_RECORD_EXIT && header.type != PERF_RECORD_COMM &&
      header.type != PERF_RECORD_MMAP2)
    return true;
  const auto pid = load<std::uint32_t>(record.data() + kBodyOffset);
  if (processes_.size() >= kMostProcesses && !processes_.contains(pid)) processes_.clear();
  Process& process = processes_[pid];
  ++process.now;
  ++all_now_;
  if (header.type == PERF_RECORD_MMAP2 && (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER &&
      record.size() >= kLeastMmap2 + sizeof(Trailer))
    return keep_map(record, pid, process, now_ns);
  const auto task = parse_task(record);
  const bool another = header.type == PERF_RECORD_COMM ? (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0
                                                       : task && task->pid == task->tid;
  if (!another) return true;
  process.mappings.clear();
  process.maps = 0;
  if (header.type == PERF_RECORD_FORK) process.parent = task->ppid;
  return true;
}

bool Intake::keep_map(std::span<const std::byte> record, std::uint32_t pid, Process& process, EventTime now_ns) {
  const auto address = load<std::uint64_t>(record.data() + kAddressOffset);
  const std::uint64_t end = address + load<std::uint64_t>(record.data() + kBytesOffset);
  const std::uint64_t hash = hash_of(record);
  auto& known = process.mappings;
  for (auto mapping = known.rbegin(); mapping != known.rend(); ++mapping) {
    if (mapping->address != address || mapping->end != end || mapping->hash != hash) continue;
    if (mapping->seen >= kRepeats) {
      ++repeated_;
      return false;
    }
    ++mapping->seen;
    std::rotate(mapping.base() - 1, mapping.base(), known.end());
    ++process.maps;
    ++process.maps_now;
    return true;
  }
  ++process.maps;
  ++process.maps_now;
  std::erase_if(known, [&](const Mapping& old) { return old.address < end && address < old.end; });
  if (process.maps > kFreeMaps && process.maps_now > kMapsPerSecond) {
    note_flood(pid, now_ns);
    return false;
  }
  if (known.size() >= kMostMappings) known.erase(known.begin());
  known.push_back({address, end, hash, 1});
  return true;
}

void Intake::note_flood(std::uint32_t pid, EventTime now_ns) {
  auto flood = std::find_if(floods_.begin(), floods_.end(), [pid](const Flood& one) { return one.pid == pid; });
  if (flood == floods_.end()) {
    if (floods_.size() >= kMostFloods) floods_.erase(floods_.begin());
    flood = floods_.insert(floods_.end(), Flood{.pid = pid});
  }
  ++flood->left_out;
  flood->last_ns = now_ns;
}

Intake::Loudest Intake::loudest() const {
  // The process that wrote most, alone and including all its children.
  std::unordered_map<std::uint32_t, std::uint64_t> records;
  Loudest alone{.pid = 0, .records = 0, .all = all_now_ + all_before_};
  for (const auto& [pid, process] : processes_) {
    if (process.now + process.before > alone.records) {
      alone.pid = pid;
      alone.records = process.now + process.before;
    }
    std::uint32_t who = pid;
    for (int i = 0; i < kMostGenerations; ++i) {
      const auto found = processes_.find(who);
      if (found == processes_.end() || found->second.parent == 0 || found->second.parent == who) break;
      who = found->second.parent;
    }
    records[who] += process.now + process.before;
  }
  Loudest out{.pid = 0, .records = 0, .all = all_now_ + all_before_};
  for (const auto& [pid, count] : records)
    if (count > out.records) out = {.pid = pid, .records = count, .all = out.all};
  return kOfGroup * alone.records >= out.records ? alone : out;
}

}  // namespace flight
