// SPDX-License-Identifier: Apache-2.0
// Who made forks, and in which unit it was then. A copy of a process that has lived for a moment counts for the
// process, as a shell's subshell does; but only where it is in the same unit as far as its samples, its cgroup and
// those of its relatives say. A child that was started in another cgroup, or moved there, is no subshell: its forks are
// its own.
#pragma once

#include <cstdint>

#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/inherited_units.hpp"
#include "libcore/snapshot/lives.hpp"
#include "libcore/snapshot/unit_times.hpp"

namespace flight {

struct ForkedBy {
  std::uint32_t pid = 0;  // 0: several, or unknown
  Comm comm{};
  std::uint32_t process = InheritedUnits::kNoSamples;  // as in Life
  std::uint32_t program = 0, unit = Lives::kUnitUnknown;
  bool kernel = false;
};

class WhoForked {
 public:
  // Keeps references to all of them. `units`: of processes with samples; `inherited`: of those without.
  WhoForked(const TrackerExport& sideband, const UnitTimes& units, const InheritedUnits& inherited)
      : sideband_(sideband), units_(units), inherited_(inherited) {}

  [[nodiscard]] ForkedBy made(const ForkCount& forks, Lives& lives) const;

 private:
  struct Known {
    ForkedBy by;
    bool has_unit = false;  // samples of its own, or /proc, say what its unit is, or that it is not known
  };
  // `forks`: of the process `pid`.
  [[nodiscard]] Known known(const ForkCount& forks, std::uint32_t pid, const Comm& comm, Lives& lives) const;

  const TrackerExport& sideband_;
  const UnitTimes& units_;
  const InheritedUnits& inherited_;
};

}  // namespace flight
