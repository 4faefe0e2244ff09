// SPDX-License-Identifier: Apache-2.0
// How long to wait before something that failed is tried again: soon at first, as the cause may be gone in a moment,
// and then at intervals that cost nothing and are short enough for a person who waits. Both programs use it for their
// start, and flightd for its broker.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace flight {

// After the attempt number `failed` (from 0) that failed: 1, 2, 5, and then every 10 s.
[[nodiscard]] constexpr std::chrono::seconds retry_after(std::size_t failed) {
  constexpr std::array kWaits{std::chrono::seconds(1), std::chrono::seconds(2), std::chrono::seconds(5),
                              std::chrono::seconds(10)};
  return kWaits[std::min(failed, kWaits.size() - 1)];
}

}  // namespace flight
