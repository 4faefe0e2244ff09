// SPDX-License-Identifier: Apache-2.0
// The interval of the passes: 100 ms; 400 ms while no rule needs more; doubled up to 3,200 ms if a pass costs more
// than 0.2 % of it (hundreds of CPUs, a slow virtual machine). The median of the last 15 costs decides, so that one
// interrupted pass changes nothing; the interval shrinks when passes are cheap again.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace flight {

class PassInterval {
 public:
  static constexpr std::chrono::milliseconds kShortest{100}, kCalm{400}, kLongest{3200};
  static constexpr double kMaxShare = 0.002;
  static constexpr std::size_t kCosts = 15;

  [[nodiscard]] std::chrono::nanoseconds interval() const { return interval_; }
  // Until the next pass. `allowed`: by the rules, TriggerRules::longest_look().
  [[nodiscard]] std::chrono::nanoseconds next(std::chrono::nanoseconds allowed) const;
  // `cost`: CPU time of the thread for the pass (CLOCK_THREAD_CPUTIME_ID), including the rules. Returns interval().
  std::chrono::nanoseconds note(std::chrono::nanoseconds cost);

 private:
  std::chrono::nanoseconds interval_ = kShortest;
  std::array<std::chrono::nanoseconds, kCosts> costs_{};
  std::size_t count_ = 0;  // since the interval changed
};

}  // namespace flight
