// SPDX-License-Identifier: Apache-2.0
// The bytes of a text in base64.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flight::test {

inline std::string from_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char digit : text) {
    const std::size_t value = kAlphabet.find(digit);
    if (digit == '=') break;
    if (value == std::string_view::npos) ADD_FAILURE() << "not base64: " << digit;
    bits = bits << 6U | static_cast<std::uint32_t>(value & 63U);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xffU);
  }
  return out;
}

}  // namespace flight::test
