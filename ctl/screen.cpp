// SPDX-License-Identifier: Apache-2.0
#include "ctl/screen.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "ctl/output.hpp"
#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kLeastCell = 8;     // the least width of a flexible column
constexpr std::size_t kMostIndent = 24;   // of values after their keys
constexpr std::size_t kBetweenCells = 2;  // as in table()
constexpr std::size_t kCharacterBytes = 4;
constexpr std::size_t kFoldedIndent = 4;  // of a cell below its row

// The length of the part of `text` that fits into `most` columns, up to a space if there is one; at least one
// character.
std::size_t line_length(std::string_view text, std::size_t most) {
  // A character has at most kCharacterBytes bytes. Do not look beyond the line, or the cost would grow with the square
  // of the text.
  text = text.substr(0, kCharacterBytes * (most + 1));
  if (columns(text) <= most) return text.size();
  const std::size_t fits = std::max<std::size_t>(cut_end(text, most, "").size(), 1);
  if (text[fits] == ' ') return fits;
  const std::size_t space = text.substr(0, fits).rfind(' ');
  return space == std::string_view::npos || space == 0 ? fits : space;
}

std::size_t widest_line(std::string_view text) {
  std::size_t widest = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    widest = std::max(widest, columns(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return widest;
}

}  // namespace

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale(value);
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

bool takes_escapes(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

std::optional<std::size_t> known_columns(int fd) {
  std::size_t known = 0;
  if (const char* given = std::getenv("COLUMNS"); given != nullptr) {
    const std::string_view text = given;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), known);
    if (error != std::errc() || end != text.data() + text.size()) known = 0;
  }
  winsize size{};
  if (known == 0 && ::isatty(fd) == 1 && ::ioctl(fd, TIOCGWINSZ, &size) == 0)
    known = size.ws_col == 0 ? kScreenColumns : size.ws_col;
  if (known == 0) return std::nullopt;
  return std::clamp(known, kLeastColumns, kMostColumns);
}

std::optional<std::size_t> page_lines() {
  if (::isatty(STDOUT_FILENO) != 1) return std::nullopt;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row != 0;
  return std::max<std::size_t>(known ? size.ws_row : kScreenLines, kLeastLines) - 1;
}

std::size_t count_lines(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t count_rows(std::string_view text, std::size_t width) {
  std::size_t out = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += std::max<std::size_t>((columns(text.substr(0, end)) + width - 1) / width, 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string first_lines(std::string_view text, std::size_t most, std::size_t width) {
  constexpr std::string_view kMore = " ...";
  std::size_t end = 0;
  for (std::size_t line = 0; line < most && end < text.size(); ++line)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  if (end == text.size() || end == 0) return std::string(text.substr(0, end));
  const std::string_view kept = text.substr(0, end - 1);
  const std::size_t last = kept.rfind('\n') == std::string_view::npos ? 0 : kept.rfind('\n') + 1;
  return std::string(kept.substr(0, last)) + cut_end(kept.substr(last), width - kMore.size(), "") + std::string(kMore) +
         "\n";
}

Screen Screen::here() { return Screen(locale_is_utf8(), known_columns(STDOUT_FILENO).value_or(kScreenColumns)); }

std::string Screen::cut(std::string_view text, std::size_t most) const {
  return cut_middle(printable(text), most, mark());
}

// A unit's name is first shortened by its ".service".
std::string Screen::cut_cell(std::string_view text, std::size_t most) const {
  constexpr std::string_view kService = ".service";
  if (columns(text) > most && text.ends_with(kService)) text.remove_suffix(kService.size());
  return cut(text, most);
}

std::string Screen::wrapped(std::string_view text, std::size_t indent, std::string_view head) const {
  const std::string clean = printable(text);
  std::string_view rest = clean;
  indent = std::min(indent, width_ / 2);
  std::string out(head);
  out.append(indent - std::min(indent, columns(head)), ' ');
  for (;;) {
    const std::size_t length = line_length(rest, width_ - indent);
    out.append(rest.substr(0, length)).append("\n");
    rest.remove_prefix(length);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return out;
    out.append(indent, ' ');
  }
}

std::string Screen::facts(const std::vector<std::pair<std::string, std::string>>& lines) const {
  std::size_t widest = 0;
  for (const auto& [key, value] : lines) widest = std::max(widest, columns(key));
  const std::size_t indent = std::min({widest + 2, kMostIndent, width_ / 2});
  std::string out;
  for (const auto& [key, value] : lines) out += wrapped(value, indent, cut(key, indent - 2) + ":");
  return out;
}

std::string Screen::table(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& right,
                          const std::vector<std::size_t>& flexible) const {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(row[i]);
      widths[i] = std::max(widths[i], columns(row[i]));
    }
  }
  std::size_t all = widths.empty() ? 0 : kBetweenCells * (widths.size() - 1);
  for (const std::size_t width : widths) all += width;
  for (const std::size_t column : flexible) {
    if (all <= width_ || column >= widths.size() || widths[column] <= kLeastCell) continue;
    const std::size_t less = std::min(all - width_, widths[column] - kLeastCell);
    widths[column] -= less;
    all -= less;
    for (auto& row : rows)
      if (column < row.size()) row[column] = cut_cell(row[column], widths[column]);
  }
  // The fixed columns can be too wide, too: a file may contain any numbers.
  std::string out;
  const std::string drawn = ctl::table(rows, right);
  std::string_view rest = drawn;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    out.append(cut_end(rest.substr(0, end), width_, mark())).append("\n");
    rest.remove_prefix(end + 1);
  }
  return out;
}

std::string Screen::folded_table(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& right,
                                 const std::vector<std::size_t>& flexible) const {
  std::string whole = ctl::table(rows, right);
  if (widest_line(whole) <= width_) return whole;
  std::vector<std::string> last;
  for (auto& row : rows) {
    last.push_back(std::move(row.back()));
    row.pop_back();
  }
  const std::string upper = table(std::move(rows), right, flexible);
  std::string out;
  std::string_view rest = upper;
  for (const std::string& cell : last) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    out.append(rest.substr(0, end)).append("\n");
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!cell.empty()) out += wrapped(cell, kFoldedIndent);
  }
  return out;
}

std::string page_table(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& right,
                       const std::vector<std::size_t>& flexible) {
  if (!known_columns(STDOUT_FILENO)) return table(rows, right);
  return Screen::here().folded_table(std::move(rows), right, flexible);
}

std::string page_text(std::string_view lines) {
  if (!known_columns(STDOUT_FILENO)) return std::string(lines);
  const Screen screen = Screen::here();
  std::string out;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    out += columns(line) <= screen.width() ? std::string(line) + "\n" : screen.wrapped(line.substr(indent), indent);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

std::string page_facts(const std::vector<std::pair<std::string, std::string>>& lines) {
  return known_columns(STDOUT_FILENO) ? Screen::here().facts(lines) : key_values(lines);
}

ProgressLine::ProgressLine(bool wanted) : wanted_(wanted && takes_escapes(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  if (shown_) show("");
}

// A line that is wider than the terminal would not be overwritten.
void ProgressLine::show(std::string_view text) const {
  if (!wanted_) return;
  shown_ = true;
  const std::size_t most = known_columns(STDERR_FILENO).value_or(kScreenColumns) - 1;
  std::fputs(fmt::format("\r{}\x1b[K", cut_end(text, most, locale_is_utf8() ? "…" : "...")).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace flight::ctl
