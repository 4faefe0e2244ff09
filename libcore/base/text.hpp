// SPDX-License-Identifier: Apache-2.0
// Makes text from outside safe for a terminal or a journal. A character is misleading if a terminal interprets it, if
// it changes the order or the line of the text after it, or if it is invisible (U+200B), so that different texts look
// alike. The last group includes the joiners of Persian and of some emoji (U+200C, U+200D).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flight {

// The length of the UTF-8 sequence at the beginning of `text`, which is not empty, and its code point; 0 if there is
// none (RFC 3629: no overlong forms, no surrogates).
[[nodiscard]] std::size_t decode_utf8(std::string_view text, char32_t& out);

// Whether `text` is UTF-8 (RFC 3629) without a misleading character.
[[nodiscard]] bool is_printable(std::string_view text);
// Replaces each misleading character, and each byte that is not UTF-8, by '?'.
[[nodiscard]] std::string printable(std::string_view text);

// Each byte that is not UTF-8 becomes "\xNN": JSON has no such bytes, and two names that differ in them must not become
// the same. UTF-8 is not changed, so that "\x2d" in the name of a systemd unit stays.
[[nodiscard]] std::string as_utf8(std::string_view text);

// The name that a process has given itself, for a sentence or a table: in quotation marks, unless it begins as the
// names of commands do. A kernel thread is in brackets, as in ps, and so is "[lost]": a process can call itself like
// that. What the process has written is kept, so call printable() as well.
[[nodiscard]] std::string own_name(std::string_view name);

}  // namespace flight
