// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/stream_memory.hpp"

#include <utility>

#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

// Number of chunks for each worker: one being compressed, one waiting.
constexpr std::size_t kChunksPerWorker = 2;
constexpr std::size_t kFrameBytes = 64U << 10U;
static_assert(kFrameBytes >= kMaxCompressedPayload);
// Data that zstd cannot shrink becomes some frames with their headers, and a marker follows.
constexpr std::size_t kPackedBytes = kMaxExpandedBytes + (64U << 10U);

std::size_t chunks_for(std::size_t workers) { return workers * kChunksPerWorker + 2; }

}  // namespace

StreamMemory::StreamMemory(std::size_t workers, Mapping buffers)
    : workers_(workers), chunks_(chunks_for(workers)), buffers_(std::move(buffers)) {}

Result<StreamMemory> StreamMemory::create(std::size_t workers, int level) {
  auto buffers = Mapping::create(workers * kFrameBytes + chunks_for(workers) * (kMaxExpandedBytes + kPackedBytes));
  if (!buffers) return wrap(buffers.error(), "the buffers of the snapshot's writer");
  StreamMemory out(workers, std::move(*buffers));
  if (auto set = out.set_level(level); !set) return propagate(set.error());
  return out;
}

Result<void> StreamMemory::set_level(int level) {
  if (level == level_) return {};
  level_ = 0;
  contexts_ = Mapping();
  const auto bytes = compressor_bytes(level, kMaxExpandedBytes);
  if (!bytes) return propagate(bytes.error());
  constexpr std::size_t kPage = 4096;
  context_bytes_ = (*bytes + kPage - 1) / kPage * kPage;
  auto contexts = Mapping::create(workers_ * context_bytes_);
  if (!contexts) return wrap(contexts.error(), "zstd at level {}", level);
  contexts_ = std::move(*contexts);
  level_ = level;
  return {};
}

Result<Compressor> StreamMemory::compressor(std::size_t worker) const {
  return Compressor::create_in(contexts_.bytes().subspan(worker * context_bytes_, context_bytes_), level_);
}

std::span<std::byte> StreamMemory::frame(std::size_t worker) const {
  return buffers_.bytes().subspan(worker * kFrameBytes, kMaxCompressedPayload);
}

FixedBytes StreamMemory::raw(std::size_t chunk) const {
  return FixedBytes(
      buffers_.bytes().subspan(workers_ * kFrameBytes + chunk * (kMaxExpandedBytes + kPackedBytes), kMaxExpandedBytes));
}

FixedBytes StreamMemory::packed(std::size_t chunk) const {
  return FixedBytes(buffers_.bytes().subspan(
      workers_ * kFrameBytes + chunk * (kMaxExpandedBytes + kPackedBytes) + kMaxExpandedBytes, kPackedBytes));
}

void StreamMemory::rest() const {
  buffers_.discard();
  contexts_.discard();
}

}  // namespace flight
