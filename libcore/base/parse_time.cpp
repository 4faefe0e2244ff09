// SPDX-License-Identifier: Apache-2.0
// parse_time() of clock.hpp: the forms of journalctl --since (systemd.time(7)).
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "libcore/base/clock.hpp"
#include "libcore/base/clock_parts.hpp"
#include "libcore/base/units.hpp"

namespace flight {
namespace {

using std::chrono::nanoseconds;

constexpr std::time_t kLastSecond = 9'214'646'399;  // of kLastYear, UTC

// Reads "NN" at `at`; -1 if there are not two digits.
int two_digits(std::string_view text, std::size_t at) {
  if (at + 2 > text.size() || !digits_only(text.substr(at, 2))) return -1;
  return (text[at] - '0') * 10 + (text[at + 1] - '0');
}

struct TimeOfDay {
  int hour = 0, minute = 0, second = 0;
  nanoseconds fraction{};
};

// Reads ".fff", and removes it from the beginning; digits behind the ninth have no effect. False: no digit follows.
bool skip_fraction(std::string_view& text, nanoseconds& out) {
  text.remove_prefix(1);
  std::int64_t scale = kSecondNs / 10;
  std::int64_t sum = 0;
  std::size_t used = 0;
  for (; used < text.size() && std::isdigit(static_cast<unsigned char>(text[used])) != 0; ++used, scale /= 10)
    sum += (text[used] - '0') * scale;
  out = nanoseconds(sum);
  text.remove_prefix(used);
  return used != 0;
}

// Parses "HH:MM[:SS[.fff]]" and the text after it. The hour may have one digit.
bool parse_time_of_day(std::string_view text, TimeOfDay& out, std::string_view& rest) {
  constexpr std::size_t kMinutes = 3;  // ":MM"
  const std::size_t digits = std::min<std::size_t>(text.find(':'), 2);
  if (digits == 0 || text.size() < digits + kMinutes || text[digits] != ':' || !digits_only(text.substr(0, digits)))
    return false;
  out.hour = digits == 1 ? text[0] - '0' : two_digits(text, 0);
  if (out.hour > 23) return false;
  out.minute = two_digits(text, digits + 1);
  if (out.minute < 0 || out.minute > 59) return false;
  text.remove_prefix(digits + kMinutes);
  if (!text.empty() && text[0] == ':') {
    out.second = two_digits(text, 1);
    if (out.second < 0 || out.second > 60) return false;
    text.remove_prefix(3);
    if (!text.empty() && text[0] == '.' && !skip_fraction(text, out.fraction)) return false;
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
              "'{}' is not a time: use 03:10, 'yesterday 03:10', '2026-11-20 03:10', 2026-11-20T03:10:00Z, -10s, "
              "'1 hour ago' or @UNIXSECONDS",
              text);
}

Result<WallTime> moment(std::string_view text, std::time_t seconds, nanoseconds fraction = {}) {
  if (seconds < 0 || seconds > kLastSecond)
    return fail(std::errc::invalid_argument, "'{}' is outside the years {} to {}", text, kFirstYear, kLastYear);
  return from_seconds(seconds) + fraction;
}

// Removes `word` and the blanks after it from the beginning.
bool skip_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  std::string_view rest = text.substr(word.size());
  if (!rest.empty() && rest[0] != ' ') return false;
  while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  text = rest;
  return true;
}

// The offset from UTC in force at a time.
long offset_at(std::time_t at) {
  std::tm shown{};
  ::localtime_r(&at, &shown);
  return shown.tm_gmtoff;
}

// When the local clock shows `parts` (tm_isdst is ignored; a day outside of its month counts on). A time that was
// twice, because the clock was set back, is the later one up to `latest`; one that never was is the moment of the step.
// Not by mktime(3): it looks for a change of summer time, and there are changes without.
std::time_t local_seconds(std::tm parts, std::time_t latest = std::numeric_limits<std::time_t>::max()) {
  constexpr std::time_t kMostOffset = 26 * 3600, kStep = 15 * 60;  // no zone changes twice within the step
  const int second = std::exchange(parts.tm_sec, 0);
  const std::time_t shown = ::timegm(&parts);  // what the clock shows, as if it were UTC
  std::optional<std::time_t> best, stepped;
  const auto consider = [&](long offset) {
    const std::time_t at = shown - offset;
    if (offset_at(at) != offset) return;
    const bool better = !best || (at + second <= latest ? at > *best || *best + second > latest : at < *best);
    if (better) best = at;
  };
  long before = offset_at(shown - kMostOffset);
  consider(before);
  for (std::time_t at = shown - kMostOffset + kStep; at <= shown + kMostOffset; at += kStep) {
    const long offset = offset_at(at);
    if (offset == before) continue;
    consider(offset);
    std::time_t low = at - kStep, high = at;  // the clock is changed in (low, high]
    while (low + 1 < high) {
      const std::time_t middle = low + (high - low) / 2;
      (offset_at(middle) == before ? low : high) = middle;
    }
    if (high + before <= shown && shown < high + offset) stepped = high;
    before = offset;
  }
  return best ? *best + second : stepped.value_or(shown - before);
}

// Removes "Mon " or "Monday " from the beginning; 0 is Sunday. nullopt: there is none.
std::optional<int> skip_weekday(std::string_view& text) {
  constexpr std::array<std::string_view, 7> kDays{"sunday",   "monday", "tuesday", "wednesday",
                                                  "thursday", "friday", "saturday"};
  constexpr std::size_t kShort = 3;
  std::string word(text.substr(0, std::min(text.find(' '), text.size())));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (std::size_t day = 0; day < kDays.size(); ++day) {
    if (word != kDays[day] && word != kDays[day].substr(0, kShort)) continue;
    text.remove_prefix(word.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return static_cast<int>(day);
  }
  return std::nullopt;
}

// 0 is Sunday.
int weekday_of(std::tm date) {
  static_cast<void>(::timegm(&date));
  return date.tm_wday;
}

// "@1795358083.5"
Result<WallTime> unix_time(std::string_view text) {
  constexpr std::size_t kMostDigits = 11;
  std::string_view rest = text.substr(1);
  const std::string seconds(rest.substr(0, std::min(rest.find('.'), rest.size())));
  rest.remove_prefix(seconds.size());
  nanoseconds fraction{};
  if (!rest.empty() && (!skip_fraction(rest, fraction) || !rest.empty())) return bad_time(text);
  if (!digits_only(seconds) || seconds.size() > kMostDigits) return bad_time(text);
  return moment(text, std::atoll(seconds.c_str()), fraction);
}

// "yesterday 03:00": the local day `days` from today, at midnight if there is no time of day.
Result<WallTime> on_day(std::string_view text, std::time_t now_seconds, int days, std::string_view time_of_day) {
  TimeOfDay clock;
  std::string_view behind;
  if (!time_of_day.empty() && (!parse_time_of_day(time_of_day, clock, behind) || !behind.empty()))
    return bad_time(text);
  std::tm parts{};
  ::localtime_r(&now_seconds, &parts);
  parts.tm_mday += days;
  parts.tm_hour = clock.hour;
  parts.tm_min = clock.minute;
  parts.tm_sec = clock.second;
  return moment(text, local_seconds(parts, now_seconds), clock.fraction);
}

}  // namespace

std::optional<nanoseconds> parse_ago(std::string_view text) {
  constexpr std::string_view kAgo = " ago";
  if (text == "now") return nanoseconds(0);
  if (text.size() > kAgo.size() && text.ends_with(kAgo))
    text.remove_suffix(kAgo.size());
  else if (!text.empty() && text[0] == '-')
    text.remove_prefix(1);
  else
    return std::nullopt;
  const auto span = parse_span(text);
  return span ? std::optional(*span) : std::nullopt;
}

Result<WallTime> parse_time(std::string_view text, WallTime now) {
  const std::time_t now_seconds = now.count() / kSecondNs;
  if (const auto ago = parse_ago(text)) return *ago > now ? moment(text, -1) : now - *ago;
  for (const auto& [word, days] : {std::pair("today", 0), {"yesterday", -1}, {"tomorrow", 1}})
    if (std::string_view rest = text; skip_word(rest, word)) return on_day(text, now_seconds, days, rest);
  if (!text.empty() && text[0] == '@') return unix_time(text);

  std::tm parts{};
  ::localtime_r(&now_seconds, &parts);
  bool has_date = false;
  std::string_view rest = text;
  const auto weekday = skip_weekday(rest);
  constexpr std::string_view kUtc = " UTC";
  const bool utc = rest.ends_with(kUtc);
  if (utc) rest.remove_suffix(kUtc.size());
  if (rest.size() >= 10 && rest[4] == '-' && rest[7] == '-' && digits_only(rest.substr(0, 4))) {
    has_date = true;
    parts = {};
    parts.tm_year = std::atoi(std::string(rest.substr(0, 4)).c_str()) - 1900;
    parts.tm_mon = two_digits(rest, 5) - 1;
    parts.tm_mday = two_digits(rest, 8);
    if (parts.tm_mon < 0 || parts.tm_mon > 11 || parts.tm_mday < 1 || parts.tm_mday > 31) return bad_time(text);
    rest.remove_prefix(10);
    if (!rest.empty() && rest[0] != 'T' && rest[0] != ' ' && rest[0] != 't') return bad_time(text);
    if (!rest.empty()) rest.remove_prefix(1);
  }
  if (weekday && (!has_date || weekday_of(parts) != *weekday)) return bad_time(text);
  TimeOfDay clock;
  std::string_view zone;
  if (!(has_date && rest.empty()) && !parse_time_of_day(rest, clock, zone)) return bad_time(text);
  parts.tm_hour = clock.hour;
  parts.tm_min = clock.minute;
  parts.tm_sec = clock.second;
  if (utc && (!has_date || !zone.empty())) return bad_time(text);
  if (utc) zone = "Z";
  // The conversions turn 30 February into 2 March.
  const int day = parts.tm_mday;
  if (!zone.empty()) {
    int east = 0;
    if (!has_date || !parse_offset(zone, east)) return bad_time(text);
    const std::time_t seconds = ::timegm(&parts) - east;
    if (parts.tm_mday != day) return bad_time(text);
    return moment(text, seconds, clock.fraction);
  }
  if (has_date) {
    std::tm exists = parts;
    static_cast<void>(::timegm(&exists));
    if (exists.tm_mday != day) return bad_time(text);
    return moment(text, local_seconds(parts, now_seconds), clock.fraction);
  }
  std::time_t seconds = local_seconds(parts, now_seconds);
  if (seconds > now_seconds) {  // at 00:10, 23:50 means yesterday
    --parts.tm_mday;
    seconds = local_seconds(parts);
  }
  return moment(text, seconds, clock.fraction);
}

}  // namespace flight
