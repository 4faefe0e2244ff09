// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/hex.hpp"

namespace flight {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string to_hex(const void* data, std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes * 2);
  for (std::size_t i = 0; i < bytes; ++i) {
    const unsigned value = static_cast<const unsigned char*>(data)[i];
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

// False if `text` is not hex or has more than `most` bytes.
bool from_hex(std::string_view text, std::vector<std::uint8_t>& out, std::size_t most) {
  out.clear();
  if (text.size() % 2 != 0 || text.size() / 2 > most) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_of(text[i]);
    const int low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return false;
    out.push_back(static_cast<std::uint8_t>(high * 16 + low));
  }
  return true;
}

}  // namespace flight
