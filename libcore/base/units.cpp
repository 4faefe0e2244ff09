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

// The number at the beginning of `text`; the rest is the unit.
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
    return fail(std::errc::invalid_argument, "'{}' is no size: use a whole number, alone or with K, M or G", text);
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
  return fail(std::errc::invalid_argument, "'{}' is no duration: use a number with ms, s, min, h or d", text);
}

Result<double> parse_percent(std::string_view text) {
  double value = 0;
  std::string_view unit;
  if (!parse_number(text, value, unit) || unit != "%" || value > 100)
    return fail(std::errc::invalid_argument, "'{}' is no percentage: use 0% to 100%", text);
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
