// SPDX-License-Identifier: Apache-2.0
// From the image of a backward, overwritten ring to its records in time order.
//
//        image (circular, 2^n bytes)                 addresses grow →, time goes ←
//   ┌────────────┬───────────────────────────┐
//   │ … older    │ newest · older · older …  │      newest record: head & (bytes-1)
//   └────────────┴───────────────────────────┘      valid: [head, head + valid_bytes)
//               head
//
// The kernel writes records downwards; the walk goes up from the head: newest to oldest. It ends at the
// never-written area (a header of size 0), at the end of the valid bytes, or where the torn oldest record
// begins. Hostile bytes end it too: a size that is < 8, no multiple of 8 or larger than what is left is counted and
// never followed. A record may wrap around the image's end. (Source: kernel/events/ring_buffer.c.) A record
// whose header a sample was written over is recognised by its content (headerless.hpp): otherwise one program could
// hide everything that is older.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record.hpp"

namespace flight {

struct RingImage {
  std::span<const std::byte> bytes;  // the ring's data area, by ring position; a power of two
  std::uint64_t head = 0;            // data_head at the cut; decreasing from 0 as u64
  std::uint64_t valid_bytes = 0;     // <= bytes.size(); from head upwards
};

// One record: 16 bytes, so that a ring of small records needs a fifth of its size.
struct RecordRef {
  EventTime time_ns = 0;
  std::uint32_t offset = 0;  // position in the image; the record may wrap around its end
  std::uint16_t size = 0;    // with its header
  std::uint16_t type = 0;    // PERF_RECORD_*
};

struct WalkResult {
  std::vector<RecordRef> records;  // ascending in time; equal times in the ring's order
  std::uint64_t samples = 0;       // PERF_RECORD_SAMPLEs among them
  std::uint64_t torn_bytes = 0;    // of the record that was partly overwritten by the newest
  std::uint64_t unknown_ids = 0;   // dropped whole records with ids of other recordings
  std::uint64_t bad_records = 0;  // dropped: too short, or a type perf 6.1 does not know; an invalid size ends the walk
  std::uint64_t restored = 0;     // records whose header was overwritten; they count as all others
  bool wrapped = false;  // false: nothing older was overwritten or dropped, so its history begins with this record
};

// Any thread; allocates only the result (and memory to sort a hostile image).
[[nodiscard]] WalkResult walk_ring(const RingImage& image, const EventTable& events);

// Space for one record. It is wiped at the end: the record can have a copy of a user's stack.
class RecordScratch {
 public:
  RecordScratch() = default;
  RecordScratch(const RecordScratch&) = delete;
  RecordScratch& operator=(const RecordScratch&) = delete;
  ~RecordScratch() { ::explicit_bzero(bytes_.data(), bytes_.size()); }
  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }

 private:
  std::array<std::byte, kMaxRecordBytes> bytes_{};
};

// The bytes of one record: a span into the image, or, if it wraps or its header must be restored, into `scratch` (at
// least kMaxRecordBytes).
[[nodiscard]] std::span<const std::byte> record_bytes(const RingImage& image, const RecordRef& ref,
                                                      std::span<std::byte> scratch);

}  // namespace flight
