// SPDX-License-Identifier: Apache-2.0
// When threads ran, and when they were off the CPUs, one stretch after the other: for pictures. On each CPU, who ran in
// the newest part of the time; and the longest stretches off the CPUs in all of it.
//
//   CPU 0:   |-- a --|- b -|      |-- a --|      between them the CPU was idle
//   CPU 1:   |---- c ----|??????????|- c -|      ?: switches are missing
//
// Bounded: if there are too many stretches, the lanes begin later, those of all CPUs at the same time; of those off the
// CPUs the longest of each state are kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/profile/sched_replay.hpp"

namespace flight {

struct SchedLanesOrder {
  std::uint64_t ran_ns = 0;                                // how much of the newest time; 0: none
  std::uint64_t least_off_ns = 0;                          // shorter ones do not count; 0: none at all
  std::uint64_t most_asleep_ns = UINT64_MAX;               // longer sleeps do not count: idle threads; 0: none at all
  std::size_t most_ran = 1U << 15U, most_off = 1U << 13U;  // of all CPUs; of each state
};

// For a picture that people look at.
inline constexpr SchedLanesOrder kUsualLanes{
    .ran_ns = 2'000'000'000, .least_off_ns = 1'000'000, .most_asleep_ns = 1'000'000'000};

struct SchedRan {
  EventTime begin_ns = 0, end_ns = 0;
  std::uint32_t cpu = 0, thread = 0;  // SchedWaits::kNobody: it is not known which thread
};
struct SchedOff {
  EventTime begin_ns = 0, end_ns = 0;
  std::uint32_t thread = 0;
  SchedState state = SchedState::unknown;  // runnable, blocked or sleeping
  bool unsure = false;                     // across a hole
  bool goes_on = false;                    // at the end of the time
};

class SchedLanes {
 public:
  SchedLanes() = default;
  SchedLanes(const SchedStretch& shown, const SchedLanesOrder& order);

  void ran(const SchedRan& one);
  void off(SchedOff one);
  // After the last one; before it, nothing below is known.
  void arrange();

  [[nodiscard]] const std::vector<SchedRan>& all_ran() const { return ran_; }      // by CPU, then by time
  [[nodiscard]] EventTime ran_begin_ns() const { return ran_begin_ns_; }           // all_ran() has all from then on
  [[nodiscard]] const std::vector<SchedOff>& all_off() const { return all_off_; }  // by their begin
  [[nodiscard]] std::uint64_t left_out_off() const { return left_out_off_; }       // over most_off

 private:
  void cut_ran();
  void cut_off(std::vector<SchedOff>& of_state);

  SchedLanesOrder order_;
  EventTime begin_ns_ = 0, end_ns_ = 0, ran_begin_ns_ = 0;
  std::vector<SchedRan> ran_;
  std::array<std::vector<SchedOff>, 3> off_;
  std::vector<SchedOff> all_off_;
  std::uint64_t left_out_off_ = 0;
};

}  // namespace flight
