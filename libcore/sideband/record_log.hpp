// SPDX-License-Identifier: Apache-2.0
// The recent sideband records, as written by the kernel, ascending by time. Private to sideband.
//
//   chunks  ▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓│▓▓▓░░░░░      records in the order of their arrival; a chunk is freed with its last
//   record index   t₀ t₁ t₂ t₃ t₄ …                 sorted by time; dropped from the front
//
// The rings of several CPUs are drained one after the other, so the order of arrival is only nearly sorted: settle()
// sorts the new records in, once per batch. No allocation per record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

class RecordLog {
 public:
  struct Entry {
    EventTime time_ns = 0;
    std::uint32_t chunk = 0;   // its number since the start
    std::uint32_t offset = 0;  // in the chunk
    std::uint16_t size = 0;
    std::uint16_t type = 0;  // PERF_RECORD_*
  };

  // The entry is valid until the next call.
  const Entry& append(std::span<const std::byte> record, std::uint16_t type, EventTime time_ns);
  // Sorts in the records appended since the last call; equal times stay in the order of arrival.
  void settle();
  // All sorted records, ascending by time.
  [[nodiscard]] std::span<const Entry> entries() const { return std::span(index_).subspan(head_, settled_ - head_); }
  [[nodiscard]] std::span<const std::byte> record(const Entry& entry) const;
  // Drops the `count` oldest.
  void drop_front(std::size_t count);
  // Bytes of the records and their index.
  [[nodiscard]] std::size_t bytes() const { return live_bytes_ + (index_.size() - head_) * sizeof(Entry); }

 private:
  static constexpr std::size_t kChunkBytes = 256U << 10U;
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;  // null: all its records were dropped
    std::size_t used = 0;
    std::size_t live = 0;  // bytes of records that are still in the index
  };

  std::deque<Chunk> chunks_;
  std::uint32_t first_chunk_ = 0;  // the number of chunks_.front()
  std::vector<Entry> index_;
  std::size_t head_ = 0;     // index_[0, head_) is dropped
  std::size_t settled_ = 0;  // index_[settled_, …) was appended since the last settle()
  std::size_t live_bytes_ = 0;
};

}  // namespace flight
