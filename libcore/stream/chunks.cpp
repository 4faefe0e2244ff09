// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/chunks.hpp"

#include <cerrno>
#include <utility>

#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

constexpr std::size_t kFrameBytes = 64U << 10U;
static_assert(kFrameBytes >= kMaxCompressedPayload);
constexpr std::size_t kSmallestPage = 4096;
static_assert(kMaxExpandedBytes % kSmallestPage == 0 && kFrameBytes % kSmallestPage == 0);

}  // namespace

void touch_pages(std::span<std::byte> memory) {
  for (std::size_t at = 0; at < memory.size(); at += kSmallestPage) memory[at] = std::byte{0};
}

Chunks::Chunks(Mapping memory, int level)
    : memory_(std::move(memory)),
      level_(level),
      records_(memory_.bytes().first(kMaxExpandedBytes)),
      frame_(memory_.bytes().subspan(kMaxExpandedBytes, kMaxCompressedPayload)),
      context_(memory_.bytes().subspan(kMaxExpandedBytes + kFrameBytes)) {}

Result<Chunks> Chunks::create(int level) {
  std::size_t context_bytes = 0;
  if (level != 0) {
    const auto bytes = compressor_bytes(level, kMaxExpandedBytes);
    if (!bytes) return propagate(bytes.error());
    context_bytes = *bytes;
  }
  auto memory = Mapping::create(kMaxExpandedBytes + kFrameBytes + context_bytes);
  if (!memory) return wrap(memory.error(), "the buffers of a recording's thread");
  return Chunks(std::move(*memory), level);
}

void Chunks::begin() {
  touch_pages(memory_.bytes());
  if (level_ == 0) return;
  auto compressor = Compressor::create_in(context_, level_);
  if (compressor) {
    compressor_.emplace(std::move(*compressor));
  } else {
    refused_ = compressor.error().what;
  }
}

std::size_t Chunks::pack(std::size_t enough, const Emit& emit) {
  if (records_.size() > 0) pack_range(records_.bytes(), enough, emit);
  records_.clear();
  return enough;
}

// Makes one frame of `records`, or two of its halves if it is more than a COMPRESSED record can carry.
void Chunks::pack_range(std::span<const std::byte> records, std::size_t& enough, const Emit& emit) {
  if (!compressor_) {
    emit({.head = {}, .body = records, .records = records});
    return;
  }
  const auto size = compressor_->compress(records, frame_);
  if (size) {
    const perf_event_header header = compressed_header(*size);
    emit({.head = std::as_bytes(std::span(&header, 1)), .body = frame_.first(*size), .records = records});
    enough = next_chunk_bytes(enough, records.size(), *size);
    return;
  }
  std::size_t cut = 0;
  while (cut < records.size() / 2) {
    const auto record = next_record(records.subspan(cut));
    if (record.empty()) break;
    cut += record.size();
  }
  if (size.error().errno_value() == ENOSPC && cut > 0 && cut < records.size()) {
    pack_range(records.first(cut), enough, emit);
    pack_range(records.subspan(cut), enough, emit);
    return;
  }
  emit({.head = {}, .body = records, .records = records});
  if (plain_chunks_++ == 0) refused_ = size.error().what;
}

}  // namespace flight
