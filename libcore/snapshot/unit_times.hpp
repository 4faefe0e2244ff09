// SPDX-License-Identifier: Apache-2.0
// In which unit a process was, by its samples: it can move from one cgroup to another, and its forks belong to the unit
// that it was in then. Only of processes that fork.
//
//   samples of a process    a  a  a  b     b  a       of CPUs in any order
//   kept                    a        b        a       (nothing but the changes)
//
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libcore/snapshot/contributions.hpp"
#include "libcore/snapshot/lives.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

class UnitTimes {
 public:
  UnitTimes() = default;
  // `sorted`: by process. Goes through RingSelection::tasks only if a process of `pids` was in several units.
  UnitTimes(const Selection& selection, std::span<const Contribution> sorted,
            const std::unordered_set<std::uint32_t>& pids, Lives& lives);

  // That of its newest sample until then, else of its oldest one. `process`: as in Lives. `is_moved`: between two
  // samples in different units it is not known, because the process may do most of its work right after the move.
  [[nodiscard]] std::uint32_t at(std::uint32_t pid, std::uint32_t process, EventTime time_ns,
                                 bool is_moved = false) const;

 private:
  struct Since {
    EventTime time_ns = 0, newest_ns = 0;
    std::uint32_t unit = Lives::kUnitUnknown;
  };
  void read(const Selection& selection, const std::unordered_set<std::uint32_t>& movers, Lives& lives);

  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Since>> units_;  // ascending
};

}  // namespace flight
