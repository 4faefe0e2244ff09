// SPDX-License-Identifier: Apache-2.0
// The two clocks of the program. Every event, window and duration is CLOCK_MONOTONIC (perf's use_clockid);
// wall time is only for people: file names, the sidecar's RFC 3339 texts, `--since 03:10`. What the wall clock showed
// earlier: clock_history.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"

namespace flight {

// Nanoseconds of CLOCK_MONOTONIC, as perf records carry them.
using EventTime = std::uint64_t;
// Nanoseconds since 1970-01-01 UTC (CLOCK_REALTIME).
using WallTime = std::chrono::nanoseconds;

// As in records, also in a time namespace (time_namespaces(7)), whose CLOCK_MONOTONIC is another one.
[[nodiscard]] EventTime monotonic_now();
[[nodiscard]] WallTime wall_now();
// Nanoseconds of CLOCK_BOOTTIME.
[[nodiscard]] std::uint64_t boottime_now();
// The offset of this time namespace's CLOCK_MONOTONIC, from the text of /proc/self/timens_offsets; 0 if it has none.
[[nodiscard]] std::int64_t monotonic_offset_ns(std::string_view timens_offsets);

// One moment on both clocks, to convert an event's time to wall time (perf's CLOCK_DATA).
struct ClockPair {
  WallTime wall{};
  EventTime monotonic_ns = 0;

  [[nodiscard]] static ClockPair now();
  // Wraps around where 64 bits are not enough, which happens only if one of the times is wrong.
  [[nodiscard]] WallTime wall_at(EventTime time_ns) const {
    return WallTime(static_cast<std::int64_t>(static_cast<std::uint64_t>(wall.count()) + (time_ns - monotonic_ns)));
  }
  // The inverse; clamped at 0.
  [[nodiscard]] EventTime event_at(WallTime time) const;
};

// RFC 3339, UTC, milliseconds: "2026-11-20T03:12:04.123Z".
[[nodiscard]] std::string to_rfc3339(WallTime time);
// The same moment in the format of file names: "20261120T031204.123Z".
[[nodiscard]] std::string to_compact_utc(WallTime time);
// The reverse of to_compact_utc, of the years 1970 to 2261: an error for all others.
[[nodiscard]] Result<WallTime> parse_compact_utc(std::string_view text);
// A time from the command line, in the forms that journalctl takes:
//   "2026-11-20T03:12:04Z"             RFC 3339, with offset or Z
//   "YYYY-MM-DD HH:MM[:SS]"            local time; with " UTC" behind it, UTC; with its weekday before it
//   "HH:MM[:SS]"                       local time: the latest such moment that is not after `now`
//   "today", "yesterday", "tomorrow"   midnight, or with a time of day behind it
//   "-10s", "1 hour 30 min ago"        before `now`
//   "now", "@UNIXSECONDS[.fff]"
[[nodiscard]] Result<WallTime> parse_time(std::string_view text, WallTime now);
// How long before now, if `text` says that instead of a time: "-10s", "1 hour 30 min ago", "now".
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_ago(std::string_view text);

}  // namespace flight
