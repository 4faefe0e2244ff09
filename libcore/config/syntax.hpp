// SPDX-License-Identifier: Apache-2.0
// What is wrong with a text that is no JSON, in words that say what to do: the parser's own sentence names the token
// it stumbled over, and that is seldom the one to mend.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flight {

struct SyntaxError {
  int line = 0;
  std::string message;
};

// `consumed`: how much of `text` the parser had read, the token it refused included. `parser_says`: its own words.
[[nodiscard]] SyntaxError explain_syntax_error(std::string_view text, std::size_t consumed,
                                               std::string_view parser_says);

}  // namespace flight
