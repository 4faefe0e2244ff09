// SPDX-License-Identifier: Apache-2.0
// Writes the data section, in a bounded pipeline: while the merge fills one chunk, the workers compress others and the
// writer writes the oldest, in order.
//
//   merge ──▶ [chunk 7: filling]  [6: compressing]  [5: compressing]  [4: compressed] ──▶ writer: file
//
// A chunk is cut at a record's end and becomes one zstd frame in one COMPRESSED record, so that readers with the known
// bugs in their decompress loop can read it. Each frame begins with an empty window. The size of a chunk is estimated
// from the frame of the previous chunk in the same place, so that its frame fits into a record: the file depends on
// the records and the number of workers, not on their speed. Data that zstd refuses is written uncompressed. A
// FINISHED_ROUND is never compressed. The files of a data directory have none: perf sorts what is in them as a whole.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/snapshot/stream_memory.hpp"
#include "libcore/snapshot/worker_pool.hpp"

namespace flight {

inline constexpr std::size_t kRoundBytes = 1U << 20U;  // a FINISHED_ROUND about this often

class DataStream {
 public:
  // level 0: no compression; if zstd refuses, there is none either, and refused() says why. `writer`, `workers` and
  // `memory` must outlive the stream; it is the only user of the writer until close(), and of the memory.
  DataStream(FileWriter& writer, WorkerPool& workers, StreamMemory& memory, int level);
  // The same without FINISHED_ROUND, for a data directory. `sink`: where the bytes of the chunks go, in their order;
  // it is called on the writer's thread.
  using Sink = std::function<Result<void>(std::span<const std::byte> bytes, std::uint64_t chunk)>;
  DataStream(Sink sink, WorkerPool& workers, StreamMemory& memory, int level);
  DataStream(const DataStream&) = delete;
  DataStream& operator=(const DataStream&) = delete;
  ~DataStream();

  // Appends one whole record. Blocks while all chunks are in use. Returns an earlier error of the disk.
  [[nodiscard]] Result<void> append(std::span<const std::byte> record);
  // Ends the chunk; a FINISHED_ROUND (or `marker`, a whole uncompressed record) follows it in the file.
  [[nodiscard]] Result<void> round();
  [[nodiscard]] Result<void> marker(std::span<const std::byte> record);
  // Writes the rest and waits for it.
  [[nodiscard]] Result<void> close();

  [[nodiscard]] std::uint64_t raw_bytes() const { return raw_bytes_; }  // of all records, uncompressed
  [[nodiscard]] bool compresses() const { return !compressors_.empty(); }
  // After close(): how many chunks zstd refused, and why; or why it refused all.
  [[nodiscard]] std::uint64_t plain_chunks() const { return plain_chunks_; }
  [[nodiscard]] const std::string& refused() const { return refused_; }

 private:
  enum class Stage : std::uint8_t { free, filling, queued, ready };
  struct Chunk {
    Stage stage = Stage::free;
    std::size_t enough = kFirstChunkBytes;  // raw bytes after which it ends
    FixedBytes raw;                         // whole records
    FixedBytes packed;                      // bytes for the file
    std::vector<std::byte> marker;          // an uncompressed record after it
  };

  DataStream(Sink sink, bool rounds, WorkerPool& workers, StreamMemory& memory, int level);
  void make_compressors(int level);
  [[nodiscard]] Result<void> submit();
  void pack(Chunk& chunk, std::size_t worker);
  void pack_range(std::span<const std::byte> raw, Chunk& chunk, std::size_t worker);
  void write_all_chunks();

  const Sink sink_;
  const bool rounds_;
  WorkerPool& workers_;
  StreamMemory& memory_;
  std::vector<Compressor> compressors_;  // one for each worker; empty: no compression

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Chunk> chunks_;
  std::size_t filling_ = 0;  // index of the chunk that the merge fills
  bool closing_ = false;
  Result<void> outcome_;  // of the disk
  std::uint64_t plain_chunks_ = 0;
  std::string refused_;

  std::uint64_t raw_bytes_ = 0;
  std::size_t since_round_ = 0;
  bool written_ = false;  // the writer has finished
  bool closed_ = false;
};

}  // namespace flight
