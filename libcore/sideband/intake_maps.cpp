// SPDX-License-Identifier: Apache-2.0
// Which mappings the intake keeps, and which ranges are in doubt because some were dropped.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/intake.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kEndOfAll = 1ULL << 63U;  // of user space, on every machine
// Layout of an MMAP2 record: header 8, then u32 pid, u32 tid, u64 address, u64 bytes.
constexpr std::size_t kAddressOffset = 16, kBytesOffset = 24;

std::uint64_t hash_of(std::span<const std::byte> record) {
  const auto body = record.subspan(kAddressOffset, record.size() - kAddressOffset - sizeof(Trailer));
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(body.data()), body.size()});
}

}  // namespace

// Rings are read one after the other, so records that followed an exec may have been seen before it: what it has not
// ended stays known, and a repetition that belongs to the new image was none.
void Intake::begin_anew(std::uint32_t pid, Process& process, EventTime time_ns) {
  if (time_ns < process.began_ns) return;
  process.began_ns = time_ns;
  if (process.flood) {
    process.flood->late_ns = ~EventTime{0};
    for (const DoubtedRange& range : process.flood->doubted.end(0, kEndOfAll, time_ns)) put_lost(pid, range);
  }
  for (Mapping& mapping : process.mappings)
    if (mapping.since_ns < time_ns && mapping.again_ns() >= time_ns) put_back(pid, process, mapping);
  std::erase_if(process.mappings, [&](const Mapping& mapping) {
    if (mapping.since_ns >= time_ns) return false;
    spare_bytes_ -= mapping.spare_bytes();
    return true;
  });
  if (process.mappings.empty())
    std::vector<Mapping>().swap(process.mappings);  // most processes end: they must not keep its memory
}

void Intake::put_back(std::uint32_t pid, Process& process, Mapping& mapping) {
  additions_.insert(additions_.end(), mapping.spare->record.begin(), mapping.spare->record.end());
  mapping.since_ns = mapping.spare->time_ns;
  spare_bytes_ -= mapping.spare_bytes();
  mapping.spare.reset();
  if (!end_doubts(pid, process, mapping.address, mapping.end, mapping.since_ns))
    mapping.end = mapping.address;  // it is not known any more
}

// A mapping of that time is in the log. False: one that was dropped may have replaced it.
bool Intake::end_doubts(std::uint32_t pid, Process& process, std::uint64_t address, std::uint64_t end,
                        EventTime time_ns) {
  process.kept_ns = std::max(process.kept_ns, time_ns);
  if (!process.flood) return true;
  DoubtedRanges& doubted = process.flood->doubted;
  const bool valid = !doubted.doubts(address, end, time_ns);
  for (const DoubtedRange& range : doubted.end(address, end, time_ns)) put_lost(pid, range);
  return valid;
}

void Intake::put_back_since(EventTime begin_ns) {
  for (auto& [pid, process] : processes_)
    for (Mapping& mapping : process.mappings)
      if (mapping.since_ns < complete_from_ns_ && mapping.again_ns() >= begin_ns) put_back(pid, process, mapping);
}

// Whether an equal record says nothing new. It is kept apart until the next one: a record that was written between the
// two may be read later.
bool Intake::repeats(Mapping& mapping, std::span<const std::byte> record, EventTime time_ns) {
  if (time_ns < mapping.since_ns || mapping.since_ns < complete_from_ns_) return false;
  if (time_ns >= mapping.again_ns()) {
    if (spare_bytes_ - mapping.spare_bytes() + record.size() > kMostSpareBytes) return false;
    spare_bytes_ += record.size() - mapping.spare_bytes();
    if (!mapping.spare) mapping.spare = std::make_unique<Spare>();
    mapping.spare->record.assign(record.begin(), record.end());
    mapping.spare->time_ns = time_ns;
  }
  ++repeated_;
  return true;
}

