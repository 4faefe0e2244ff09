// SPDX-License-Identifier: Apache-2.0
// The numbers behind the head of the page's payload. Private to this module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libcore/export/json_pieces.hpp"

namespace flight {

// LEB128: seven bits in each byte, the lowest first.
inline void write_varint(JsonPieces& out, std::uint64_t number) {
  std::array<char, 10> bytes{};
  std::size_t count = 0;
  for (; number >= 0x80U; number >>= 7U) bytes.at(count++) = static_cast<char>((number & 0x7fU) | 0x80U);
  bytes.at(count++) = static_cast<char>(number);
  out.raw(std::string_view(bytes.data(), count));
}

}  // namespace flight
