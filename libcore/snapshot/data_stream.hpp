// SPDX-License-Identifier: Apache-2.0
// The data section on its way to the disk, in a bounded pipeline: while the merge fills one chunk the crew compresses
// others and the writer writes the oldest, in order.
//
//   merge ──▶ [chunk 7: filling]  [6: compressing]  [5: compressing]  [4: compressed] ──▶ writer: file
//
// A chunk is cut at a record's end and becomes one zstd frame in one COMPRESSED record, so readers with the known
// faults in their decompress loop read it, too. Each frame begins with an empty window, so a chunk is as large as
// the frame of the chunk before it in the same place lets one expect to fit into a record: the file depends on the
// records and the number of workers, never on who was faster. What zstd refuses goes in plain. A FINISHED_ROUND is
// never compressed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/snapshot/crew.hpp"

namespace flight {

inline constexpr std::size_t kMinChunkBytes = 128U << 10U;    // records of one frame
inline constexpr std::size_t kFirstChunkBytes = 256U << 10U;  // where nothing is known yet
inline constexpr std::size_t kMaxChunkBytes = 512U << 10U;
inline constexpr std::size_t kMaxExpandedBytes = kMaxChunkBytes + (64U << 10U);  // + one record: the file's mmap_len
inline constexpr std::size_t kRoundBytes = 1U << 20U;                            // a FINISHED_ROUND about this often

class DataStream {
 public:
  // level 0: no compression. `writer` and `crew` must outlive the stream; nobody else uses the writer until close().
  DataStream(FileWriter& writer, Crew& crew, int level);
  DataStream(const DataStream&) = delete;
  DataStream& operator=(const DataStream&) = delete;
  ~DataStream();

  // One whole record. Blocks while all chunks are under way. An error of the disk comes back here, once known.
  [[nodiscard]] Result<void> append(std::span<const std::byte> record);
  // Ends the chunk; a FINISHED_ROUND (or `marker`, a whole uncompressed record) follows it in the file.
  [[nodiscard]] Result<void> round();
  [[nodiscard]] Result<void> marker(std::span<const std::byte> record);
  // Writes all that is left and waits for it.
  [[nodiscard]] Result<void> close();

  [[nodiscard]] std::uint64_t raw_bytes() const { return raw_bytes_; }        // of all records, unpacked
  [[nodiscard]] std::uint64_t plain_chunks() const { return plain_chunks_; }  // that zstd refused; after close()

 private:
  enum class Stage : std::uint8_t { free, filling, queued, ready };
  struct Chunk {
    Stage stage = Stage::free;
    std::size_t enough = kFirstChunkBytes;  // raw bytes that end it
    std::vector<std::byte> raw;             // whole records
    std::vector<std::byte> packed;          // what goes into the file
    std::vector<std::byte> marker;          // an uncompressed record behind it
  };

  [[nodiscard]] Result<void> submit();
  void pack(Chunk& chunk, std::size_t worker);
  void pack_range(std::span<const std::byte> raw, Chunk& chunk, std::size_t worker);
  static void learn(Chunk& chunk, std::size_t raw_bytes, std::size_t frame_bytes);
  void write_all_chunks();

  FileWriter& writer_;
  Crew& crew_;
  int level_;
  std::vector<Compressor> compressors_;         // one for each worker; empty: no compression
  std::vector<std::vector<std::byte>> frames_;  // each worker's output

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Chunk> chunks_;
  std::size_t filling_ = 0;  // index of the chunk that the merge fills
  bool closing_ = false;
  Result<void> outcome_;  // of the disk
  std::uint64_t plain_chunks_ = 0;

  std::uint64_t raw_bytes_ = 0;
  std::size_t since_round_ = 0;
  bool written_ = false;  // the writer has ended
  bool closed_ = false;
};

}  // namespace flight
