// SPDX-License-Identifier: Apache-2.0
// Text that strangers wrote, on its way to a terminal or a journal. A character misleads where a terminal would obey it
// (C0, DEL, C1) or would show what follows in another order or on another line than it is (U+200E, U+200F, U+2028 to
// U+202E, U+2066 to U+2069).
#pragma once

#include <string>
#include <string_view>

namespace flight {

// Whether `text` is UTF-8 (RFC 3629) without a character that misleads.
[[nodiscard]] bool is_printable(std::string_view text);
// With a '?' in place of each character that misleads, and of each byte that is no UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace flight
