// SPDX-License-Identifier: Apache-2.0
// The log of flightd and flightd-broker, on stderr. Only log.cpp includes spdlog, which is slow to compile. Any thread
// may call these functions; none of them waits for the reader of stderr (libcore/base/line_writer.hpp).
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"

namespace flight::log {

enum class Level { info, warn, error };

// Whether stderr is the journal's own stream ($JOURNAL_STREAM of systemd.exec(5)). Lines then begin with their
// priority as in sd-daemon(3), <4> for a warning; journald removes it.
[[nodiscard]] bool stderr_is_journal();
// Sets spdlog's name and pattern. Call it before the first line.
void start(const std::string& name, const std::string& pattern);
// From now on lines are queued for the log thread. Call it once, after privileges are dropped: otherwise the thread
// would keep them.
[[nodiscard]] Result<void> use_thread();
// Call it before the program ends: waits for the queue, at most LineWriter::kPatience.
void flush();
// Number of lines that were dropped because stderr was not read.
[[nodiscard]] std::uint64_t dropped();

void write(Level level, std::string_view text);
void vwrite(Level level, fmt::string_view format, fmt::format_args args);

template <typename... Args>
void at(Level level, fmt::format_string<Args...> format, Args&&... args) {
  vwrite(level, format, fmt::make_format_args(args...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  vwrite(Level::info, format, fmt::make_format_args(args...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  vwrite(Level::warn, format, fmt::make_format_args(args...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  vwrite(Level::error, format, fmt::make_format_args(args...));
}

}  // namespace flight::log
