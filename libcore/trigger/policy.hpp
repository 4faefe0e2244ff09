// SPDX-License-Identifier: Apache-2.0
// How often one trigger may fire: cooldown, so many an hour, so many a day, over sliding windows. Time is the
// monotonic clock's, so nobody's clock step matters; it is signed, for what fired before this boot.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "libcore/config/config.hpp"

namespace flight {

using SignedTime = std::int64_t;  // ns of CLOCK_MONOTONIC; negative: before this boot

enum class SuppressedBy : std::uint8_t { nothing, disabled, cooldown, max_per_hour, max_per_day, storm_guard };
// "cooldown", "max_per_hour", "max_per_day", "storm guard", "disabled"; nothing: "".
[[nodiscard]] std::string_view to_string(SuppressedBy by);

struct Verdict {
  SuppressedBy by = SuppressedBy::nothing;
  SignedTime until_ns = 0;  // when it would be let through
  [[nodiscard]] bool passes() const { return by == SuppressedBy::nothing; }
};

class RatePolicy {
 public:
  explicit RatePolicy(const TriggerConfig& config);

  // Of several limits the one that lasts longest.
  [[nodiscard]] Verdict ask(SignedTime now_ns) const;
  // It fired. Only as many firings are remembered as the limits need.
  void note(SignedTime now_ns);

  [[nodiscard]] std::vector<SignedTime> firings() const { return {firings_.begin(), firings_.end()}; }  // oldest first
  void restore(const std::vector<SignedTime>& firings, SignedTime now_ns);  // what is later than now counts as now

 private:
  std::int64_t cooldown_ns_;
  std::size_t max_per_hour_, max_per_day_;  // 0: no limit
  std::deque<SignedTime> firings_;
};

}  // namespace flight
