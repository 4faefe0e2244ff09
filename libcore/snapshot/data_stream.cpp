// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/data_stream.hpp"

#include <algorithm>

#include "libcore/base/steps.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

// Number of chunks for each worker: one being compressed, one waiting.
constexpr std::size_t kChunksPerWorker = 2;
// The planned size of a frame, within the 64 KiB of a COMPRESSED record.
constexpr std::size_t kExpectedFrameBytes = 57U << 10U;

}  // namespace

DataStream::DataStream(FileWriter& writer, WorkerPool& workers, int level)
    : writer_(writer), workers_(workers), level_(level) {
  for (std::size_t i = 0; level_ > 0 && i < workers_.size(); ++i) {
    auto compressor = Compressor::create(level_);
    if (!compressor) {  // no memory for zstd: the file is written uncompressed, which is better than no file
      compressors_.clear();
      refused_ = compressor.error().what;
      break;
    }
    compressors_.push_back(std::move(*compressor));
  }
  frames_.resize(workers_.size());
  for (auto& frame : frames_) frame.resize(kMaxCompressedPayload);
  chunks_.resize(workers_.size() * kChunksPerWorker + 2);
  chunks_[0].stage = Stage::filling;
  chunks_[0].raw.reserve(kMaxExpandedBytes);
  workers_.write([this] { write_all_chunks(); });
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

// Passes the filled chunk to the workers and takes the next free one.
Result<void> DataStream::submit() {
  Chunk& full = chunks_[filling_];
  {
    const std::lock_guard lock(mutex_);
    full.stage = Stage::queued;
  }
  workers_.post([this, &full](std::size_t worker) { pack(full, worker); });

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
  // Under the lock: after the writer has seen this chunk, the stream may be destroyed.
  const std::lock_guard lock(mutex_);
  chunk.stage = Stage::ready;
  changed_.notify_all();
}

// Makes one frame of `raw`, or two of its halves if it is more than a record can carry.
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

// The next chunk in this place should fill a record, with a reserve for one that compresses less. A chunk that was
// ended early is no measure.
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
      written_ = true;  // under the lock: afterwards the stream may be destroyed
      changed_.notify_all();
      return;
    }
    const bool good = outcome_.has_value();
    lock.unlock();
    // After the first error the chunks are only drained: the merge gets the error at its next submit.
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
