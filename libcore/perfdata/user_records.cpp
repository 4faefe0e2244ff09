// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/user_records.hpp"

#include <linux/perf_event.h>

#include <cassert>

#include "libcore/perfdata/format.hpp"

namespace flight {
namespace {

void append_header(std::vector<std::byte>& out, std::uint32_t type, std::size_t body_bytes) {
  append_value(
      out, perf_event_header{
               .type = type, .misc = 0, .size = static_cast<std::uint16_t>(sizeof(perf_event_header) + body_bytes)});
}

}  // namespace

void append_finished_round(std::vector<std::byte>& out) { append_header(out, kRecordFinishedRound, 0); }

void append_finished_init(std::vector<std::byte>& out) { append_header(out, kRecordFinishedInit, 0); }

void append_compressed(std::vector<std::byte>& out, std::span<const std::byte> frame) {
  // A size that wraps would make the rest of the file unreadable.
  assert(frame.size() <= kMaxCompressedPayload);
  append_header(out, kRecordCompressed, frame.size());
  append_bytes(out, frame);
}

}  // namespace flight
