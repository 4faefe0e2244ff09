// SPDX-License-Identifier: Apache-2.0
// A text as bytes, for what writes and compresses bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace flight {

// The bytes of a text, which must live as long as they are used.
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace flight
