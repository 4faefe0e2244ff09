// SPDX-License-Identifier: Apache-2.0
// The record types that perf itself adds to a file's data section (types >= 64): tools/lib/perf/include/perf/event.h.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flight {

inline constexpr std::uint32_t kRecordFinishedRound = 68;
inline constexpr std::uint32_t kRecordCompressed = 81;
inline constexpr std::uint32_t kRecordFinishedInit = 82;

// The most payload a COMPRESSED record can carry: its u16 size includes the 8 byte header.
inline constexpr std::size_t kMaxCompressedPayload = 65535 - 8;

// A reader that sorts may process everything older than the round before the last.
void append_finished_round(std::vector<std::byte>& out);
// Ends the synthesised part.
void append_finished_init(std::vector<std::byte>& out);
// The header of a COMPRESSED record of a frame of this size, <= kMaxCompressedPayload bytes.
[[nodiscard]] perf_event_header compressed_header(std::size_t frame_bytes);
// `frame` is one whole zstd frame of whole records, <= kMaxCompressedPayload bytes.
void append_compressed(std::vector<std::byte>& out, std::span<const std::byte> frame);

}  // namespace flight
