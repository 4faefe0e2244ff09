// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/pass_interval.hpp"

#include <algorithm>

namespace flight {

std::chrono::nanoseconds PassInterval::next(std::chrono::nanoseconds allowed) const {
  return std::max(interval_, std::min<std::chrono::nanoseconds>(allowed, kCalm));
}

std::chrono::nanoseconds PassInterval::note(std::chrono::nanoseconds cost) {
  costs_.at(count_ % kCosts) = cost;
  ++count_;
  if (count_ < kCosts) return interval_;
  auto sorted = costs_;
  std::nth_element(sorted.begin(), sorted.begin() + kCosts / 2, sorted.end());
  const double median = static_cast<double>(sorted.at(kCosts / 2).count());
  const auto allowed = [](std::chrono::nanoseconds interval) {
    return kMaxShare * static_cast<double>(interval.count());
  };
  const auto change = [&](std::chrono::nanoseconds interval) {
    interval_ = std::clamp<std::chrono::nanoseconds>(interval, kShortest, kLongest);
    count_ = 0;
  };
  constexpr double kRoom = 0.8;  // hysteresis, otherwise the interval would alternate at the limit
  if (median > allowed(interval_) && interval_ < kLongest)
    change(interval_ * 2);
  else if (interval_ > kShortest && median < kRoom * allowed(interval_ / 2))
    change(interval_ / 2);
  return interval_;
}

}  // namespace flight
