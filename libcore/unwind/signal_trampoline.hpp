// SPDX-License-Identifier: Apache-2.0
// The code to which a signal handler returns, if it has no call frame information: arm64's vDSO has none since Linux
// 5.8, and musl never had any. It is found by its instructions, as debuggers do, in files that are small enough to be
// searched. glibc's for x86-64 has CFI.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libcore/unwind/elf_image.hpp"
#include "libcore/unwind/frame_state.hpp"

namespace flight {

inline constexpr std::size_t kMaxSearchedCodeBytes = 1U << 20U;  // enough for a vDSO and for musl's libc
inline constexpr std::size_t kMaxSignalTrampolines = 16;

struct SignalTrampoline {
  // The rule holds from one byte before the first instruction, because a return address is looked up at the byte before
  // it.
  std::uint64_t begin = 0, end = 0;
  Machine machine = Machine::x86_64;
  // The place of the interrupted registers.
  [[nodiscard]] FrameState state() const;
};

// Sorted by address.
[[nodiscard]] std::vector<SignalTrampoline> find_signal_trampolines(const ElfImage& image,
                                                                    std::span<const ElfSegment> code_segments);

}  // namespace flight
