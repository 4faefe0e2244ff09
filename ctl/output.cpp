// SPDX-License-Identifier: Apache-2.0
#include "ctl/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "libcore/base/bytes.hpp"
#include "libcore/base/columns.hpp"
#include "libcore/base/files.hpp"
#include "libcore/control/messages.hpp"

namespace flight::ctl {
namespace {

void say(std::string_view line) { static_cast<void>(write_patiently(STDERR_FILENO, bytes_of(line))); }

}  // namespace

std::size_t width(std::string_view text) { return columns(text); }

std::string local_time(WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).count();
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "?";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string local_time(std::string_view rfc3339) {
  const auto time = parse_time(rfc3339, WallTime{});
  return time ? local_time(*time) : printable(rfc3339);
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& right) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width(row[column]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - width(row[column]), ' ');
      const bool to_the_right = std::find(right.begin(), right.end(), column) != right.end();
      line += to_the_right ? padding + row[column] : row[column] + padding;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string key_values(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::size_t widest = 0;
  for (const auto& [key, value] : lines) widest = std::max(widest, width(key));
  std::string out;
  for (const auto& [key, value] : lines)
    out += key + ':' + std::string(widest - width(key) + 1, ' ') + printable(value) + '\n';
  return out;
}

std::string file_line(std::string_view file, int line) {
  return line > 0 ? fmt::format("{}:{}", printable(file), line) : printable(file);
}

void end_if_reader_left(int error_number) {
  constexpr int kBySignal = 128;
  if (error_number != EPIPE) return;
  static_cast<void>(std::signal(SIGPIPE, SIG_DFL));
  static_cast<void>(std::raise(SIGPIPE));
  std::_Exit(kBySignal + SIGPIPE);
}

int print(std::FILE* stream, std::string_view text) {
  // Not through the stream, which gives up if its file is O_NONBLOCK and has no space for the moment.
  int why = std::fflush(stream) == 0 ? 0 : errno;
  if (why == 0)
    if (const auto written = write_patiently(::fileno(stream), bytes_of(text)); !written)
      why = written.error().errno_value();
  if (why == 0) return kDone;
  end_if_reader_left(why);
  say(fmt::format("flightctl: writing the answer: {}\n", std::strerror(why)));
  return kRefused;
}

int complain(const Common& common, std::string_view name, std::string_view message, int code) {
  const std::string line =
      common.json ? error_line(name, message) + "\n" : fmt::format("flightctl: {}\n", printable(message));
  say(line);
  return code;
}

}  // namespace flight::ctl
