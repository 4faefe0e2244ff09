// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/clock.hpp"

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "libcore/base/units.hpp"

namespace flight {
namespace {

using std::chrono::nanoseconds;
constexpr std::int64_t kSecondNs = 1'000'000'000;

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

// What a time may be: nanoseconds in 64 bits end in 2262, and differences of two must fit as well.
constexpr int kFirstYear = 1970, kLastYear = 2199;
constexpr std::time_t kLastSecond = 7'258'118'399;  // of kLastYear, UTC

WallTime from_seconds(std::time_t seconds) { return nanoseconds(static_cast<std::int64_t>(seconds) * kSecondNs); }

bool digits_only(std::string_view text) {
  for (char c : text)
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
  return !text.empty();
}

// Reads "NN" at `at`; -1 where there are no two digits.
int two_digits(std::string_view text, std::size_t at) {
  if (at + 2 > text.size() || !digits_only(text.substr(at, 2))) return -1;
  return (text[at] - '0') * 10 + (text[at + 1] - '0');
}

struct TimeOfDay {
  int hour = 0, minute = 0, second = 0;
  nanoseconds fraction{};
};

// "HH:MM[:SS[.fff]]" and what follows it.
bool parse_time_of_day(std::string_view text, TimeOfDay& out, std::string_view& rest) {
  out.hour = two_digits(text, 0);
  if (out.hour < 0 || out.hour > 23 || text.size() < 5 || text[2] != ':') return false;
  out.minute = two_digits(text, 3);
  if (out.minute < 0 || out.minute > 59) return false;
  text.remove_prefix(5);
  if (!text.empty() && text[0] == ':') {
    out.second = two_digits(text, 1);
    if (out.second < 0 || out.second > 60) return false;
    text.remove_prefix(3);
    if (!text.empty() && text[0] == '.') {
      text.remove_prefix(1);
      std::int64_t scale = kSecondNs / 10;
      std::int64_t sum = 0;
      std::size_t used = 0;
      for (; used < text.size() && std::isdigit(static_cast<unsigned char>(text[used])) != 0; ++used, scale /= 10)
        sum += (text[used] - '0') * scale;
      if (used == 0) return false;
      out.fraction = nanoseconds(sum);
      text.remove_prefix(used);
    }
  }
  rest = text;
  return true;
}

// "Z", "+01:00", "-0530": seconds east of UTC.
bool parse_offset(std::string_view text, int& seconds_east) {
  if (text == "Z" || text == "z") {
    seconds_east = 0;
    return true;
  }
  if (text.size() < 5 || (text[0] != '+' && text[0] != '-')) return false;
  const int hours = two_digits(text, 1);
  const int minutes = two_digits(text, text[3] == ':' ? 4 : 3);
  if (hours < 0 || minutes < 0 || text.size() != (text[3] == ':' ? 6U : 5U)) return false;
  seconds_east = (hours * 3600 + minutes * 60) * (text[0] == '-' ? -1 : 1);
  return true;
}

Failure bad_time(std::string_view text) {
  return fail(std::errc::invalid_argument,
              "'{}' is no time: use 03:10, '2026-11-20 03:10', 2026-11-20T03:10:00Z, -10s or @UNIXSECONDS", text);
}

Result<WallTime> moment(std::string_view text, std::time_t seconds, nanoseconds fraction = {}) {
  if (seconds < 0 || seconds > kLastSecond)
    return fail(std::errc::invalid_argument, "'{}' lies outside of the years {} to {}", text, kFirstYear, kLastYear);
  return from_seconds(seconds) + fraction;
}

Result<WallTime> before(std::string_view text, WallTime now, std::string_view duration) {
  const auto back = parse_duration(duration);
  if (!back) return bad_time(text);
  if (*back > now) return moment(text, -1);
  return now - *back;
}

}  // namespace

EventTime monotonic_now() { return read_clock(CLOCK_MONOTONIC); }

WallTime wall_now() { return nanoseconds(static_cast<std::int64_t>(read_clock(CLOCK_REALTIME))); }

ClockPair ClockPair::now() {
  // The closest of a few pairs: a preemption between the two reads would shift every wall time.
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
  const std::int64_t value = static_cast<std::int64_t>(monotonic_ns) + (time - wall).count();
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
  // 20261120T031204.123Z
  constexpr std::size_t kLength = 20;
  std::string copy(text);
  if (text.size() != kLength || text[8] != 'T' || text[15] != '.' || text[19] != 'Z' ||
      !digits_only(text.substr(0, 8)) || !digits_only(text.substr(9, 6)) || !digits_only(text.substr(16, 3)))
    return fail(std::errc::invalid_argument, "'{}' is no time of a file name", text);
  std::tm parts{};
  parts.tm_year = std::atoi(copy.substr(0, 4).c_str()) - 1900;
  parts.tm_mon = std::atoi(copy.substr(4, 2).c_str()) - 1;
  parts.tm_mday = std::atoi(copy.substr(6, 2).c_str());
  parts.tm_hour = std::atoi(copy.substr(9, 2).c_str());
  parts.tm_min = std::atoi(copy.substr(11, 2).c_str());
  parts.tm_sec = std::atoi(copy.substr(13, 2).c_str());
  if (parts.tm_year + 1900 < kFirstYear || parts.tm_year + 1900 > kLastYear || parts.tm_mon < 0 || parts.tm_mon > 11)
    return fail(std::errc::invalid_argument, "'{}' is no time of a file name", text);
  return from_seconds(::timegm(&parts)) + std::chrono::milliseconds(std::atoi(copy.substr(16, 3).c_str()));
}

Result<WallTime> parse_time(std::string_view text, WallTime now) {
  constexpr std::time_t kDaySeconds = 24 * 3600;
  const std::time_t now_seconds = now.count() / kSecondNs;
  if (text == "now") return now;
  if (text == "today" || text == "yesterday") {
    std::tm parts{};
    ::localtime_r(&now_seconds, &parts);
    parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
    if (text == "yesterday") parts.tm_mday -= 1;
    parts.tm_isdst = -1;
    return from_seconds(::mktime(&parts));
  }
  if (!text.empty() && text[0] == '@') {
    if (!digits_only(text.substr(1)) || text.size() > 12) return bad_time(text);
    return moment(text, std::atoll(std::string(text.substr(1)).c_str()));
  }
  constexpr std::string_view kAgo = " ago";
  if (text.size() > kAgo.size() && text.ends_with(kAgo))
    return before(text, now, text.substr(0, text.size() - kAgo.size()));
  if (!text.empty() && text[0] == '-') return before(text, now, text.substr(1));

  std::tm parts{};
  ::localtime_r(&now_seconds, &parts);
  bool has_date = false;
  std::string_view rest = text;
  if (text.size() >= 10 && text[4] == '-' && text[7] == '-' && digits_only(text.substr(0, 4))) {
    has_date = true;
    parts = {};
    parts.tm_year = std::atoi(std::string(text.substr(0, 4)).c_str()) - 1900;
    parts.tm_mon = two_digits(text, 5) - 1;
    parts.tm_mday = two_digits(text, 8);
    if (parts.tm_mon < 0 || parts.tm_mon > 11 || parts.tm_mday < 1 || parts.tm_mday > 31) return bad_time(text);
    rest.remove_prefix(10);
    if (!rest.empty() && rest[0] != 'T' && rest[0] != ' ' && rest[0] != 't') return bad_time(text);
    if (!rest.empty()) rest.remove_prefix(1);
  }
  TimeOfDay clock;
  std::string_view zone;
  if (!(has_date && rest.empty()) && !parse_time_of_day(rest, clock, zone)) return bad_time(text);
  parts.tm_hour = clock.hour;
  parts.tm_min = clock.minute;
  parts.tm_sec = clock.second;
  parts.tm_isdst = -1;
  // The conversions make 2 March of 30 February.
  const int day = parts.tm_mday;
  if (!zone.empty()) {
    int east = 0;
    if (!has_date || !parse_offset(zone, east)) return bad_time(text);
    const std::time_t seconds = ::timegm(&parts) - east;
    if (parts.tm_mday != day) return bad_time(text);
    return moment(text, seconds, clock.fraction);
  }
  std::time_t seconds = ::mktime(&parts);
  if (parts.tm_mday != day) return bad_time(text);
  if (!has_date && seconds > now_seconds) seconds -= kDaySeconds;  // 23:50, asked at 00:10, was yesterday
  return moment(text, seconds, clock.fraction);
}

}  // namespace flight
