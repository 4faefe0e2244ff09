// SPDX-License-Identifier: Apache-2.0
// SAMPLEs of an event that copies the user's registers and stack.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "libcore/perf/sample_parts.hpp"
#include "tests/unit/perf/ring_image.hpp"

namespace flight::test {

inline constexpr std::uint64_t kCopyType = kSampleType | PERF_SAMPLE_CALLCHAIN | kUserCopies | PERF_SAMPLE_CGROUP;
inline constexpr std::uint64_t kThreeRegisters = 0b10011;
inline constexpr std::uint64_t kStackWord = 0x5ec2e75ec2e75ec2;  // in the place of every word of a copied stack

inline EventTable copying_event(std::uint64_t type = kCopyType) {
  EventTable events;
  events.add_id(kId, events.add_event(type, kThreeRegisters));
  return events;
}

struct CopiedSample {
  EventTime time_ns = 0;
  std::uint64_t serial = 0;  // its ip
  std::uint64_t id = kId;
  std::vector<std::uint64_t> chain{PERF_CONTEXT_USER, 0x401000};
  std::uint64_t abi = PERF_SAMPLE_REGS_ABI_64;
  std::uint64_t stack_bytes = 64, valid_bytes = 48;
  std::uint64_t cgroup = 0xc0ffee;
  bool has_cgroup = true;

  [[nodiscard]] std::vector<std::uint64_t> words() const {
    std::vector<std::uint64_t> out{0, id, serial, 1 | std::uint64_t{1} << 32U, time_ns, 0, 1, chain.size()};
    out.insert(out.end(), chain.begin(), chain.end());
    out.push_back(abi);
    if (abi != PERF_SAMPLE_REGS_ABI_NONE) out.insert(out.end(), {0x1000, 0x1001, 0x1002});
    out.push_back(stack_bytes);
    if (stack_bytes != 0) {
      out.insert(out.end(), stack_bytes / 8, kStackWord);
      out.push_back(valid_bytes);
    }
    if (has_cgroup) out.push_back(cgroup);
    perf_event_header header{PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 0};
    header.size = static_cast<std::uint16_t>(8 * out.size());
    out[0] = std::bit_cast<std::uint64_t>(header);
    return out;
  }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    const std::vector<std::uint64_t> all = words();
    const auto raw = std::as_bytes(std::span(all));
    return {raw.begin(), raw.end()};
  }
};

inline void write_copied(FakeRing& ring, std::uint64_t serial) {
  ring.write(CopiedSample{.time_ns = 100 * serial, .serial = serial}.bytes());
}

// As the kernel writes a sample of a program without a stack pointer: in the place of the cgroup there is the number of
// valid bytes, and what comes last is behind the record's end.
inline void write_overrun(FakeRing& ring, std::uint64_t serial, bool has_cgroup = true) {
  CopiedSample copied{.time_ns = 100 * serial, .serial = serial, .stack_bytes = 0, .has_cgroup = has_cgroup};
  const std::uint64_t last = has_cgroup ? std::exchange(copied.cgroup, 0) : 0;
  const auto record = copied.bytes();
  ring.write(record);
  ring.poke(record.size(), bytes_of(last));
}

}  // namespace flight::test
