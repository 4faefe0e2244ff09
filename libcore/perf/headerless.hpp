// SPDX-License-Identifier: Apache-2.0
// A record in a ring whose header the next newer one was written over (overruns() in sample_parts.hpp). Its content
// says what it was:
//
//   | cgroup id | id of an event that is known, and parts that fit ...        | header │  a SAMPLE
//   | cgroup id | u64 event, u64 lost             | trailer, ends with an id  | header │  LOST
//   | cgroup id | u64 time, u64 event, u64 stream | trailer, ends with an id  | header │  THROTTLE or UNTHROTTLE
//
// It is tried where a header is implausible, in rings with events that copy stacks.
#pragma once

#include <linux/perf_event.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "libcore/perf/record.hpp"
#include "libcore/perf/sample_parts.hpp"

namespace flight {

// The newest type that the oldest supported perf knows; it aborts on any later type.
inline constexpr std::uint32_t kNewestReadableType = PERF_RECORD_AUX_OUTPUT_HW_ID;

// The first word of a record. A cgroup's id is below 2^48, so that it has no size.
[[nodiscard]] inline bool is_plausible_header(std::uint64_t word) {
  const auto header = std::bit_cast<perf_event_header>(word);
  return header.type != 0 && header.type <= kNewestReadableType && header.size >= kRecordHeaderBytes + 8 &&
         header.size % 8 == 0;
}

struct HeaderlessRecord {
  std::uint32_t type = 0;   // 0: THROTTLE or UNTHROTTLE, which have the same content
  std::uint16_t bytes = 0;  // 0: none that is plausible
};

// `word(offset)` is the u64 at this offset of the record, a multiple of 8; the ring has `bytes` from its beginning on.
// `layout_of(id)`: nullptr if the id is unknown. `trailer_bytes`: of the records that are no samples.
template <typename Word, typename LayoutOf>
[[nodiscard]] HeaderlessRecord find_headerless(std::size_t bytes, std::size_t trailer_bytes, const Word& word,
                                               const LayoutOf& layout_of) {
  if (bytes < kRecordHeaderBytes + 8) return {};
  const auto ends_at = [&](std::size_t end) {
    return end == bytes || (end < bytes && (word(end) == 0 || is_plausible_header(word(end))));
  };
  if (const RecordLayout* layout = layout_of(word(kRecordHeaderBytes)); layout != nullptr) {
    const auto parts = find_sample_parts(*layout, bytes, word);
    const std::size_t size = parts ? sample_bytes(*parts, *layout) : 0;
    // It may itself be written over the header that proves its size.
    if (size != 0 && size <= bytes && size < kMaxRecordBytes && (overruns(*parts, *layout) || ends_at(size)))
      return {.type = PERF_RECORD_SAMPLE, .bytes = static_cast<std::uint16_t>(size)};
  }
  const std::size_t lost = kRecordHeaderBytes + 16 + trailer_bytes, throttle = lost + 8;
  if (ends_at(lost) && layout_of(word(lost - 8)) != nullptr)
    return {.type = PERF_RECORD_LOST, .bytes = static_cast<std::uint16_t>(lost)};
  if (ends_at(throttle) && layout_of(word(throttle - 8)) != nullptr)
    return {.type = 0, .bytes = static_cast<std::uint16_t>(throttle)};
  return {};
}

// The header for it. `third`: its third word, of a sample the ip, which is the kernel's if the highest bit is set.
// PERF_RECORD_MISC_EXACT_IP is lost.
[[nodiscard]] inline perf_event_header restored_header(const HeaderlessRecord& record, std::uint64_t third) {
  std::uint16_t misc = 0;
  if (record.type == PERF_RECORD_SAMPLE)
    misc = static_cast<std::uint16_t>((third >> 63U) != 0 ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
  return {.type = record.type, .misc = misc, .size = record.bytes};
}

}  // namespace flight
