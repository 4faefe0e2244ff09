// SPDX-License-Identifier: Apache-2.0
// How often one trigger may fire: cooldown, so many an hour, so many a day, over sliding windows. Time is the
// monotonic clock's, so nobody's clock step matters; it is signed, for what fired before this boot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "libcore/config/config.hpp"

namespace flight {

using SignedTime = std::int64_t;  // ns of CLOCK_MONOTONIC; negative: before this boot

enum class SuppressedBy : std::uint8_t {
  nothing,
  disabled,
  cooldown,
  max_per_hour,
  max_per_day,
  storm_guard,
  not_recording
};
inline constexpr std::size_t kSuppressedByCount = 7;
// "cooldown", "max_per_hour", "max_per_day", "storm guard", "disabled", "a pause of the recording"; nothing: "".
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
  // The last one left no snapshot: it is none of the hour's and the day's, but the cooldown goes on, or a full disk
  // would be tried without end.
  void take_back();

  [[nodiscard]] std::vector<SignedTime> firings() const { return {firings_.begin(), firings_.end()}; }  // oldest first
  void restore(const std::vector<SignedTime>& firings, SignedTime now_ns);  // what is later than now counts as now

 private:
  std::int64_t cooldown_ns_;
  std::size_t max_per_hour_, max_per_day_;  // 0: no limit
  std::deque<SignedTime> firings_;
  SignedTime vain_ns_ = 0;  // of the last that left no snapshot
  bool vain_ = false;
};

}  // namespace flight
