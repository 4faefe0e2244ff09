// SPDX-License-Identifier: Apache-2.0
// Formats pages for 80 columns, whatever names and reasons they contain: long values are wrapped or cut in the middle.
// Characters beyond ASCII are used if the locale has them. It also formats the line that shows the progress of a call.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flight::ctl {

inline constexpr std::size_t kScreenColumns = 80;

// Whether the first of $LC_ALL, $LC_CTYPE and $LANG that is set selects UTF-8 (locale(7)).
[[nodiscard]] bool locale_is_utf8();

// Whether `fd` is a terminal that knows escape sequences: $TERM is set, and not "dumb".
[[nodiscard]] bool takes_escapes(int fd);

class Screen {
 public:
  explicit Screen(bool utf8 = locale_is_utf8()) : utf8_(utf8) {}

  [[nodiscard]] bool utf8() const { return utf8_; }
  // Made printable, and cut in the middle to `most` columns.
  [[nodiscard]] std::string cut(std::string_view text, std::size_t most) const;
  // Lines of at most kScreenColumns, each after `indent` spaces, broken between words if possible. `head` is written
  // into the indent of the first line.
  [[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::string_view head = "") const;
  // "key:  value" lines as wrapped(), the values aligned. Values are made printable.
  [[nodiscard]] std::string facts(const std::vector<std::pair<std::string, std::string>>& lines) const;
  // As ctl::table(), with cells made printable. If the table is too wide, the columns `flexible` are cut, in that
  // order.
  [[nodiscard]] std::string table(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& right,
                                  const std::vector<std::size_t>& flexible) const;

 private:
  [[nodiscard]] std::string cut_cell(std::string_view text, std::size_t most) const;
  [[nodiscard]] std::string_view mark() const { return utf8_ ? "…" : "..."; }
  bool utf8_;
};

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
  bool shown_;
};

}  // namespace flight::ctl
