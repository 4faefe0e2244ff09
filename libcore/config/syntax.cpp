// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/syntax.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace flight {
namespace {

struct Token {
  char first = '\0';  // '"' for a text, 'w' for a word or number, otherwise the character itself
  std::string word;   // of a word
  int line = 0;
  int end_line = 0;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_sign(char c) { return std::string_view("{}[]:,\"").find(c) != std::string_view::npos; }

// The tokens before `consumed`, without comments; only the last two are kept. It knows no grammar, so that it also
// reads text that the parser refused.
class Tokens {
 public:
  Tokens(std::string_view text, std::size_t consumed) : text_(text), end_(std::min(consumed, text.size())) {
    while (at_ < end_) step();
  }
  Token last, before;
  [[nodiscard]] int line() const { return line_; }

 private:
  char take() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  void push(Token token) {
    before = std::move(last);
    last = std::move(token);
  }
  void step() {
    if (starts("//")) {
      while (at_ < end_ && text_[at_] != '\n') ++at_;
    } else if (starts("/*")) {
      while (at_ < end_ && !starts("*/")) take();
      at_ = std::min(at_ + 2, end_);
    } else if (is_space(text_[at_])) {
      take();
    } else if (text_[at_] == '"') {
      quoted();
    } else if (is_sign(text_[at_])) {
      push({.first = text_[at_], .word = {}, .line = line_, .end_line = line_});
      ++at_;
    } else {
      word();
    }
  }
  void quoted() {
    Token token{.first = '"', .word = {}, .line = line_, .end_line = line_};
    take();
    while (at_ < end_ && text_[at_] != '"') {
      if (take() == '\\' && at_ < end_) take();
    }
    if (at_ < end_) take();
    token.end_line = line_;
    push(std::move(token));
  }
  // Also beyond `end_`: the parser stops in the middle of an unknown word.
  void word() {
    constexpr std::size_t kMaxShown = 32;
    Token token{.first = 'w', .word = {}, .line = line_, .end_line = line_};
    while (at_ < text_.size() && !is_space(text_[at_]) && !is_sign(text_[at_]) && !starts("//") && !starts("/*")) {
      const char c = text_[at_++];
      if (token.word.size() < kMaxShown && c >= ' ' && c <= '~') token.word += c;
    }
    push(std::move(token));
  }

  std::string_view text_;
  std::size_t end_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// The parser's message without its prefix "[json.exception.…] parse error at line L, column C: ".
std::string_view without_prefix(std::string_view says) {
  constexpr std::string_view kPosition = "parse error at ";
  if (const std::size_t bracket = says.find("] "); says.substr(0, 1) == "[" && bracket != std::string_view::npos)
    says.remove_prefix(bracket + 2);
  if (const std::size_t colon = says.find(": "); says.substr(0, kPosition.size()) == kPosition)
    says.remove_prefix(colon == std::string_view::npos ? 0 : colon + 2);
  return says;
}

bool has(std::string_view text, std::string_view what) { return text.find(what) != std::string_view::npos; }

}  // namespace

SyntaxError explain_syntax_error(std::string_view text, std::size_t consumed, std::string_view parser_says) {
  const Tokens tokens(text, consumed);
  const Token& last = tokens.last;
  const Token& before = tokens.before;
  const bool closes = last.first == '}' || last.first == ']';
  if (before.first == ',' && (closes || last.first == ','))
    return {before.line, fmt::format("extra comma before '{}'{}; remove the comma", last.first,
                                     last.line == before.line ? "" : fmt::format(" in line {}", last.line))};
  if (last.first == ',' && (before.first == '{' || before.first == '['))
    return {last.line, fmt::format("extra comma: there is no value between it and the '{}'", before.first)};
  if (last.first == '\0') return {1, "the file is empty; the smallest configuration is {}"};
  if (has(parser_says, "unexpected end of input"))
    return {tokens.line(), "the text ends too early: a closing '}' or ']' is missing"};
  if (has(parser_says, "invalid comment"))
    return {tokens.line(), "a comment is // to the end of the line, or /* to */"};
  if (has(parser_says, "invalid string"))
    return {last.line, fmt::format("invalid text in double quotes ({}): it must end in the same line, and a "
                                   "backslash in it is written \\\\",
                                   without_prefix(parser_says))};
  if (has(parser_says, "while parsing object key") && last.first == 'w')
    return {last.line, fmt::format("a key must be in double quotes: \"KEY\" instead of {}", last.word)};
  if (last.first == 'w' && has(parser_says, "invalid literal"))
    return {last.line, fmt::format("'{}' is not a value: a text must be in double quotes; without quotes, a value is a "
                                   "number, true, false or null",
                                   last.word)};
  if (has(parser_says, "; expected '}'") || has(parser_says, "; expected ']'"))
    return {before.end_line, "a comma is missing after this value, or a '}' or ']' that closes its list"};
  if (has(parser_says, "; expected ':'")) return {last.line, "a ':' is missing between a key and its value"};
  if (has(parser_says, "; expected end of input"))
    return {last.line, "text after the end of the configuration: an extra '}', or a second object"};
  return {last.line, std::string(without_prefix(parser_says))};
}

}  // namespace flight
