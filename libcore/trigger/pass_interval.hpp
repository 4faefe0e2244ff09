// SPDX-License-Identifier: Apache-2.0
// How often to look: each 100 ms, or, where one look costs more than 0.2 % of that (hundreds of CPUs, a slow virtual
// machine), each 200, 400 … 3,200 ms. It goes by the median of the last 15 costs, so that a look that was
// interrupted changes nothing, and comes back when looks are cheap again.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace flight {

class PassInterval {
 public:
  static constexpr std::chrono::milliseconds kShortest{100}, kLongest{3200};
  static constexpr double kMaxShare = 0.002;
  static constexpr std::size_t kCosts = 15;

  [[nodiscard]] std::chrono::nanoseconds interval() const { return interval_; }
  // `cost`: CPU time of the thread that looked (CLOCK_THREAD_CPUTIME_ID), the rules' work included. Returns interval().
  std::chrono::nanoseconds note(std::chrono::nanoseconds cost);

 private:
  std::chrono::nanoseconds interval_ = kShortest;
  std::array<std::chrono::nanoseconds, kCosts> costs_{};
  std::size_t count_ = 0;  // since the interval changed
};

}  // namespace flight
