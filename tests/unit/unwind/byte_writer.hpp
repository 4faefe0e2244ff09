// SPDX-License-Identifier: Apache-2.0
// Bytes as a compiler or linker writes them: little-endian numbers and LEB128.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace flight::test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

template <typename T>
void append(Bytes& out, const T& value) {
  const auto* data = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), data, data + sizeof value);
}
inline void append_bytes(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
inline void append_text(Bytes& out, std::string_view text) {
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
  out.push_back(std::byte{0});
}
inline void append_uleb(Bytes& out, std::uint64_t value) {
  do {
    const auto low = static_cast<std::uint8_t>(value & 0x7fU);
    value >>= 7U;
    out.push_back(static_cast<std::byte>(value != 0 ? low | 0x80U : low));
  } while (value != 0);
}
inline void append_sleb(Bytes& out, std::int64_t value) {
  while (true) {
    const auto low = static_cast<std::uint8_t>(value & 0x7f);
    value >>= 7;
    const bool is_last = (value == 0 && (low & 0x40U) == 0) || (value == -1 && (low & 0x40U) != 0);
    out.push_back(static_cast<std::byte>(is_last ? low : low | 0x80U));
    if (is_last) return;
  }
}
template <typename T>
void put(Bytes& out, std::size_t at, const T& value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

}  // namespace flight::test
