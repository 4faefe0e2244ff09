// SPDX-License-Identifier: Apache-2.0
// Formats pages for the width of the terminal, whatever names and reasons they contain: long values are wrapped or cut
// in the middle. Characters beyond ASCII are used if the locale has them. It also formats the line that shows the
// progress of a call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flight::ctl {

inline constexpr std::size_t kScreenColumns = 80;  // where the width is not known
inline constexpr std::size_t kLeastColumns = 20, kMostColumns = 300;
inline constexpr std::size_t kScreenLines = 24, kLeastLines = 12;

// Whether the first of $LC_ALL, $LC_CTYPE and $LANG that is set selects UTF-8 (locale(7)).
[[nodiscard]] bool locale_is_utf8();

// Whether `fd` is a terminal that knows escape sequences: $TERM is set, and not "dumb".
[[nodiscard]] bool takes_escapes(int fd);

// The width of the terminal on `fd`, or $COLUMNS if it is set, from kLeastColumns to kMostColumns; nullopt: `fd` is no
// terminal, and $COLUMNS is not set.
[[nodiscard]] std::optional<std::size_t> known_columns(int fd);

// How many lines a page on stdout may have so that all of it is on the screen, above the next prompt; nullopt: stdout
// is no terminal, and a page is as long as it is.
[[nodiscard]] std::optional<std::size_t> page_lines();
[[nodiscard]] std::size_t count_lines(std::string_view text);
// How many lines of a terminal `width` columns wide it takes: a longer line goes on in the next.
[[nodiscard]] std::size_t count_rows(std::string_view text, std::size_t width);
// Its first `most` lines; if there are more, the last one ends with "...".
[[nodiscard]] std::string first_lines(std::string_view text, std::size_t most, std::size_t width);

class Screen {
 public:
  explicit Screen(bool utf8 = locale_is_utf8(), std::size_t width = kScreenColumns) : utf8_(utf8), width_(width) {}
  // As wide as stdout.
  [[nodiscard]] static Screen here();

  [[nodiscard]] bool utf8() const { return utf8_; }
  [[nodiscard]] std::size_t width() const { return width_; }
  // Made printable, and cut in the middle to `most` columns.
  [[nodiscard]] std::string cut(std::string_view text, std::size_t most) const;
  // Lines that are not wider than the screen, each after `indent` spaces (of a narrow screen fewer), broken between
  // words if possible. `head` is written into the indent of the first line.
  [[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::string_view head = "") const;
  // "key:  value" lines as wrapped(), the values aligned. Values are made printable.
  [[nodiscard]] std::string facts(const std::vector<std::pair<std::string, std::string>>& lines) const;
  // As ctl::table(), with cells made printable. If the table is too wide, the columns `flexible` are cut, in that
  // order.
  [[nodiscard]] std::string table(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& right,
                                  const std::vector<std::size_t>& flexible) const;
  // As table(). If a row is too wide, the last cell of each row is below it, indented, and whole.
  [[nodiscard]] std::string folded_table(std::vector<std::vector<std::string>> rows,
                                         const std::vector<std::size_t>& right,
                                         const std::vector<std::size_t>& flexible) const;

 private:
  [[nodiscard]] std::string cut_cell(std::string_view text, std::size_t most) const;
  [[nodiscard]] std::string_view mark() const { return utf8_ ? "…" : "..."; }
  bool utf8_;
  std::size_t width_;
};

// A table on stdout: folded_table() where its width is known, otherwise (in a pipe) ctl::table() with whole cells, for
// scripts.
[[nodiscard]] std::string page_table(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& right,
                                     const std::vector<std::size_t>& flexible);
// Lines on stdout in the same way: each as Screen::wrapped(), under its own indent, or as it is. They are printable.
[[nodiscard]] std::string page_text(std::string_view lines);
// "key:  value" lines in the same way: Screen::facts(), or key_values().
[[nodiscard]] std::string page_facts(const std::vector<std::pair<std::string, std::string>>& lines);

// One line on stderr that is overwritten, and removed at the end; nothing if stderr is not a terminal that can do that.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  // `text` is printable.
  void show(std::string_view text) const;

 private:
  bool wanted_;
  mutable bool shown_ = false;  // there is something to remove
};

}  // namespace flight::ctl
