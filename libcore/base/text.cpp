// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/text.hpp"

#include <algorithm>

namespace flight {
namespace {

// A terminal would obey it, or show what follows in another order than it is.
bool misleads(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x2028 || c == 0x2029 ||
         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::size_t decode_utf8(std::string_view text, char32_t& out) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  std::size_t length = 1;
  char32_t value = byte(0);
  char32_t least = 0;
  if (byte(0) >= 0xf0 && byte(0) < 0xf8) {
    length = 4, value = byte(0) & 0x07U, least = 0x10000;
  } else if (byte(0) >= 0xe0 && byte(0) < 0xf0) {
    length = 3, value = byte(0) & 0x0fU, least = 0x800;
  } else if (byte(0) >= 0xc0 && byte(0) < 0xe0) {
    length = 2, value = byte(0) & 0x1fU, least = 0x80;
  } else if (byte(0) >= 0x80) {
    return 0;
  }
  if (length > text.size()) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0U) != 0x80U) return 0;
    value = (value << 6U) | (byte(at) & 0x3fU);
  }
  if (value < least || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
  out = value;
  return length;
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    char32_t c = 0;
    const std::size_t length = decode_utf8(text, c);
    if (length == 0 || misleads(c)) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    char32_t c = 0;
    const std::size_t length = decode_utf8(text, c);
    if (length == 0 || misleads(c)) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace flight
