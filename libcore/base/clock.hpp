// SPDX-License-Identifier: Apache-2.0
// The two clocks of the program. Every event, window and duration is CLOCK_MONOTONIC (perf's use_clockid);
// wall time is only for people: file names, the sidecar's RFC 3339 texts, `--since 03:10`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"

namespace flight {

// Nanoseconds of CLOCK_MONOTONIC, as perf records carry them.
using EventTime = std::uint64_t;
// Nanoseconds since 1970-01-01 UTC (CLOCK_REALTIME).
using WallTime = std::chrono::nanoseconds;

[[nodiscard]] EventTime monotonic_now();
[[nodiscard]] WallTime wall_now();

// One moment on both clocks, so that an event's time can be told as wall time (perf's CLOCK_DATA).
struct ClockPair {
  WallTime wall{};
  EventTime monotonic_ns = 0;

  [[nodiscard]] static ClockPair now();
  [[nodiscard]] WallTime wall_at(EventTime time_ns) const {
    return wall + std::chrono::nanoseconds(static_cast<std::int64_t>(time_ns - monotonic_ns));
  }
  // The inverse; clamped at 0.
  [[nodiscard]] EventTime event_at(WallTime time) const;
};

// RFC 3339, UTC, milliseconds: "2026-11-20T03:12:04.123Z".
[[nodiscard]] std::string to_rfc3339(WallTime time);
// The same moment as file names have it: "20261120T031204.123Z".
[[nodiscard]] std::string to_compact_utc(WallTime time);
// The reverse of to_compact_utc.
[[nodiscard]] Result<WallTime> parse_compact_utc(std::string_view text);
// What people type: RFC 3339 ("2026-11-20T03:12:04Z", with offset or Z), "YYYY-MM-DD HH:MM[:SS]" and
// "HH:MM[:SS]" in local time (the latest such moment that is not after `now`), "-10s" and "10s ago" before
// `now`, "now", "today", "yesterday", "@UNIXSECONDS".
[[nodiscard]] Result<WallTime> parse_time(std::string_view text, WallTime now);

}  // namespace flight
