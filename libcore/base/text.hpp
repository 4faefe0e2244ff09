// SPDX-License-Identifier: Apache-2.0
// Text that strangers wrote, on its way to a terminal or a journal. A character misleads where a terminal would obey it
// (C0, DEL, C1) or would show what follows in another order or on another line than it is (U+200E, U+200F, U+2028 to
// U+202E, U+2066 to U+2069).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flight {

// The length of the UTF-8 sequence at the beginning of `text`, which is not empty, and its code point; 0 where there is
// none (RFC 3629: no overlong forms, no surrogates).
[[nodiscard]] std::size_t decode_utf8(std::string_view text, char32_t& out);

// Whether `text` is UTF-8 (RFC 3629) without a character that misleads.
[[nodiscard]] bool is_printable(std::string_view text);
// With a '?' in place of each character that misleads, and of each byte that is no UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace flight
