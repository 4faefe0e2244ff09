// SPDX-License-Identifier: Apache-2.0
// The output of flightctl: results to stdout, errors to stderr, as text or, with --json, as one line of JSON. Text from
// flightd is shown only after printable(): a comm may contain terminal escape sequences.
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

// The width in terminal columns.
[[nodiscard]] std::size_t width(std::string_view text);

// "2026-11-20 03:12:04" in local time; optionally with milliseconds.
[[nodiscard]] std::string local_time(WallTime time);
// Converts an RFC 3339 text; another text is returned printable.
[[nodiscard]] std::string local_time(std::string_view rfc3339);

// Rows of cells as aligned columns; `right`: the columns that are right-aligned. The last column is not padded.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows,
                                const std::vector<std::size_t>& right);
// "key:      value" lines, values aligned. Values are made printable.
[[nodiscard]] std::string key_values(const std::vector<std::pair<std::string, std::string>>& lines);

// "FILE:LINE", printable; without a line if it is 0.
[[nodiscard]] std::string file_line(std::string_view file, int line);

// If `error_number` is EPIPE, the reader of stdout has left (`head`): ends this process as SIGPIPE does, and says
// nothing, also where the caller ignores that signal, as Python and systemd do.
void end_if_reader_left(int error_number);
// kDone, or kRefused with a message on stderr if the text could not be written completely (a full disk).
[[nodiscard]] int print(std::FILE* stream, std::string_view text);
// Prints an error, returns `code`.
[[nodiscard]] int complain(const Common& common, std::string_view name, std::string_view message, int code);

inline constexpr std::string_view kUsageError = "io.flightd.Client.UsageError";
inline constexpr std::string_view kNotConnected = "io.flightd.Client.NotConnected";
inline constexpr std::string_view kBadReply = "io.flightd.Client.BadReply";
inline constexpr std::string_view kNoSuchKey = "io.flightd.Client.NoSuchKey";
inline constexpr std::string_view kNoPerf = "io.flightd.Client.NoPerf";
inline constexpr std::string_view kEndedEarly = "io.flightd.Client.EndedEarly";
inline constexpr std::string_view kOutputFailed = "io.flightd.Client.OutputFailed";

}  // namespace flight::ctl
