// SPDX-License-Identifier: Apache-2.0
// Where flightctl writes: results to stdout, errors to stderr, in words or, with --json, as one line of JSON. What
// comes from the daemon is shown only after printable(): a comm may hold a terminal's escape sequences.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/commands.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/base/text.hpp"

namespace flight::ctl {

// In columns of a terminal.
[[nodiscard]] std::size_t width(std::string_view text);

// "2026-11-20 03:12:04" in local time; with milliseconds where asked.
[[nodiscard]] std::string local_time(WallTime time);
// Of an RFC 3339 text; the text itself, made printable, where it is none.
[[nodiscard]] std::string local_time(std::string_view rfc3339);

// Rows of cells as aligned columns; `right`: the numbers of columns that are set to the right. The last column is not
// padded.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows,
                                const std::vector<std::size_t>& right);
// "key:      value" lines, values aligned. Values are made printable.
[[nodiscard]] std::string key_values(const std::vector<std::pair<std::string, std::string>>& lines);

// kDone, or kRefused with a word on stderr when not all of it could be written (a full disk, a closed pipe).
[[nodiscard]] int print(std::FILE* stream, std::string_view text);
// Tells an error, returns `code`.
[[nodiscard]] int complain(const Common& common, std::string_view name, std::string_view message, int code);

inline constexpr std::string_view kUsageError = "io.flightd.Client.UsageError";
inline constexpr std::string_view kNotConnected = "io.flightd.Client.NotConnected";
inline constexpr std::string_view kBadReply = "io.flightd.Client.BadReply";
inline constexpr std::string_view kNoPerf = "io.flightd.Client.NoPerf";
inline constexpr std::string_view kOutputFailed = "io.flightd.Client.OutputFailed";

}  // namespace flight::ctl
