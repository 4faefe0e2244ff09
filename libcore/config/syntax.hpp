// SPDX-License-Identifier: Apache-2.0
// Explains JSON syntax errors and how to correct them: the parser's own message names the token where it stopped,
// which is seldom the wrong one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flight {

struct SyntaxError {
  int line = 0;
  std::string message;
};

// `consumed`: the part of `text` that the parser had read, including the refused token. `parser_says`: its message.
[[nodiscard]] SyntaxError explain_syntax_error(std::string_view text, std::size_t consumed,
                                               std::string_view parser_says);

}  // namespace flight
