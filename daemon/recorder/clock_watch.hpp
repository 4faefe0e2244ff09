// SPDX-License-Identifier: Apache-2.0
// flightd's knowledge of the wall clock's past. The recorder and trigger threads look ten times a second, less often
// while little happens; the recorder thread also when the clock was set (clock_alarm.hpp); requests look as well. Any
// thread; no function waits longer than for a copy of the triples.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/clock_history.hpp"

namespace flight::daemon {

class ClockWatch {
 public:
  ClockWatch() { look(); }

  // Reads the clocks; returns what it read.
  ClockTriple look();
  // Adds what an earlier flightd of this boot knew.
  void restore(std::span<const ClockTriple> earlier);

  [[nodiscard]] ClockHistory history() const;
  // For people: what the wall clock showed at that time, as RFC 3339.
  [[nodiscard]] std::string text_at(EventTime time_ns) const;

  // For the checkpoint: all triples, for a new file, and those since the last call, which are appended.
  [[nodiscard]] std::vector<ClockTriple> triples() const;
  [[nodiscard]] std::vector<ClockTriple> take_new();

 private:
  mutable std::mutex mutex_;  // guards all following members
  ClockHistory history_;
  std::vector<ClockTriple> new_;  // at most ClockHistory::kMaxTriples, the newest
};

}  // namespace flight::daemon
