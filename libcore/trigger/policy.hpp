// SPDX-License-Identifier: Apache-2.0
// How often one trigger may fire: cooldown, per hour, per day, over sliding windows. Times are on the monotonic clock,
// so clock steps do not matter; they are signed, for firings before this boot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "libcore/config/config.hpp"

namespace flight {

using SignedTime = std::int64_t;  // ns of CLOCK_MONOTONIC; negative: before this boot

inline constexpr SignedTime kHourNs = 3'600'000'000'000;

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
// "cooldown", "max_per_hour", "max_per_day", "storm guard", "disabled", "a pause of the recording"; none: "".
[[nodiscard]] std::string_view to_string(SuppressedBy by);

struct Verdict {
  SuppressedBy by = SuppressedBy::nothing;
  SignedTime until_ns = 0;  // when it would be allowed
  [[nodiscard]] bool passes() const { return by == SuppressedBy::nothing; }
};

class RatePolicy {
 public:
  explicit RatePolicy(const TriggerConfig& config);

  // If several limits apply, the one that ends last.
  [[nodiscard]] Verdict ask(SignedTime now_ns) const;
  // Records a firing. Only as many firings are remembered as the limits need.
  void note(SignedTime now_ns);
  // If the last firing was the last one that max_per_day allows: when the next one is allowed; nullopt: it was not.
  [[nodiscard]] std::optional<SignedTime> day_used_until(SignedTime now_ns) const;
  // The last firing made no snapshot: it does not count per hour and per day, but the cooldown stays; otherwise a full
  // disk would be tried without end.
  void take_back();

  [[nodiscard]] std::vector<SignedTime> firings() const { return {firings_.begin(), firings_.end()}; }  // oldest first
  void restore(const std::vector<SignedTime>& firings, SignedTime now_ns);  // times later than now count as now

 private:
  std::int64_t cooldown_ns_;
  std::size_t max_per_hour_, max_per_day_;  // 0: no limit
  std::deque<SignedTime> firings_;
  SignedTime vain_ns_ = 0;  // of the last firing without a snapshot
  bool vain_ = false;
};

}  // namespace flight
