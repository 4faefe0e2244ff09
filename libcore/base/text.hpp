// SPDX-License-Identifier: Apache-2.0
// Text that strangers wrote, on its way to a terminal or a journal. A character misleads where a terminal would obey
// it, would show what follows in another order or on another line than it is, or would show nothing at all (U+200B), so
// that texts which look alike differ. The last takes the joiners of Persian and of some emoji along (U+200C, U+200D).
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
