// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/data_stream.hpp"

#include <algorithm>

#include "libcore/base/steps.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

// Chunks under way for each worker: one being compressed, one waiting.
constexpr std::size_t kChunksPerWorker = 2;
// Of the 64 KiB that a COMPRESSED record can carry: what frames are cut to have.
constexpr std::size_t kExpectedFrameBytes = 57U << 10U;

}  // namespace

DataStream::DataStream(FileWriter& writer, Crew& crew, int level) : writer_(writer), crew_(crew), level_(level) {
  for (std::size_t i = 0; level_ > 0 && i < crew_.size(); ++i) {
    auto compressor = Compressor::create(level_);
    if (!compressor) {  // no memory for zstd: the file is written plain, which is worth more than none
      compressors_.clear();
      break;
    }
    compressors_.push_back(std::move(*compressor));
  }
  frames_.resize(crew_.size());
  for (auto& frame : frames_) frame.resize(kMaxCompressedPayload);
  chunks_.resize(crew_.size() * kChunksPerWorker + 2);
  chunks_[0].stage = Stage::filling;
  chunks_[0].raw.reserve(kMaxExpandedBytes);
  crew_.write([this] { write_all_chunks(); });
}

DataStream::~DataStream() { static_cast<void>(close()); }

Result<void> DataStream::append(std::span<const std::byte> record) {
  Chunk& chunk = chunks_[filling_];
  chunk.raw.insert(chunk.raw.end(), record.begin(), record.end());
  raw_bytes_ += record.size();
  since_round_ += record.size();
  if (chunk.raw.size() < chunk.enough) return {};
  return since_round_ + chunk.enough / 2 >= kRoundBytes ? round() : submit();
}

Result<void> DataStream::round() {
  since_round_ = 0;
  std::vector<std::byte> record;
  append_finished_round(record);
  return marker(record);
}

Result<void> DataStream::marker(std::span<const std::byte> record) {
  auto& marker = chunks_[filling_].marker;
  marker.insert(marker.end(), record.begin(), record.end());
  raw_bytes_ += record.size();
  return submit();
}

// Hands the chunk that was filled to the crew and takes the next free one.
Result<void> DataStream::submit() {
  Chunk& full = chunks_[filling_];
  {
    const std::lock_guard lock(mutex_);
    full.stage = Stage::queued;
  }
  crew_.post([this, &full](std::size_t worker) { pack(full, worker); });

  filling_ = (filling_ + 1) % chunks_.size();
  Chunk& next = chunks_[filling_];
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return next.stage == Stage::free; });
  next.stage = Stage::filling;
  next.raw.clear();
  next.packed.clear();
  next.marker.clear();
  return outcome_;
}

void DataStream::pack(Chunk& chunk, std::size_t worker) {
  if (!chunk.raw.empty()) {
    if (compressors_.empty()) {
      chunk.packed.assign(chunk.raw.begin(), chunk.raw.end());
    } else {
      pack_range(chunk.raw, chunk, worker);
    }
  }
  chunk.packed.insert(chunk.packed.end(), chunk.marker.begin(), chunk.marker.end());
  // Under the lock: once the writer has seen this chunk, the stream may be gone.
  const std::lock_guard lock(mutex_);
  chunk.stage = Stage::ready;
  changed_.notify_all();
}

// One frame of `raw`; where that is more than a record can carry, two of its halves.
void DataStream::pack_range(std::span<const std::byte> raw, Chunk& chunk, std::size_t worker) {
  auto& frame = frames_[worker];
  const auto size = compressors_[worker].compress(raw, frame);
  if (size) {
    append_compressed(chunk.packed, std::span(frame).first(*size));
    learn(chunk, raw.size(), *size);
    return;
  }
  std::size_t cut = 0;
  for (auto record = next_record(raw); !record.empty() && cut < raw.size() / 2; record = next_record(raw.subspan(cut)))
    cut += record.size();
  if (size.error().errno_value() == ENOSPC && cut > 0 && cut < raw.size()) {
    pack_range(raw.first(cut), chunk, worker);
    pack_range(raw.subspan(cut), chunk, worker);
    return;
  }
  chunk.packed.insert(chunk.packed.end(), raw.begin(), raw.end());
  const std::lock_guard lock(mutex_);
  ++plain_chunks_;
}

// The next chunk in this place should fill a record, with room for one that shrinks less. What was cut short tells
// little.
void DataStream::learn(Chunk& chunk, std::size_t raw_bytes, std::size_t frame_bytes) {
  if (raw_bytes < kMinChunkBytes / 2) return;
  chunk.enough = std::clamp(raw_bytes * kExpectedFrameBytes / frame_bytes, kMinChunkBytes, kMaxChunkBytes);
}

void DataStream::write_all_chunks() {
  for (std::size_t at = 0;; at = (at + 1) % chunks_.size()) {
    Chunk& chunk = chunks_[at];
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return chunk.stage == Stage::ready || (closing_ && chunk.stage != Stage::queued); });
    if (chunk.stage != Stage::ready) {
      written_ = true;  // under the lock: after it the stream may be gone
      changed_.notify_all();
      return;
    }
    const bool good = outcome_.has_value();
    lock.unlock();
    // After the first error the chunks are only drained: the merge learns of it at its next submit.
    Result<void> written = good && !chunk.packed.empty() ? writer_.append(chunk.packed) : Result<void>{};
    after_step(Step::streaming);
    lock.lock();
    if (!written && outcome_) outcome_ = written;
    chunk.stage = Stage::free;
    changed_.notify_all();
  }
}

Result<void> DataStream::close() {
  if (!closed_) {
    closed_ = true;
    static_cast<void>(submit());
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return written_; });
  }
  return outcome_;
}

}  // namespace flight
