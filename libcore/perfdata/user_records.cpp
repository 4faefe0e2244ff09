// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/user_records.hpp"

#include <cassert>

#include "libcore/perfdata/format.hpp"

namespace flight {
namespace {

perf_event_header header_of(std::uint32_t type, std::size_t body_bytes) {
  return {.type = type, .misc = 0, .size = static_cast<std::uint16_t>(sizeof(perf_event_header) + body_bytes)};
}

}  // namespace

void append_finished_round(std::vector<std::byte>& out) { append_value(out, header_of(kRecordFinishedRound, 0)); }

void append_finished_init(std::vector<std::byte>& out) { append_value(out, header_of(kRecordFinishedInit, 0)); }

perf_event_header compressed_header(std::size_t frame_bytes) {
  // A size that wraps would make the rest of the file unreadable.
  assert(frame_bytes <= kMaxCompressedPayload);
  return header_of(kRecordCompressed, frame_bytes);
}

void append_compressed(std::vector<std::byte>& out, std::span<const std::byte> frame) {
  append_value(out, compressed_header(frame.size()));
  append_bytes(out, frame);
}

}  // namespace flight
