// SPDX-License-Identifier: Apache-2.0
// The name of each task through the time of one file, as perf has it for every sample: that of the thread, not of its
// process (which lives.hpp in libcore/snapshot knows, with its program).
//
// A new thread has the name of the one that forked it. A thread of which no name was recorded has the first one that
// comes, also for the samples before that: perf replaces its ":7" in place (thread__set_comm() in
// tools/perf/util/thread.c).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "libcore/profile/address_spaces.hpp"
#include "libcore/snapshot/lives.hpp"

namespace flight {

class TaskNames {
 public:
  // `texts` must outlive it; 0 is its number of no text.
  explicit TaskNames(Texts& texts) : texts_(&texts) {}

  // A valid record. In the order of their positions.
  void apply(std::span<const std::byte> record, SidebandPosition position);

  // The name of `tid` for a sample behind `position` records, in `texts`: ":7" if none is known.
  [[nodiscard]] std::uint32_t at(std::uint32_t tid, SidebandPosition position);

 private:
  struct Name {
    SidebandPosition since = 0;
    std::uint32_t text = 0;  // 0: unknown
    bool begins = false;     // another task with the same number
  };
  [[nodiscard]] std::uint32_t newest_of(std::uint32_t tid) const;

  Texts* texts_;
  std::unordered_map<std::uint32_t, std::vector<Name>> of_tid_;  // oldest first
};

}  // namespace flight
