// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace flight {
namespace {

using std::chrono::nanoseconds;

struct Unit {
  std::string_view suffix;
  double nanoseconds;
};
constexpr std::array<Unit, 5> kDurations{{{"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};

// As in systemd.time(7), without months and years, which have no fixed length.
constexpr std::array<Unit, 25> kSpans{
    {{"us", 1e3},           {"usec", 1e3},          {"ms", 1e6},      {"msec", 1e6},     {"s", 1e9},
     {"sec", 1e9},          {"second", 1e9},        {"seconds", 1e9}, {"m", 60e9},       {"min", 60e9},
     {"minute", 60e9},      {"minutes", 60e9},      {"h", 3600e9},    {"hr", 3600e9},    {"hour", 3600e9},
     {"hours", 3600e9},     {"d", 86400e9},         {"day", 86400e9}, {"days", 86400e9}, {"w", 7 * 86400e9},
     {"week", 7 * 86400e9}, {"weeks", 7 * 86400e9}, {"mins", 60e9},   {"secs", 1e9},     {"hrs", 3600e9}}};

// Parses the number at the beginning of `text`; the rest is the unit.
bool parse_number(std::string_view text, double& value, std::string_view& unit) {
  std::size_t end = 0;
  while (end < text.size() && (text[end] == '.' || (text[end] >= '0' && text[end] <= '9'))) ++end;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + end, value);
  if (end == 0 || error != std::errc{} || stop != text.data() + end) return false;
  unit = text.substr(end);
  return true;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const auto refuse = [&] {
    return fail(std::errc::invalid_argument, "'{}' is not a size: use a whole number, alone or with K, M or G", text);
  };
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop == text.data()) return refuse();
  const std::string_view unit(stop, static_cast<std::size_t>(text.data() + text.size() - stop));
  unsigned shift = 0;
  if (unit == "K") {
    shift = 10;
  } else if (unit == "M") {
    shift = 20;
  } else if (unit == "G") {
    shift = 30;
  } else if (!unit.empty()) {
    return refuse();
  }
  if (value > (std::numeric_limits<std::uint64_t>::max() >> (shift + 1))) return refuse();
  return value << shift;
}

Result<nanoseconds> parse_duration(std::string_view text) {
  double value = 0;
  std::string_view unit;
  if (parse_number(text, value, unit)) {
    for (const Unit& known : kDurations) {
      const double total = value * known.nanoseconds;
      if (unit == known.suffix && total < 9e18) return nanoseconds(static_cast<std::int64_t>(std::llround(total)));
    }
  }
  return fail(std::errc::invalid_argument, "'{}' is not a duration: use a number with ms, s, min, h or d", text);
}

Result<nanoseconds> parse_span(std::string_view text) {
  const auto skip_blanks = [](std::string_view& rest) {
    while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  };
  double total = 0;
  std::string_view rest = text;
  for (skip_blanks(rest); !rest.empty() || total == 0; skip_blanks(rest)) {
    double value = 0;
    if (!parse_number(rest, value, rest)) break;
    skip_blanks(rest);
    std::size_t letters = 0;
    while (letters < rest.size() && rest[letters] >= 'a' && rest[letters] <= 'z') ++letters;
    const Unit* unit = nullptr;
    for (const Unit& known : kSpans)
      if (rest.substr(0, letters) == known.suffix) unit = &known;
    if (unit == nullptr) break;
    total += value * unit->nanoseconds;
    rest.remove_prefix(letters);
    skip_blanks(rest);
    if (rest.empty() && total < 9e18) return nanoseconds(static_cast<std::int64_t>(std::llround(total)));
  }
  return fail(std::errc::invalid_argument, "'{}' is not a duration: use 500ms, 10s, 5min, 1h, '1 hour' or '2h 30min'",
              text);
}

Result<double> parse_percent(std::string_view text) {
  double value = 0;
  std::string_view unit;
  if (!parse_number(text, value, unit) || unit != "%" || value > 100)
    return fail(std::errc::invalid_argument, "'{}' is not a percentage: use 0% to 100%", text);
  return value;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<char, 4> kSuffixes{'K', 'M', 'G', 'T'};
  if (bytes < 1024) return fmt::format("{}", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t step = 0;
  while (value >= 1023.95 && step + 1 < kSuffixes.size()) {
    value /= 1024;
    ++step;
  }
  return fmt::format("{:.1f}{}", value, kSuffixes.at(step));
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

std::string format_duration(nanoseconds duration) {
  const double seconds = static_cast<double>(duration.count()) / 1e9;
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} d", seconds / 86400);
}

}  // namespace flight
