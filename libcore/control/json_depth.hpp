// SPDX-License-Identifier: Apache-2.0
// How deep a JSON text nests, found before any parser sees it: 10,000 open brackets cost one pass and no stack.
#pragma once

#include <string_view>

#include "libcore/control/varlink.hpp"

namespace flight {

// Whether brackets outside of strings nest deeper than `max_depth`. Says nothing about whether `text` is JSON.
[[nodiscard]] constexpr bool nests_too_deep(std::string_view text, int max_depth = kMaxJsonDepth) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace flight
