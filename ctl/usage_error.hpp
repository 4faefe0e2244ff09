// SPDX-License-Identifier: Apache-2.0
// The message about a wrong command line. CLI11 reports one fault of several, in the order in which options are
// defined; here it is the one that was typed first, with the word that was probably meant.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace flight::ctl {

// `words`: those that `app` has parsed, the program's name included; `error`: what parsing them has thrown. The result
// ends with a reference to --help.
[[nodiscard]] std::string usage_error_text(CLI::App& app, const CLI::ParseError& error, std::span<char* const> words);

}  // namespace flight::ctl
