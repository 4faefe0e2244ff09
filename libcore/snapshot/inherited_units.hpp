// SPDX-License-Identifier: Apache-2.0
// The unit of a process that has forked but has no samples of its own: a shell of a millisecond. A fork inherits the
// cgroup, so it is the unit of its nearest ancestor of which it is known:
//
//   python  sampled, in health.service          the unit of all three
//     └ sh  forks, has no samples
//         └ sh  forks, has no samples
//
// No record says that a process was moved to another cgroup. So nothing is inherited
//
//   * from init.scope and the root cgroup: a service manager moves what it forks, before or after;
//   * from an ancestor that was in several units, or of which another descendant was seen in another unit than its own
//     at the time of the fork (a mover): it is a container's runtime or the like;
//   * if a cgroup was made since the fork: the process may have been moved there;
//   * if records were lost since then.
//
// A child of a mover that was seen in the mover's unit is there until its newest sample; later it may have been moved.
// A copy of a mover or of a service manager is not taken for its subshell.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/contributions.hpp"
#include "libcore/snapshot/lives.hpp"
#include "libcore/snapshot/unit_times.hpp"

namespace flight {

class InheritedUnits {
 public:
  static constexpr std::uint32_t kNoSamples = UINT32_MAX;  // instead of Life::process
  struct Place {
    std::uint32_t pid = 0, process = kNoSamples, unit = Lives::kUnitUnknown;
  };

  InheritedUnits() = default;
  // `all`: of the whole window. `units`: of the processes that forked. Keeps references to `sideband`, `units` and
  // `lives`.
  InheritedUnits(const TrackerExport& sideband, std::span<const Contribution> all, const UnitTimes& units,
                 Lives& lives);

  // kUnitUnknown where it is not certain. `pid`: without samples.
  [[nodiscard]] std::uint32_t at(std::uint32_t pid, EventTime time_ns) const;
  // Whether a process was in the unit of its newest sample until then (UnitTimes::at).
  [[nodiscard]] bool was_there(std::uint32_t pid, std::uint32_t process, EventTime time_ns) const;
  // Whether a mover has moved it while it had samples.
  [[nodiscard]] bool is_moved(std::uint32_t pid, std::uint32_t process) const;
  // Whether what seem to be subshells of this process are in its unit. Its unit can be unknown.
  [[nodiscard]] bool keeps_its_copies(const Place& shell) const;
  // The same for one of them, `pid`, which has no samples and forked at that time.
  [[nodiscard]] bool is_subshell(std::uint32_t pid, const Place& shell, EventTime time_ns) const;

 private:
  struct Fork {
    std::uint32_t pid = 0, parent = 0;
    EventTime time_ns = 0;
  };
  // A process with samples. kUnitUnknown: not known, or in several ones.
  struct Sampled {
    std::uint32_t pid = 0, process = 0, unit = Lives::kUnitUnknown;
    bool in_several = false, is_moved = false;
    EventTime begin_ns = 0;
    EventTime newest_ns = 0;                  // of its samples
    EventTime certain_until_ns = UINT64_MAX;  // later it may be elsewhere
  };
  struct Forker {
    std::uint32_t unit = Lives::kUnitUnknown;
    EventTime since_ns = 0;
  };
  struct Ancestor {
    std::uint32_t pid = 0, process = 0, unit = Lives::kUnitUnknown;  // that of the time of the fork
    EventTime forked_ns = 0;                                         // its fork that leads to the process
    bool in_several = false;                                         // at other times in another unit
  };
  void read_log();
  void note_fork(std::uint32_t pid, std::uint32_t parent, EventTime time_ns) {
    forks_.push_back({.pid = pid, .parent = parent, .time_ns = time_ns});
  }
  void read_units(std::span<const Contribution> all);
  void find_movers();
  void doubt_their_children();
  [[nodiscard]] const Fork* fork_of(std::uint32_t pid, EventTime until_ns) const;
  [[nodiscard]] const Sampled* sampled(std::uint32_t pid, std::uint32_t process) const;
  // The process with samples that had the number then; nullptr: none. `is_other`: they are of a later process.
  struct Found {
    const Sampled* sampled = nullptr;
    bool is_other = false;
  };
  [[nodiscard]] Found sampled_at(std::uint32_t pid, EventTime time_ns) const;
  // nullopt: there is none, or its unit is not known.
  [[nodiscard]] std::optional<Ancestor> ancestor_of(std::uint32_t pid, EventTime time_ns) const;
  [[nodiscard]] bool passes_its_unit_on(const Ancestor& ancestor) const;

  const TrackerExport* sideband_ = nullptr;
  const UnitTimes* units_ = nullptr;
  const Lives* lives_ = nullptr;
  std::vector<Fork> forks_;                                   // ascending by pid and time
  std::vector<EventTime> made_;                               // when cgroups were made; ascending
  std::vector<Sampled> sampled_;                              // ascending by pid and process
  std::unordered_map<std::uint32_t, Forker> forkers_;         // by pid; without samples
  std::set<std::pair<std::uint32_t, std::uint32_t>> movers_;  // pid and process: a descendant was in another unit
};

}  // namespace flight
