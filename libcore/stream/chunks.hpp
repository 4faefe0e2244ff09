// SPDX-License-Identifier: Apache-2.0
// Packs records for the file. Runs of whole records are collected to a chunk; a chunk becomes one zstd frame in one
// COMPRESSED record.
//
//   append() ──▶ [ records, up to 576 KiB ] ── zstd ──▶ [ frame, below 64 KiB ] ──▶ Emit: header, frame
//
// If the frame would be larger than a record, the chunk becomes several; what zstd refuses is emitted as it is. These
// two buffers and one context are all the memory, and it is taken by create(): nothing is allocated while recording.
// How large a chunk should be depends on how well the last one of the same records was compressed (chunk_size.hpp), so
// the caller keeps that number for each ring. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "libcore/base/fixed_bytes.hpp"
#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/chunk_size.hpp"

namespace flight {

class Chunks {
 public:
  // The bytes for the file are `head`, then `body`; they expand to `records`. Valid until Emit returns.
  struct Packed {
    std::span<const std::byte> head, body, records;
  };
  using Emit = std::function<void(const Packed&)>;

  // level: 1 to 19; 0: no compression. Takes the memory and touches none of it.
  [[nodiscard]] static Result<Chunks> create(int level);
  // Once, on the thread that packs: touches the memory, so that it lies near the thread's CPUs, and makes the context.
  // If zstd refuses, everything is emitted as it is, and refused() says why.
  void begin();

  [[nodiscard]] std::size_t size() const { return records_.size(); }
  [[nodiscard]] bool fits(std::size_t bytes) const { return bytes <= records_.room(); }
  // Whole records that fit.
  void append(std::span<const std::byte> records) { records_.append(records); }
  // Forgets what was collected.
  void clear() { records_.clear(); }
  // Emits what was collected, in order, and forgets it. Returns how large the next chunk of such records should be,
  // where `enough` was the size of this one.
  [[nodiscard]] std::size_t pack(std::size_t enough, const Emit& emit);

  // As for create(), also if zstd refuses.
  [[nodiscard]] int level() const { return level_; }
  // Why zstd refused all, or the first of plain_chunks(); empty: it did not.
  [[nodiscard]] const std::string& refused() const { return refused_; }
  [[nodiscard]] std::uint64_t plain_chunks() const { return plain_chunks_; }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_.size(); }

 private:
  Chunks(Mapping memory, int level);
  void pack_range(std::span<const std::byte> records, std::size_t& enough, const Emit& emit);

  Mapping memory_;  // the records, the frame, the context
  int level_;
  FixedBytes records_;
  std::span<std::byte> frame_, context_;
  std::optional<Compressor> compressor_;  // none: no compression
  std::uint64_t plain_chunks_ = 0;
  std::string refused_;
};

// Writes one byte to each page of memory that was mapped and never written.
void touch_pages(std::span<std::byte> memory);

}  // namespace flight
