// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/ring_walk.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "libcore/perf/headerless.hpp"
#include "libcore/perf/sample_parts.hpp"

namespace flight {
namespace {

// The smallest sample of flightd's events; smaller records are rare, so the vector seldom grows. Reserving touches no
// memory.
constexpr std::size_t kTypicalRecordBytes = 56;
constexpr std::size_t kPrefetchBytes = 1024;

// The fields of an event that the walk needs, by id. A ring has few ids, so a lookup in the table is the exception.
class IdCache {
 public:
  struct Entry {
    std::uint64_t id = 0;
    bool known = false;
    std::uint32_t sample_time = 0;    // from a SAMPLE's beginning
    std::uint32_t trailer_bytes = 0;  // of other records
    std::uint32_t trailer_time = 0;
    const RecordLayout* layout = nullptr;  // nullptr: not known
    bool copies_user = false;
  };

  explicit IdCache(const EventTable& events) : events_(events) { fill(0); }

  const Entry& find(std::uint64_t id) {
    const Entry& entry = entries_[id % kEntries];
    return entry.id == id ? entry : fill(id);
  }

 private:
  const Entry& fill(std::uint64_t id) {
    Entry& entry = entries_[id % kEntries];
    entry = {};
    entry.id = id;
    if (const auto event = events_.find(id); event) {
      const RecordLayout& layout = events_.layout(*event);
      entry.known = true;
      entry.sample_time = static_cast<std::uint32_t>(layout.time);
      entry.trailer_bytes = static_cast<std::uint32_t>(layout.trailer_bytes);
      entry.trailer_time = static_cast<std::uint32_t>(layout.trailer_time);
      entry.layout = &layout;
      entry.copies_user = layout.copies_user();
    }
    return entry;
  }

  // The kernel counts ids up, so that the ids of one ring seldom use the same entry. Id 0 is filled at once; no lookup
  // finds an entry that was never filled (id 0 in another place).
  static constexpr std::size_t kEntries = 64;
  const EventTable& events_;
  std::array<Entry, kEntries> entries_{};
};

// Walks from newest to oldest, into result.records in that order. All positions and the size of the image are
// multiples of 8, so no u64 field of a record wraps around its end.
class Walk {
 public:
  Walk(const RingImage& image, std::uint64_t valid_bytes, const EventTable& events)
      : base_(image.bytes.data()), mask_(image.bytes.size() - 1), head_(image.head), valid_(valid_bytes), ids_(events) {
    for (std::size_t i = 0; i < events.size() && copying_ == nullptr; ++i)
      if (events.layout(i).copies_user()) copying_ = &events.layout(i);
  }

  // True: the walk reached the never-written area.
  bool run(bool cut, WalkResult& result) {
    std::uint64_t at = 0;
    while (at < valid_) {
      __builtin_prefetch(base_ + ((head_ + at + kPrefetchBytes) & mask_));
      auto header = std::bit_cast<perf_event_header>(field(at));
      const std::uint64_t left = valid_ - at;
      // Also the newest one: in a live capture the next sample is written meanwhile.
      if (copying_ != nullptr && !is_plausible_header(field(at))) {
        if (const HeaderlessRecord found = headerless(at, left); found.bytes != 0) {
          header = restored_header(found, 0);
          ++result.restored;
        }
      }
      if (std::bit_cast<std::uint64_t>(header) == 0 && !(copying_ != nullptr && left >= 16 && field(at + 8) != 0))
        return true;
      if (header.size < kRecordHeaderBytes || header.size % 8 != 0 || (header.size > left && !cut)) {
        // The header of the torn record can be overwritten, too.
        if (copying_ != nullptr && cut && left < kMaxRecordBytes) {
          result.torn_bytes = left;
        } else {
          ++result.bad_records;
        }
        return false;
      }
      if (header.size > left) {
        result.torn_bytes = left;
        return false;
      }
      take(at, header, result);
      at += header.size;
    }
    return false;
  }

  [[nodiscard]] bool inverted() const { return inverted_; }

 private:
  [[nodiscard]] std::uint64_t field(std::uint64_t at) const {
    return load<std::uint64_t>(base_ + ((head_ + at) & mask_));
  }

  [[nodiscard]] std::optional<SampleParts> parts_at(std::uint64_t at, std::size_t bytes,
                                                    const RecordLayout& layout) const {
    return find_sample_parts(layout, bytes, [&](std::size_t offset) { return field(at + offset); });
  }

  [[nodiscard]] HeaderlessRecord headerless(std::uint64_t at, std::uint64_t left) {
    return find_headerless(
        static_cast<std::size_t>(std::min<std::uint64_t>(left, kMaxRecordBytes)),
        static_cast<std::size_t>(copying_->trailer_bytes), [&](std::size_t offset) { return field(at + offset); },
        [&](std::uint64_t id) { return ids_.find(id).layout; });
  }

