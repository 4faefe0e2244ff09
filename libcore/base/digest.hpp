// SPDX-License-Identifier: Apache-2.0
// FNV-1a, 64 bits, over a sequence of texts (http://www.isthe.com/chongo/tech/comp/fnv/): distinguishes configurations
// and sets of kernel modules, but is no protection. Each text's length is included, so that moving text from one to
// the next changes it.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace flight {

class Digest {
 public:
  void add(std::string_view text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    for (std::uint64_t rest = text.size(), i = 0; i < sizeof rest; ++i, rest >>= 8U) mix(rest & 0xffU);
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", state_); }  // 16 hex digits

 private:
  void mix(std::uint64_t byte) { state_ = (state_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace flight
