// SPDX-License-Identifier: Apache-2.0
// Processes that the process tracker dropped early because of its memory limit, and when they had exited: only windows
// that begin before that lack them. Private to sideband.
//
//   ended until │ 10.2 s │ 11.3 s │ 12.1 s      a slice per second; if there are too many, the two oldest are merged
//   processes   │    700 │    812 │     90
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

class Forgotten {
 public:
  static constexpr std::size_t kMostSlices = 256;
  static constexpr EventTime kSliceNs = 1'000'000'000;
  static constexpr EventTime kLiving = UINT64_MAX;  // the time of a process that has not exited

  // `count` processes were dropped; the last of them exited at `until_ns`.
  void add(EventTime until_ns, std::uint64_t count);
  // A scan found the living ones again.
  void found_living(EventTime scanned_ns);
  // Drops those that exited earlier: they are not needed any more.
  void forget(EventTime before_ns);
  // How many exited then or later, or are alive; some from the second before may be included.
  [[nodiscard]] std::uint64_t since(EventTime begin_ns) const;
  // The same, without those of later seconds.
  [[nodiscard]] std::uint64_t between(EventTime begin_ns, EventTime end_ns) const;
  // When the last of them exited; 0: there are none.
  [[nodiscard]] EventTime until_ns() const { return slices_.empty() ? 0 : slices_.back().until_ns; }

 private:
  struct Slice {
    EventTime begin_ns = 0, until_ns = 0;
    std::uint64_t count = 0;
  };
  std::vector<Slice> slices_;  // ascending
};

}  // namespace flight
