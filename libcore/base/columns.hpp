// SPDX-License-Identifier: Apache-2.0
// How wide a text is on a terminal, and cutting it to a width. A character of East Asia or an emoji takes two columns;
// what takes none (combining marks) is counted as one: a line may come out shorter than it could be, never longer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flight {

// Columns of `text`, which is printable(); each byte that is no UTF-8 counts as one.
[[nodiscard]] std::size_t columns(std::string_view text);
// `text` in at most `most` columns: what is too much goes from its middle, where `mark` then stands. Characters stay
// whole. A `mark` that is wider than `most` is left out.
[[nodiscard]] std::string cut_middle(std::string_view text, std::size_t most, std::string_view mark = "…");
// The same at the end of the text.
[[nodiscard]] std::string cut_end(std::string_view text, std::size_t most, std::string_view mark = "…");

}  // namespace flight
