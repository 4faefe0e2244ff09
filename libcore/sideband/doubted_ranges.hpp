// SPDX-License-Identifier: Apache-2.0
// The ranges of a process in which mappings were dropped: what is there is unknown from then on. Private to sideband.
//
// At most kMost ranges cover all dropped mappings. The two with the smallest distance are joined, so that a program
// that maps much in one place does not put the names of other places in doubt:
//
//   dropped      ▪▪▪ ▪ ▪▪▪▪▪ ▪▪              ▪▪ ▪▪▪▪            libc, the program: between others, not in doubt
//   recorded     ███████████████              ███████
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

struct DoubtedRange {
  std::uint64_t address = 0, end = 0;
  EventTime first_ns = 0, last_ns = 0;  // of the mappings that were dropped
  bool partly = false;                  // a newer mapping in it is known
};

class DoubtedRanges {
 public:
  static constexpr std::size_t kMost = 16;  // returned at once

  // A mapping was dropped. `partly`: a newer one there is known.
  void add(std::uint64_t address, std::uint64_t end, EventTime time_ns, bool partly = false);
  // What has to be recorded as unknown from its first_ns on.
  [[nodiscard]] std::vector<DoubtedRange> take_new();
  // All of the range is known at that time: it ends there what was dropped before. Returns what has to be recorded as
  // unknown of the time before.
  [[nodiscard]] std::vector<DoubtedRange> end(std::uint64_t address, std::uint64_t end, EventTime time_ns);
  // Whether one may have been dropped there after that time. (The rings are read one after the other.)
  [[nodiscard]] bool doubts(std::uint64_t address, std::uint64_t end, EventTime time_ns) const;
  void forget_recorded() { recorded_.clear(); }

 private:
  void insert(DoubtedRange range);

  std::vector<DoubtedRange> fresh_;     // not yet recorded; ascending, apart from each other
  std::vector<DoubtedRange> recorded_;  // lately; a mapping that is dropped there changes nothing
};

}  // namespace flight