bool Intake::keep_map(std::span<const std::byte> record, std::uint32_t pid, Process& process) {
  const EventTime time_ns = parse_trailer(record)->time_ns;
  if (time_ns < process.began_ns) return keep_late(pid, process, time_ns);
  const auto address = load<std::uint64_t>(record.data() + kAddressOffset);
  const std::uint64_t end = address + load<std::uint64_t>(record.data() + kBytesOffset);
  const std::uint64_t hash = hash_of(record);
  auto& known = process.mappings;
  for (auto mapping = known.rbegin(); mapping != known.rend(); ++mapping) {
    if (mapping->address != address || mapping->end != end || mapping->hash != hash) continue;
    const bool repetition = repeats(*mapping, record, time_ns);
    std::rotate(mapping.base() - 1, mapping.base(), known.end());
    if (repetition) return false;
    break;
  }
  const bool too_many = exceeds(pid, process, time_ns);
  bool current = time_ns >= process.forgotten_ns;  // nothing that was kept here is newer
  const auto overlaps = [&](const Mapping& old) { return old.address < end && address < old.end; };
  // The repetitions of a mapping that is only partly replaced are put back, too: a mapping with a time between the two
  // may be read later.
  for (Mapping& old : known)
    if (overlaps(old) && old.spare && old.since_ns <= time_ns &&
        (old.again_ns() > time_ns || old.address < address || end < old.end))
      put_back(pid, process, old);
  std::erase_if(known, [&](const Mapping& old) {
    if (!overlaps(old)) return false;
    if (old.since_ns > time_ns) {
      current = false;
      return false;
    }
    spare_bytes_ -= old.spare_bytes();
    return true;
  });
  if (too_many) {
    process.flood->doubted.add(address, end, time_ns, !current);
    doubted_ns_ = std::max(doubted_ns_, time_ns);
    return false;
  }
  current = end_doubts(pid, process, address, end, time_ns) && current;
  if (!current) return true;
  if (known.size() >= kMostMappings) {
    if (known.front().spare) put_back(pid, process, known.front());
    process.forgotten_ns = std::max(process.forgotten_ns, known.front().since_ns);
    known.erase(known.begin());
  }
  known.push_back({.address = address, .end = end, .hash = hash, .since_ns = time_ns, .spare = nullptr});
  return true;
}

// Mappings in these ranges were dropped: what they have is unknown from then on. One that was kept meanwhile may have
// been read first, and replaced by one that was dropped: at the latest after the last of those, nothing is known.
void Intake::record_doubts(std::uint32_t pid, Process& process) {
  for (const DoubtedRange& range : process.flood->doubted.take_new()) {
    put_lost(pid, range);
    EventTime since_ns = range.first_ns;
    if (range.first_ns < process.kept_ns && process.kept_ns < range.last_ns) {
      since_ns = process.kept_ns + 1;
      put_lost(pid, {.address = range.address, .end = range.end, .first_ns = since_ns});
    }
    std::erase_if(process.mappings, [&](Mapping& old) {
      if (old.address >= range.end || range.address >= old.end || old.since_ns > since_ns) return false;
      if (old.again_ns() > since_ns) {
        put_back(pid, process, old);
        return false;
      }
      spare_bytes_ -= old.spare_bytes();
      return true;
    });
  }
}

void Intake::put_lost(std::uint32_t pid, const DoubtedRange& range) {
  Mmap2Record unknown{.pid = pid, .tid = pid, .address = range.address, .bytes = range.end - range.address};
  unknown.name = kLostName;
  append_mmap2(additions_, unknown, {.pid = pid, .tid = pid, .time_ns = range.first_ns});
}

// Counts a mapping that is no repetition. True: it is one too many.
bool Intake::exceeds(std::uint32_t pid, Process& process, EventTime time_ns) {
  if (++process.maps_now <= kMapsPerSecond) return false;
  if (!process.flood) process.flood = std::make_unique<Flood>();
  if (process.flood->left_out++ == 0) flooding_.push_back(pid);
  process.flood->left_out_ns = std::max(process.flood->left_out_ns, time_ns);
  return true;
}

// A mapping of the image before the last exec, which was read first.
bool Intake::keep_late(std::uint32_t pid, Process& process, EventTime time_ns) {
  if (!exceeds(pid, process, time_ns)) return true;
  if (time_ns >= process.flood->late_ns) return false;
  process.flood->late_ns = time_ns;
  put_lost(pid, {.address = 0, .end = kEndOfAll, .first_ns = time_ns});
  return false;
}

}  // namespace flight
