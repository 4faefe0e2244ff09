// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/columns.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "libcore/base/text.hpp"

namespace flight {
namespace {

// Unicode's East_Asian_Width W and F (UAX #11). The narrow characters between two ranges are included.
constexpr std::array<std::pair<char32_t, char32_t>, 21> kWide{{
    {0x1100, 0x115f},   {0x231a, 0x232a},   {0x23e9, 0x23f3},   {0x25fd, 0x2615},   {0x2630, 0x2653},
    {0x267f, 0x2757},   {0x2795, 0x27bf},   {0x2b1b, 0x2b55},   {0x2e80, 0xa4cf},   {0xa960, 0xa97f},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe6f},   {0xff01, 0xff60},   {0xffe0, 0xffe6},
    {0x16fe0, 0x18dff}, {0x1aff0, 0x1b2ff}, {0x1d300, 0x1d37f}, {0x1f000, 0x1fbff}, {0x20000, 0x2fffd},
    {0x30000, 0x3fffd},
}};

struct Character {
  std::size_t bytes = 1, columns = 1;
};

Character first_of(std::string_view text) {
  char32_t c = 0;
  const std::size_t length = decode_utf8(text, c);
  if (length == 0) return {};
  const auto range = std::upper_bound(kWide.begin(), kWide.end(), c,
                                      [](char32_t value, const auto& wide) { return value < wide.first; });
  const bool wide = range != kWide.begin() && c <= (range - 1)->second;
  return {.bytes = length, .columns = wide ? 2U : 1U};
}

// The number of bytes at the beginning of `text` that fit into `most` columns.
std::size_t bytes_that_fit(std::string_view text, std::size_t most) {
  std::size_t used = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const Character c = first_of(text.substr(at));
    if (used + c.columns > most) break;
    used += c.columns;
    at += c.bytes;
  }
  return at;
}

// The end of `text` that fits into `most` columns.
std::string_view end_that_fits(std::string_view text, std::size_t most) {
  std::size_t whole = columns(text);
  while (whole > most) {
    const Character c = first_of(text);
    text.remove_prefix(c.bytes);
    whole -= c.columns;
  }
  return text;
}

}  // namespace

std::size_t columns(std::string_view text) {
  std::size_t out = 0;
  while (!text.empty()) {
    const Character c = first_of(text);
    out += c.columns;
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string cut_middle(std::string_view text, std::size_t most, std::string_view mark) {
  if (columns(text) <= most) return std::string(text);
  if (columns(mark) > most) mark = "";
  const std::size_t left = most - columns(mark);
  std::string out(text.substr(0, bytes_that_fit(text, left - left / 2)));
  out += mark;
  return out.append(end_that_fits(text, left / 2));
}

std::string cut_end(std::string_view text, std::size_t most, std::string_view mark) {
  if (columns(text) <= most) return std::string(text);
  if (columns(mark) > most) mark = "";
  return std::string(text.substr(0, bytes_that_fit(text, most - columns(mark)))).append(mark);
}

std::string printable_cut(std::string_view text, std::size_t most) { return cut_middle(printable(text), most); }

}  // namespace flight
