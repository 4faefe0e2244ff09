// SPDX-License-Identifier: Apache-2.0
// Definitions that clock.cpp and parse_time.cpp share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "libcore/base/clock.hpp"

namespace flight {

inline constexpr std::int64_t kSecondNs = 1'000'000'000;

// The range of times, in file names as well: nanoseconds in 64 bits end in April 2262, and the difference of two times
// fits as well. Linux sets its clock to 2232 at most.
inline constexpr int kFirstYear = 1970, kLastYear = 2261;

inline WallTime from_seconds(std::time_t seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds) * kSecondNs);
}

// Not empty, and 0 to 9 in any locale.
inline bool digits_only(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace flight