  void take(std::uint64_t at, const perf_event_header& header, WalkResult& result) {
    const bool sample = header.type == PERF_RECORD_SAMPLE;
    if (header.type == 0 || header.type > kNewestReadableType || header.size < kRecordHeaderBytes + 8) {
      ++result.bad_records;
      return;
    }
    const IdCache::Entry& event = ids_.find(field(sample ? at + kRecordHeaderBytes : at + header.size - 8));
    if (!event.known) {
      ++result.unknown_ids;
      return;
    }
    const bool whole = sample ? event.sample_time + 8 <= header.size &&
                                    (!event.copies_user || parts_at(at, header.size, *event.layout))
                              : kRecordHeaderBytes + event.trailer_bytes <= header.size;
    if (!whole) {
      ++result.bad_records;
      return;
    }
    const std::uint64_t time_at =
        sample ? event.sample_time : header.size - event.trailer_bytes + std::uint64_t{event.trailer_time};
    const EventTime time_ns = field(at + time_at);
    inverted_ = inverted_ || time_ns > younger_ns_;
    younger_ns_ = time_ns;
    result.samples += sample ? 1 : 0;
    result.records.push_back(RecordRef{time_ns, static_cast<std::uint32_t>((head_ + at) & mask_), header.size,
                                       static_cast<std::uint16_t>(header.type)});
  }

  const std::byte* base_;
  std::uint64_t mask_;
  std::uint64_t head_;
  std::uint64_t valid_;
  IdCache ids_;
  const RecordLayout* copying_ = nullptr;  // of an event that copies stacks, so that headers may be overwritten
  EventTime younger_ns_ = std::numeric_limits<EventTime>::max();
  bool inverted_ = false;
};

// Stable. A ring is nearly sorted: a record whose time was read before an interrupt wrote its own record comes some
// milliseconds late (measured: 31 of 910,000). Each is moved to its place; if that costs more than sorting, which only
// happens with a hostile image, everything is sorted.
void restore_order(std::vector<RecordRef>& records) {
  const auto earlier = [](const RecordRef& left, const RecordRef& right) { return left.time_ns < right.time_ns; };
  std::size_t budget = 4 * records.size();
  for (auto at = records.begin() + 1; at < records.end(); ++at) {
    if (!earlier(*at, *(at - 1))) continue;
    const auto place = std::upper_bound(records.begin(), at, *at, earlier);
    const auto moved = static_cast<std::size_t>(at - place);
    if (moved > budget) {
      std::stable_sort(records.begin(), records.end(), earlier);
      return;
    }
    budget -= moved;
    std::rotate(place, at, at + 1);
  }
}

}  // namespace

WalkResult walk_ring(const RingImage& image, const EventTable& events) {
  WalkResult result;
  const std::uint64_t size = image.bytes.size();
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32U;  // RecordRef::offset
  if (size < 8 || size > kMostBytes || !std::has_single_bit(size) || image.head % 8 != 0) {
    result.bad_records = 1;
    return result;
  }
  // The head began at 0 and decreased, so this is all that was ever written; the area above it is still empty.
  const std::uint64_t written = 0 - image.head;
  const std::uint64_t valid = std::min({image.valid_bytes, size, written}) & ~std::uint64_t{7};
  const bool cut = valid < written;

  result.records.reserve(valid / kTypicalRecordBytes + 1);
  Walk walk(image, valid, events);
  const bool never_written = walk.run(cut, result);
  result.wrapped = cut && !never_written;
  std::reverse(result.records.begin(), result.records.end());
  if (walk.inverted()) restore_order(result.records);
  return result;
}

std::span<const std::byte> record_bytes(const RingImage& image, const RecordRef& ref, std::span<std::byte> scratch) {
  const std::size_t size = image.bytes.size();
  if (ref.offset >= size || ref.size > size) return {};
  const std::size_t until_end = size - ref.offset;
  const auto bytes = image.bytes.subspan(ref.offset, std::min<std::size_t>(ref.size, until_end));
  const bool fits = ref.size <= scratch.size();
  const auto header = bytes.size() < kRecordHeaderBytes ? perf_event_header{} : load<perf_event_header>(bytes.data());
  const bool restore = ref.size >= 24 && (header.size != ref.size || header.type != ref.type);
  if (ref.size <= until_end && (!restore || !fits)) return bytes;
  if (!fits) return {};
  std::memcpy(scratch.data(), bytes.data(), bytes.size());
  std::memcpy(scratch.data() + bytes.size(), image.bytes.data(), ref.size - bytes.size());
  if (restore) {
    const auto restored = restored_header({.type = ref.type, .bytes = ref.size}, load<std::uint64_t>(&scratch[16]));
    std::memcpy(scratch.data(), &restored, sizeof restored);
  }
  return scratch.first(ref.size);
}

}  // namespace flight
