// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/data_stream.hpp"

#include <utility>

#include "libcore/base/steps.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/user_records.hpp"

namespace flight {

DataStream::DataStream(FileWriter& writer, WorkerPool& workers, StreamMemory& memory, int level)
    : DataStream([&writer](std::span<const std::byte> bytes, std::uint64_t /*chunk*/) { return writer.append(bytes); },
                 true, workers, memory, level) {}

DataStream::DataStream(Sink sink, WorkerPool& workers, StreamMemory& memory, int level)
    : DataStream(std::move(sink), false, workers, memory, level) {}

DataStream::DataStream(Sink sink, bool rounds, WorkerPool& workers, StreamMemory& memory, int level)
    : sink_(std::move(sink)), rounds_(rounds), workers_(workers), memory_(memory) {
  if (level > 0) make_compressors(level);
  chunks_.resize(memory_.chunks());
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].raw = memory_.raw(i);
    chunks_[i].packed = memory_.packed(i);
  }
  chunks_[0].stage = Stage::filling;
  workers_.write([this] { write_all_chunks(); });
}

DataStream::~DataStream() {
  static_cast<void>(close());
  compressors_.clear();
  memory_.rest();
}

// Without memory for zstd, the file is written uncompressed, which is better than no file.
void DataStream::make_compressors(int level) {
  auto made = memory_.set_level(level);
  for (std::size_t i = 0; made && i < workers_.size(); ++i) {
    auto compressor = memory_.compressor(i);
    if (compressor) {
      compressors_.push_back(std::move(*compressor));
    } else {
      made = propagate(compressor.error());
    }
  }
  if (made) return;
  compressors_.clear();
  refused_ = made.error().what;
}

Result<void> DataStream::append(std::span<const std::byte> record) {
  Chunk& chunk = chunks_[filling_];
  chunk.raw.append(record);
  raw_bytes_ += record.size();
  since_round_ += record.size();
  if (chunk.raw.size() < chunk.enough) return {};
  return rounds_ && since_round_ + chunk.enough / 2 >= kRoundBytes ? round() : submit();
}

Result<void> DataStream::round() {
  since_round_ = 0;
  if (!rounds_) return submit();
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
  if (chunk.raw.size() > 0) {
    if (compressors_.empty()) {
      chunk.packed.append(chunk.raw.bytes());
    } else {
      pack_range(chunk.raw.bytes(), chunk, worker);
    }
  }
  chunk.packed.append(chunk.marker);
  // Under the lock: after the writer has seen this chunk, the stream may be destroyed.
  const std::lock_guard lock(mutex_);
  chunk.stage = Stage::ready;
  changed_.notify_all();
}

// Makes one frame of `raw`, or two of its halves if it is more than a record can carry.
void DataStream::pack_range(std::span<const std::byte> raw, Chunk& chunk, std::size_t worker) {
  const std::span<std::byte> frame = memory_.frame(worker);
  const auto size = compressors_[worker].compress(raw, frame);
  if (size) {
    const perf_event_header header = compressed_header(*size);
    chunk.packed.append(std::as_bytes(std::span(&header, 1)));
    chunk.packed.append(frame.first(*size));
    chunk.enough = next_chunk_bytes(chunk.enough, raw.size(), *size);
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
  chunk.packed.append(raw);
  const std::lock_guard lock(mutex_);
  if (plain_chunks_++ == 0) refused_ = size.error().what;
}

void DataStream::write_all_chunks() {
  for (std::uint64_t number = 0;; ++number) {
    Chunk& chunk = chunks_[number % chunks_.size()];
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
    Result<void> written = good && chunk.packed.size() > 0 ? sink_(chunk.packed.bytes(), number) : Result<void>{};
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
