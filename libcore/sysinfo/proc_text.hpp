// SPDX-License-Identifier: Apache-2.0
// Takes apart the text of files in /proc.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace flight {

// The text before the first '\n', which `text` loses with it.
inline std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// The number at the beginning of `text`, with or without "0x"; 0 if there is none.
inline std::uint64_t leading_number(std::string_view text, int base) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace flight
