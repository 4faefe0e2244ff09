// SPDX-License-Identifier: Apache-2.0
// The part of memory.max that is not for rings and staging: both programs, the process tracker and its checkpoint, and
// a snapshot that is being written. What flightd's cgroup may use bounds its process tracker, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

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
[[nodiscard]] constexpr std::uint64_t checkpoint_file_bytes(std::uint64_t beside_rings_bytes) {
  return beside_rings_bytes / 8 * 3;
}

// The process tracker's share of it: what exited processes and running ones are known by, and the newest records.
[[nodiscard]] constexpr std::uint64_t tracker_state_bytes(std::uint64_t beside_rings_bytes) {
  return beside_rings_bytes / 5;
}
[[nodiscard]] constexpr std::uint64_t tracker_log_bytes(std::uint64_t beside_rings_bytes) {
  return beside_rings_bytes / 12;
}

// Both and the checkpoint: 8 MiB (in round numbers) to 32 MiB.
[[nodiscard]] constexpr std::uint64_t tracker_bytes(std::uint64_t beside_rings_bytes) {
  return tracker_state_bytes(beside_rings_bytes) + tracker_log_bytes(beside_rings_bytes) +
         checkpoint_file_bytes(beside_rings_bytes);
}
static_assert(tracker_bytes(kMostBesideRingsBytes) <= 32U << 20U);

// Which setting decides about the process tracker's limits.
enum class MemoryBound : std::uint8_t {
  config,   // memory.max
  cgroup,   // the limit of flightd's cgroup
  largest,  // none: flightd uses no more
};

// flightd's part.
struct BesideRings {
  std::uint64_t bytes = kMostBesideRingsBytes;
  MemoryBound bound = MemoryBound::largest;
  std::uint64_t cgroup_bytes = kNoCgroupLimit;

  static constexpr std::uint64_t kNoCgroupLimit = std::numeric_limits<std::uint64_t>::max();
};

// `max_bytes`: memory.max. Of a cgroup's limit, the process tracker and its checkpoint get at most a quarter, but not
// less than their smallest share.
[[nodiscard]] inline BesideRings beside_rings(std::uint64_t max_bytes,
                                              std::uint64_t cgroup_bytes = BesideRings::kNoCgroupLimit) {
  const std::uint64_t of_config = beside_rings_bytes(max_bytes);
  const std::uint64_t of_cgroup = std::clamp(cgroup_bytes / 8 * 3, kLeastBesideRingsBytes, kMostBesideRingsBytes);
  const std::uint64_t bytes = std::min(of_config, of_cgroup);
  return {.bytes = bytes,
          .bound = of_cgroup < of_config            ? MemoryBound::cgroup
                   : bytes >= kMostBesideRingsBytes ? MemoryBound::largest
                                                    : MemoryBound::config,
          .cgroup_bytes = cgroup_bytes};
}

}  // namespace flight
