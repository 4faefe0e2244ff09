// SPDX-License-Identifier: Apache-2.0
// A file that two sides map: the witness in flightd writes a note of every allocation, the test reads them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace flight {

struct AllocationNotes {
  static constexpr std::size_t kNotes = 1U << 20U;  // the newest
  struct Note {
    std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC
    std::int32_t thread = 0, reserved = 0;
  };
  std::atomic<std::uint64_t> count = 0;
  std::array<Note, kNotes> notes{};
};

}  // namespace flight
