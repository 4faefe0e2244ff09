// SPDX-License-Identifier: Apache-2.0
// The wall clock of this boot: how far it is ahead of CLOCK_BOOTTIME, and when that last grew by more
// than an hour. Kept in a file of the state directory (daemon/store/age_clock.hpp): a flightd that is started after
// such a jump cannot see it any more. A plain value.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::chrono::nanoseconds kMostAhead = std::chrono::hours(1);

struct ClockRecord {
  struct Ahead {
    std::chrono::nanoseconds at{}, by{};  // `at`: CLOCK_BOOTTIME of the look that found it
    friend bool operator==(const Ahead&, const Ahead&) = default;
  };
  std::string boot_id;                    // empty: nothing was seen yet
  std::chrono::nanoseconds known_from{};  // CLOCK_BOOTTIME of the first look
  std::chrono::nanoseconds boot{};        // the smallest (wall clock - CLOCK_BOOTTIME) of the last day
  std::chrono::nanoseconds boot_at{};     // CLOCK_BOOTTIME when it was that
  std::optional<Ahead> ahead;             // the last time that it grew by more than kMostAhead

  // Call it often. True: the record changed enough to be saved. Another boot than the last one begins a new record.
  bool look(std::string_view boot_id_now, WallTime now, std::chrono::nanoseconds since_boot);
  friend bool operator==(const ClockRecord&, const ClockRecord&) = default;
};

inline constexpr std::size_t kMaxClockRecordBytes = 4096;
[[nodiscard]] std::string to_json(const ClockRecord& record);
[[nodiscard]] Result<ClockRecord> parse_clock_record(std::string_view text);

}  // namespace flight
