// SPDX-License-Identifier: Apache-2.0
// Pages that are never wider than a terminal of 80 columns, whatever names and reasons strangers gave: long values are
// wrapped or cut in the middle. What is drawn beyond ASCII is drawn where the locale has it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flight::ctl {

inline constexpr std::size_t kScreenColumns = 80;

// Whether $LC_ALL, $LC_CTYPE or $LANG, the first that is set, says UTF-8 (locale(7)).
[[nodiscard]] bool locale_is_utf8();

class Screen {
 public:
  explicit Screen(bool utf8 = locale_is_utf8()) : utf8_(utf8) {}

  [[nodiscard]] bool utf8() const { return utf8_; }
  // Made printable, and cut in the middle to `most` columns.
  [[nodiscard]] std::string cut(std::string_view text, std::size_t most) const;
  // Lines of at most kScreenColumns, each with `indent` before it, broken between words where there are any. `head`
  // stands in the first one's indent.
  [[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::string_view head = "") const;
  // "key:  value" lines as wrapped(), the values aligned. Values are made printable.
  [[nodiscard]] std::string facts(const std::vector<std::pair<std::string, std::string>>& lines) const;
  // As ctl::table(), with cells made printable; where it would be too wide the columns `flexible` give way, in that
  // order.
  [[nodiscard]] std::string table(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& right,
                                  const std::vector<std::size_t>& flexible) const;

 private:
  [[nodiscard]] std::string_view mark() const { return utf8_ ? "…" : "..."; }
  bool utf8_;
};

}  // namespace flight::ctl
