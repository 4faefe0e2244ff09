// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/ring_reader.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include "libcore/perf/headerless.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kMarginBytes = 64U << 10U;
constexpr std::size_t kMostRecordBytes = 64U << 10U;  // its size is a u16

}  // namespace

std::uint64_t live_margin(std::uint64_t size) { return std::min(kMarginBytes, size / 2); }

RingReader::RingReader(std::span<const std::byte> data, std::function<std::uint64_t()> head, bool past,
                       std::span<std::byte> memory)
    : data_(data), mask_(data.size() - 1), head_(std::move(head)), begun_at_(head_()), past_(past) {
  assert(std::has_single_bit(data.size()) && data.size() >= 4096);
  // A piece ends before the record that would make it too large, and a record has less than 64 KiB.
  boundaries_.reserve(data.size() / (kPieceBytes - kMostRecordBytes) + 2);
  if (memory.empty()) {
    own_.resize(kMemoryBytes);
    memory = own_;
  }
  assert(memory.size() >= kMemoryBytes);
  copied_ = memory.first(kBufferBytes);
  turned_ = memory.subspan(kBufferBytes, kBufferBytes);
  if (!past) read_to_ = begun_at_;
}

void RingReader::recognise(const EventTable& events) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!events.layout(i).copies_user()) continue;
    events_ = &events;
    trailer_bytes_ = static_cast<std::size_t>(events.layout(i).trailer_bytes);
  }
}

// The header of the record that `read` reads, or what it must have been; size 0: none that is plausible. `bytes`
// are there from its beginning on.
template <typename Word>
perf_event_header RingReader::header_of(std::size_t bytes, const Word& read) const {
  const std::uint64_t first = read(0);
  if (events_ == nullptr || is_plausible_header(first)) return std::bit_cast<perf_event_header>(first);
  const HeaderlessRecord found = find_headerless(std::min(bytes, kMaxRecordBytes), trailer_bytes_, read,
                                                 [this](std::uint64_t id) -> const RecordLayout* {
                                                   const auto event = events_->find(id);
                                                   return event ? &events_->layout(*event) : nullptr;
                                                 });
  return found.bytes == 0 ? perf_event_header{} : restored_header(found, read(16));
}

// The number of bytes from `head` upwards that are safe to read now.
std::uint64_t RingReader::readable(std::uint64_t head) const {
  const std::uint64_t written = head - head_();
  const std::uint64_t sure = data_.size() - live_margin(data_.size());
  return sure - std::min(sure, written);
}

// Records are multiples of 8 bytes, and so is the ring: no word wraps around its end.
std::uint64_t RingReader::word(std::uint64_t position) const { return load<std::uint64_t>(&data_[position & mask_]); }

// Fills boundaries_, from the newest (0) to the oldest, and returns the last one. Headers that were overwritten before
// they were read lie above every later limit, and so do the boundaries that follow from them.
std::uint64_t RingReader::find_boundaries(std::uint64_t head, std::uint64_t bytes) {
  boundaries_.assign(1, 0);
  const std::uint64_t limit = std::min(bytes, readable(head));
  std::uint64_t at = 0;
  while (at < limit) {
    const auto header =
        header_of(static_cast<std::size_t>(limit - at), [&](std::size_t offset) { return word(head + at + offset); });
    if (header.size < kRecordHeaderBytes || header.size % 8 != 0 || header.size > limit - at) break;
    if (at + header.size - boundaries_.back() > kPieceBytes) boundaries_.push_back(at);
    at += header.size;
  }
  if (at > boundaries_.back()) boundaries_.push_back(at);
  return at;
}

void RingReader::copy(std::uint64_t from, std::size_t bytes) {
  const std::size_t begin = from & mask_;
  const std::size_t first = std::min(bytes, data_.size() - begin);
  std::memcpy(copied_.data(), &data_[begin], first);
  std::memcpy(copied_.data() + first, data_.data(), bytes - first);
}

// Of pieces of so many bytes at most: samples have copies of other processes' memory.
void RingReader::wipe(std::size_t bytes) {
  ::explicit_bzero(copied_.data(), bytes);
  ::explicit_bzero(turned_.last(bytes).data(), bytes);
}

// The records of the copied piece that end at or below `limit`, oldest first, at the end of turned_. Returns their
// bytes.
std::size_t RingReader::turn_round(std::size_t bytes, std::uint64_t limit) {
  std::size_t at = 0;
  while (at + kRecordHeaderBytes <= bytes) {
    const auto header =
        header_of(bytes - at, [&](std::size_t offset) { return load<std::uint64_t>(&copied_[at + offset]); });
    if (header.size < kRecordHeaderBytes || header.size % 8 != 0 ||
        at + header.size > std::min<std::uint64_t>(bytes, limit))
      break;
    std::memcpy(&copied_[at], &header, sizeof header);
    std::memcpy(turned_.data() + turned_.size() - at - header.size, &copied_[at], header.size);
    at += header.size;
  }
  return at;
}

std::uint64_t RingReader::look(Sink& sink) {
  const std::uint64_t head = head_();
  const std::uint64_t bytes = read_to_ - head;
  if (bytes == 0) return head;
  // Above what was found: overwritten, or no records.
  std::uint64_t missing = bytes - find_boundaries(head, bytes);
  std::size_t most = 0;
  for (std::size_t i = boundaries_.size() - 1; i > 0; --i) {
    const std::uint64_t begin = boundaries_[i - 1];
    const std::size_t size = boundaries_[i] - begin;
    copy(head + begin, size);
    most = std::max(most, size);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);  // the copy is complete before the head is read again
    const std::uint64_t limit = readable(head);
    const std::size_t good = limit <= begin ? 0 : turn_round(size, limit - begin);
    missing += size - good;
    if (good == 0) continue;
    report(sink, std::exchange(missing, 0), head + begin + good);
    sink.records(turned_.last(good));
    past_ = false;
    if (const std::size_t left = sink.left(); left > 0) {
      if (events_ != nullptr) wipe(most);
      read_to_ = head + begin + left;
      return read_to_;
    }
  }
  report(sink, missing, head);
  if (events_ != nullptr) wipe(most);
  read_to_ = head;
  return head;
}

// `end`: the position below which nothing of it is missing. Positions fall, and may wrap around.
void RingReader::report(Sink& sink, std::uint64_t missing, std::uint64_t end) const {
  if (past_) {
    const auto since_begin = static_cast<std::int64_t>(begun_at_ - end);
    const std::uint64_t hole = std::min(missing, since_begin < 0 ? 0 : static_cast<std::uint64_t>(since_begin));
    if (missing > hole) sink.past_is_cut(missing - hole);
    missing = hole;
  }
  if (missing > 0) sink.hole(missing);
}

}  // namespace flight
