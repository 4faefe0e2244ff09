// SPDX-License-Identifier: Apache-2.0
// Sizes and durations as people write them: "2M", "250ms". K, M and G are powers of 1024.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"

namespace flight {

// "4096", "64K", "2M", "1G".
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);
// "100ms", "2s", "5min", "1h", "30d"; fractions such as "1.5s" are allowed. A bare number is refused.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
// A duration from the command line: as parse_duration(), and the forms of systemd.time(7): "1 hour", "2h 30min", "90
// seconds", "1week".
[[nodiscard]] Result<std::chrono::nanoseconds> parse_span(std::string_view text);
// "30%" or "0.5%" as 30.0 and 0.5; 0 to 100.
[[nodiscard]] Result<double> parse_percent(std::string_view text);

// For display: "2.0M", "512", "1.4G".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);
// For display: "1 channel", "2 processes".
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view noun);
// The verb behind a number: "was" for 1, otherwise "were".
[[nodiscard]] constexpr std::string_view was_or_were(std::uint64_t number) { return number == 1 ? "was" : "were"; }
// For display: "350 ms", "34 s", "12 min", "3.2 h".
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds duration);

}  // namespace flight
