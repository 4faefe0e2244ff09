// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/clock.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "libcore/base/clock_parts.hpp"
#include "libcore/base/files.hpp"

namespace flight {
namespace {

using std::chrono::nanoseconds;

std::uint64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kSecondNs + static_cast<std::uint64_t>(now.tv_nsec);
}

std::tm utc_of(WallTime time) {
  const std::time_t seconds = time.count() / kSecondNs;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return parts;
}

int milliseconds_of(WallTime time) { return static_cast<int>(time.count() / 1'000'000 % 1000); }

// A time namespace is entered by exec or fork, never later. Where a child would get another one
// (unshare(2)), the file is about the child.
std::int64_t own_monotonic_offset_ns() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/ns/time", error);
  if (error || own != std::filesystem::read_symlink("/proc/self/ns/time_for_children", error) || error) return 0;
  const auto text = read_file("/proc/self/timens_offsets");
  return text ? monotonic_offset_ns(*text) : 0;
}

}  // namespace

EventTime monotonic_now() {
  static const auto kOffset = static_cast<std::uint64_t>(own_monotonic_offset_ns());
  return read_clock(CLOCK_MONOTONIC) - kOffset;
}

std::uint64_t boottime_now() { return read_clock(CLOCK_BOOTTIME); }

// "monotonic           86400         0", one line for each clock: seconds and nanoseconds.
std::int64_t monotonic_offset_ns(std::string_view timens_offsets) {
  std::istringstream lines{std::string(timens_offsets)};
  std::string clock;
  std::int64_t seconds = 0, nanoseconds = 0;
  while (lines >> clock >> seconds >> nanoseconds)
    if (clock == "monotonic" && std::abs(seconds) <= INT64_MAX / kSecondNs - 1)
      return seconds * kSecondNs + nanoseconds;
  return 0;
}

WallTime wall_now() { return nanoseconds(static_cast<std::int64_t>(read_clock(CLOCK_REALTIME))); }

ClockPair ClockPair::now() {
  // Use the closest of a few pairs: a preemption between the two reads would shift every wall time.
  ClockPair best;
  std::uint64_t best_gap = UINT64_MAX;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const EventTime before = monotonic_now();
    const WallTime wall = wall_now();
    const EventTime after = monotonic_now();
    if (after - before < best_gap) {
      best_gap = after - before;
      best = {wall, before + (after - before) / 2};
    }
  }
  return best;
}

EventTime ClockPair::event_at(WallTime time) const {
  const auto value = static_cast<std::int64_t>(monotonic_ns + static_cast<std::uint64_t>(time.count()) -
                                               static_cast<std::uint64_t>(wall.count()));
  return value < 0 ? 0 : static_cast<EventTime>(value);
}

std::string to_rfc3339(WallTime time) {
  const std::tm parts = utc_of(time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, milliseconds_of(time));
}

std::string to_compact_utc(WallTime time) {
  const std::tm parts = utc_of(time);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, milliseconds_of(time));
}

Result<WallTime> parse_compact_utc(std::string_view text) {
  // The length of 20261120T031204.123Z.
  constexpr std::size_t kLength = 20;
  std::string copy(text);
  if (text.size() != kLength || text[8] != 'T' || text[15] != '.' || text[19] != 'Z' ||
      !digits_only(text.substr(0, 8)) || !digits_only(text.substr(9, 6)) || !digits_only(text.substr(16, 3)))
    return fail(std::errc::invalid_argument, "'{}' is not a time in a file name", text);
  std::tm parts{};
  parts.tm_year = std::atoi(copy.substr(0, 4).c_str()) - 1900;
  parts.tm_mon = std::atoi(copy.substr(4, 2).c_str()) - 1;
  parts.tm_mday = std::atoi(copy.substr(6, 2).c_str());
  parts.tm_hour = std::atoi(copy.substr(9, 2).c_str());
  parts.tm_min = std::atoi(copy.substr(11, 2).c_str());
  parts.tm_sec = std::atoi(copy.substr(13, 2).c_str());
  if (parts.tm_year + 1900 < kFirstYear || parts.tm_year + 1900 > kLastYear || parts.tm_mon < 0 || parts.tm_mon > 11)
    return fail(std::errc::invalid_argument, "'{}' is not a time in a file name", text);
  return from_seconds(::timegm(&parts)) + std::chrono::milliseconds(std::atoi(copy.substr(16, 3).c_str()));
}

}  // namespace flight
