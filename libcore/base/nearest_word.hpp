// SPDX-License-Identifier: Apache-2.0
// Finds the word that was probably meant, for messages about an unknown one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace flight {

// The word of `known` with the fewest edits, at most one and a quarter of the word's length; empty if there is none.
[[nodiscard]] std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known);

// "; the nearest is 'ring'", or nothing. `noun`: "nearest" or, for example, "nearest profile".
[[nodiscard]] std::string nearest_text(std::string_view word, const std::vector<std::string_view>& known,
                                       std::string_view noun = "nearest");

// The message about the first of the unknown `words` of a command line, in the typed order:
// "there is no command 'snapsht': did you mean 'snapshot'?". Words that begin with '-' are compared with `options`,
// others with `commands`; if there are no commands, they are extra arguments. `within`: the command to which the
// commands belong, "triggers", or nothing.
[[nodiscard]] std::string unknown_words(const std::vector<std::string>& words, const std::vector<std::string>& options,
                                        const std::vector<std::string>& commands, const std::string& within = "");

// Converts CLI11's "--host: 1 required HOST missing" to "--host needs a value: HOST", and its text about an option that
// was given twice; other texts are unchanged.
[[nodiscard]] std::string usage_text(const std::string& error);

// The usage error with a reference to the program's help: "ERROR; see flightd --help".
[[nodiscard]] std::string with_help(const std::string& error, std::string_view program);

}  // namespace flight
