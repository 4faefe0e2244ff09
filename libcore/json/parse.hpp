// SPDX-License-Identifier: Apache-2.0
// Parses a JSON text to a Value. Everything is bounded: texts come from outside.
#pragma once

#include <cstddef>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/json/value.hpp"

namespace flight::json {

inline constexpr int kMaxDepth = 16;  // nesting of objects and arrays

struct Limits {
  std::size_t max_bytes = static_cast<std::size_t>(-1);  // no limit: the sender's messages are bounded already
  // Refuses a duplicate key in one object, at any depth. Otherwise the last value counts, at the position of the
  // first.
  bool unique_keys = false;
};

// EFBIG: more than max_bytes. EBADMSG: not JSON (RFC 8259, one value, UTF-8), nested deeper than kMaxDepth, a
// duplicate key.
[[nodiscard]] Result<Value> parse(std::string_view text, const Limits& limits = {});
// The same for texts that must be an object: null after an error.
[[nodiscard]] Value parse_or_null(std::string_view text);

}  // namespace flight::json
