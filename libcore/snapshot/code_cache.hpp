// SPDX-License-Identifier: Apache-2.0
// The newest answers of MappedCode, for a thread that asks about one sample after the other: a sample has some 18
// callers, and those of one program are in few parts of its memory. It keeps stretches of addresses and of time, so
// that each of its answers is one of MappedCode, within the bounds for which MappedCode gave it.
//
//   memory, 64 KiB around an address ──▶ one of 512 slots: first and last address, code or not
//   pid ──▶ one of 64 slots: first and last time, memory
//
// A slot has 32 bytes, two are one line of the processor's cache. Together they are 18 KiB, of 32 KiB or more that the
// first cache has: the records that pass need the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/snapshot/mapped_code.hpp"

namespace flight {

class CodeCache {
 public:
  // `code` must outlive this object, and nothing may be doubted meanwhile.
  explicit CodeCache(const MappedCode& code) : code_(code), stretches_(kStretches), stays_(kStays) {}

  // Both as of MappedCode. One thread.
  [[nodiscard]] std::size_t memory_of(std::uint32_t pid, EventTime time_ns) {
    StaySlot& slot = stays_[pid % kStays];
    if (slot.pid != pid || time_ns < slot.stay.from_ns || time_ns > slot.stay.to_ns)
      slot = {.stay = code_.stay_of(pid, time_ns), .pid = pid};
    return slot.stay.memory;
  }
  [[nodiscard]] CodeStretch stretch_of(std::size_t memory, std::uint64_t address) {
    StretchSlot& slot = stretches_[slot_of(memory, address)];
    if (slot.memory != memory || address < slot.stretch.first || address > slot.stretch.last)
      slot = {.stretch = code_.stretch_of(memory, address), .memory = memory};
    return slot.stretch;
  }

 private:
  static constexpr unsigned kBlockBits = 16;  // 64 KiB: mappings are seldom closer to each other
  static constexpr unsigned kStretchBits = 9;
  static constexpr std::size_t kStretches = std::size_t{1} << kStretchBits, kStays = 64;

  // Empty: of no memory.
  struct alignas(32) StretchSlot {
    CodeStretch stretch;
    std::size_t memory = MappedCode::kUnknown;
  };
  // Empty: of the pid 0, of which nothing is ever known.
  struct alignas(32) StaySlot {
    MappedCode::Stay stay;
    std::uint32_t pid = 0;
  };
  // By the upper bits of a product, which depend on all of the key's.
  static std::size_t slot_of(std::size_t memory, std::uint64_t address) {
    const std::uint64_t key = (address >> kBlockBits) ^ (static_cast<std::uint64_t>(memory) << 32U);
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15U) >> (64 - kStretchBits));
  }

  const MappedCode& code_;
  std::vector<StretchSlot> stretches_;
  std::vector<StaySlot> stays_;
};

}  // namespace flight
