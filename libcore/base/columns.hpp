// SPDX-License-Identifier: Apache-2.0
// The width of a text on a terminal, and cutting it to a width. An East Asian character or an emoji takes two columns.
// A character that takes none (combining marks) counts as one: a line may be shorter than possible, but never longer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flight {

// The columns of `text`, which is printable(); each byte that is not UTF-8 counts as one.
[[nodiscard]] std::size_t columns(std::string_view text);
// `text` in at most `most` columns: if it is too long, its middle is replaced by `mark`. Characters are never split. A
// `mark` that is wider than `most` is omitted.
[[nodiscard]] std::string cut_middle(std::string_view text, std::size_t most, std::string_view mark = "…");
// The same for any text: cuts printable(text).
[[nodiscard]] std::string printable_cut(std::string_view text, std::size_t most);
// As cut_middle(), at the end of the text.
[[nodiscard]] std::string cut_end(std::string_view text, std::size_t most, std::string_view mark = "…");

}  // namespace flight
