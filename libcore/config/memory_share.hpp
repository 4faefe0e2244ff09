// SPDX-License-Identifier: Apache-2.0
// The part of memory.max that is not for rings and staging: both programs, the process tracker and its checkpoint, and
// a snapshot that is being written.
#pragma once

#include <algorithm>
#include <cstdint>

namespace flight {

inline constexpr std::uint64_t kMostBesideRingsBytes = 48U << 20U;
inline constexpr std::uint64_t kLeastBesideRingsBytes = 12U << 20U;

[[nodiscard]] inline std::uint64_t beside_rings_bytes(std::uint64_t max_bytes) {
  return std::clamp(max_bytes / 8, kLeastBesideRingsBytes, kMostBesideRingsBytes);
}

// The scan's share: both programs map the same memory. The process tracker keeps less of it.
[[nodiscard]] constexpr std::uint64_t scan_bytes(std::uint64_t beside_rings_bytes) { return beside_rings_bytes / 8; }

// The checkpoint and its successor, while that is written: twice the state and the log, a twelfth each, and the later
// additions.
[[nodiscard]] inline std::uint64_t checkpoint_file_bytes(std::uint64_t beside_rings_bytes) {
  return beside_rings_bytes / 8 * 3;
}

}  // namespace flight
