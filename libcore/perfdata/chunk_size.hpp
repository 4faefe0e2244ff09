// SPDX-License-Identifier: Apache-2.0
// How many bytes of records one COMPRESSED record gets: its frame must fit into 64 KiB, and a reader reserves memory
// for what it expands to. The size is estimated from the frame before.
#pragma once

#include <algorithm>
#include <cstddef>

namespace flight {

inline constexpr std::size_t kMinChunkBytes = 128U << 10U;    // records of one frame
inline constexpr std::size_t kFirstChunkBytes = 256U << 10U;  // before anything is known
inline constexpr std::size_t kMaxChunkBytes = 512U << 10U;
inline constexpr std::size_t kMaxExpandedBytes = kMaxChunkBytes + (64U << 10U);  // + one record: the file's mmap_len
// The planned size of a frame, within the 64 KiB of a COMPRESSED record.
inline constexpr std::size_t kExpectedFrameBytes = 57U << 10U;

// After so many bytes a chunk ends, if `raw_bytes` before it became a frame of `frame_bytes`: the next frame should
// fill a record, with a reserve for one that compresses less. A chunk that was ended early is no measure: `before`.
[[nodiscard]] constexpr std::size_t next_chunk_bytes(std::size_t before, std::size_t raw_bytes,
                                                     std::size_t frame_bytes) {
  if (raw_bytes < kMinChunkBytes / 2) return before;
  return std::clamp(raw_bytes * kExpectedFrameBytes / frame_bytes, kMinChunkBytes, kMaxChunkBytes);
}

}  // namespace flight
