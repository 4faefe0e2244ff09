// SPDX-License-Identifier: Apache-2.0
// The parts of a SAMPLE whose length depends on its content, among them the copies of the user's registers and stack.
// Sources: perf_event_open(2); perf_output_sample() and perf_output_sample_ustack() in kernel/events/core.c.
//
//   | header | fixed fields | CALLCHAIN  | RAW       | REGS_USER            | STACK_USER              | CGROUP |
//                             u64 n        u32 size    u64 abi                u64 size
//                             n × u64      bytes       registers, unless the  unless it is 0: bytes, and
//                                                      abi is NONE            u64 how many of them are valid
//
// The bytes of the stack that are not valid are old content of the ring.
#pragma once

#include <linux/perf_event.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "libcore/perf/record.hpp"

namespace flight {

// Each has 8 bytes, and they are before all others.
inline constexpr std::uint64_t kFixedSampleFields = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
                                                    PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
                                                    PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
// Before the copies, and their length needs more than the sample_type. flightd never requests them.
inline constexpr std::uint64_t kUnmeasuredSampleFields = PERF_SAMPLE_READ | PERF_SAMPLE_BRANCH_STACK;

// Offsets are from the record's beginning. A part that the event does not have is empty.
struct SampleParts {
  std::size_t chain = 0;  // of the first entry
  std::uint64_t frames = 0;
  std::size_t raw = 0;                     // of the first byte of RAW, the record of a tracepoint
  std::uint64_t raw_bytes = 0;             // with padding
  std::size_t copies = 0, copies_end = 0;  // REGS_USER and STACK_USER
  std::uint64_t abi = 0;                   // PERF_SAMPLE_REGS_ABI_*; NONE: no registers
  std::size_t registers = 0;               // of the first one; in the order of attr.sample_regs_user
  std::size_t stack = 0;                   // of the first copied byte
  std::uint64_t stack_bytes = 0, valid_bytes = 0;
};

// `word(offset)` is the u64 at this offset of the record, a multiple of 8 and at most `bytes` - 8. nullopt: the parts
// do not fit into `bytes`, contradict each other, or cannot be measured.
template <typename Word>
[[nodiscard]] std::optional<SampleParts> find_sample_parts(const RecordLayout& layout, std::size_t bytes,
                                                           const Word& word) {
  const auto has = [&](std::uint64_t fields) { return (layout.sample_type & fields) != 0; };
  SampleParts parts;
  std::size_t at =
      kRecordHeaderBytes + 8 * static_cast<std::size_t>(std::popcount(layout.sample_type & kFixedSampleFields));
  bool fits = at <= bytes && !has(kUnmeasuredSampleFields);
  const auto skip = [&](std::uint64_t count) {
    fits = fits && count % 8 == 0 && count <= bytes - at;
    if (fits) at += static_cast<std::size_t>(count);
  };
  const auto take = [&]() -> std::uint64_t {
    const std::size_t here = at;
    skip(8);
    return fits ? word(here) : 0;
  };

  if (has(PERF_SAMPLE_CALLCHAIN)) {
    parts.frames = take();
    parts.chain = at;
    skip(8 * std::min<std::uint64_t>(parts.frames, kMaxRecordBytes));
  }
  if (has(PERF_SAMPLE_RAW)) {
    // The kernel pads the size and the bytes together.
    parts.raw = at + sizeof(std::uint32_t);
    parts.raw_bytes = take() & UINT32_MAX;
    const std::uint64_t raw = sizeof(std::uint32_t) + parts.raw_bytes;
    fits = fits && raw % 8 == 0;
    if (fits) skip(raw - 8);
  }
  parts.copies = at;
  if (has(PERF_SAMPLE_REGS_USER)) {
    parts.abi = take();
    parts.registers = at;
    fits = fits && parts.abi <= PERF_SAMPLE_REGS_ABI_64;
    if (parts.abi != PERF_SAMPLE_REGS_ABI_NONE) skip(layout.user_register_bytes);
  }
  if (has(PERF_SAMPLE_STACK_USER)) {
    parts.stack_bytes = take();
    parts.stack = at;
    if (parts.stack_bytes != 0) {
      skip(parts.stack_bytes);
      parts.valid_bytes = take();
      fits = fits && parts.valid_bytes <= parts.stack_bytes;
    }
  }
  parts.copies_end = at;
  return fits ? std::optional(parts) : std::nullopt;
}

// The size of a sample that ends with these parts and its cgroup; 0: the event has other fields behind them.
[[nodiscard]] inline std::size_t sample_bytes(const SampleParts& parts, const RecordLayout& layout) {
  constexpr std::uint64_t kMeasured =
      kFixedSampleFields | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | kUserCopies | PERF_SAMPLE_CGROUP;
  if ((layout.sample_type & ~kMeasured) != 0) return 0;
  return parts.copies_end + ((layout.sample_type & PERF_SAMPLE_CGROUP) != 0 ? 8 : 0);
}

// Whether the kernel wrote 8 bytes more than it had reserved, over the header of the next older record. Of a stack of
// size 0 perf_prepare_sample() counts no number of valid bytes, but perf_output_sample_ustack() writes one if there are
// registers. A program does that whose stack pointer is 0 or no address of user space (seen on 6.18). What should be
// behind the copies is 8 bytes further, so that the sample has the cgroup 0.
[[nodiscard]] inline bool overruns(const SampleParts& parts, const RecordLayout& layout) {
  return (layout.sample_type & kUserCopies) == kUserCopies && parts.abi != PERF_SAMPLE_REGS_ABI_NONE &&
         parts.stack_bytes == 0;
}

// Of a whole SAMPLE.
[[nodiscard]] std::optional<SampleParts> sample_parts(std::span<const std::byte> record, const RecordLayout& layout);

}  // namespace flight
