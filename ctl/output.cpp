// SPDX-License-Identifier: Apache-2.0
#include "ctl/output.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "libcore/control/messages.hpp"

namespace flight::ctl {
namespace {

// The length of the UTF-8 sequence at the beginning of `text` and its code point; 0 where there is none (RFC 3629:
// no overlong forms, no surrogates).
std::size_t decode(std::string_view text, char32_t& out) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  std::size_t length = 1;
  char32_t value = byte(0);
  char32_t least = 0;
  if (byte(0) >= 0xf0 && byte(0) < 0xf8) {
    length = 4, value = byte(0) & 0x07U, least = 0x10000;
  } else if (byte(0) >= 0xe0 && byte(0) < 0xf0) {
    length = 3, value = byte(0) & 0x0fU, least = 0x800;
  } else if (byte(0) >= 0xc0 && byte(0) < 0xe0) {
    length = 2, value = byte(0) & 0x1fU, least = 0x80;
  } else if (byte(0) >= 0x80) {
    return 0;
  }
  if (length > text.size()) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0U) != 0x80U) return 0;
    value = (value << 6U) | (byte(at) & 0x3fU);
  }
  if (value < least || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
  out = value;
  return length;
}

// A terminal would obey it, or show what follows in another order than it is.
bool misleads(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x2028 || c == 0x2029 ||
         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    char32_t c = 0;
    const std::size_t length = decode(text, c);
    if (length == 0 || misleads(c)) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

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

int print(std::FILE* stream, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0) return kDone;
  const std::string message = fmt::format("flightctl: writing the answer: {}\n", std::strerror(errno));
  std::fputs(message.c_str(), stderr);
  return kRefused;
}

int complain(const Common& common, std::string_view name, std::string_view message, int code) {
  const std::string line =
      common.json ? error_line(name, message) + "\n" : fmt::format("flightctl: {}\n", printable(message));
  std::fputs(line.c_str(), stderr);
  return code;
}

}  // namespace flight::ctl
