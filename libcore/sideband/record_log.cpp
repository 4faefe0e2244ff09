// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/record_log.hpp"

#include <algorithm>
#include <cstring>

namespace flight {
namespace {

bool earlier(const RecordLog::Entry& a, const RecordLog::Entry& b) { return a.time_ns < b.time_ns; }

}  // namespace

const RecordLog::Entry& RecordLog::append(std::span<const std::byte> record, std::uint16_t type, EventTime time_ns) {
  if (chunks_.empty() || kChunkBytes - chunks_.back().used < record.size()) {
    // The last chunk may have lost all its records while it was being filled.
    if (!chunks_.empty() && chunks_.back().live == 0)
      chunks_.back().used = 0;
    else
      chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(kChunkBytes), 0, 0});
  }
  Chunk& chunk = chunks_.back();
  std::memcpy(chunk.bytes.get() + chunk.used, record.data(), record.size());
  const auto number = first_chunk_ + static_cast<std::uint32_t>(chunks_.size() - 1);
  index_.push_back(
      {time_ns, number, static_cast<std::uint32_t>(chunk.used), static_cast<std::uint16_t>(record.size()), type});
  chunk.used += record.size();
  chunk.live += record.size();
  live_bytes_ += record.size();
  return index_.back();
}

void RecordLog::settle() {
  if (settled_ == index_.size()) return;
  const auto begin = index_.begin() + static_cast<std::ptrdiff_t>(head_);
  const auto fresh = index_.begin() + static_cast<std::ptrdiff_t>(settled_);
  if (!std::is_sorted(fresh, index_.end(), earlier)) std::stable_sort(fresh, index_.end(), earlier);
  const auto overlap = std::upper_bound(begin, fresh, *fresh, earlier);
  if (overlap != fresh) std::inplace_merge(overlap, fresh, index_.end(), earlier);
  settled_ = index_.size();
}

std::span<const std::byte> RecordLog::record(const Entry& entry) const {
  return {chunks_[entry.chunk - first_chunk_].bytes.get() + entry.offset, entry.size};
}

void RecordLog::drop_front(std::size_t count) {
  for (const Entry& entry : entries().first(count)) {
    Chunk& chunk = chunks_[entry.chunk - first_chunk_];
    chunk.live -= entry.size;
    live_bytes_ -= entry.size;
    if (chunk.live == 0 && &chunk != &chunks_.back()) chunk.bytes.reset();
  }
  while (chunks_.size() > 1 && !chunks_.front().bytes) {
    chunks_.pop_front();
    ++first_chunk_;
  }
  head_ += count;
  if (head_ * 2 < index_.size()) return;
  index_.erase(index_.begin(), index_.begin() + static_cast<std::ptrdiff_t>(head_));
  settled_ -= head_;
  head_ = 0;
}

}  // namespace flight
