// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/events.hpp"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace flight::json {
namespace {

using Library = nlohmann::json;

// The parser's current line. It looks one character past a number, so that the line of a value is the line of the last
// character that was not a line break.
class LineCount {
 public:
  explicit LineCount(int& line) : line_(line) { line_ = 1; }
  void see(char c) {
    if (c == '\n')
      ++newlines_;
    else
      line_ = newlines_ + 1;
  }

 private:
  int newlines_ = 0;
  int& line_;
};

// An input iterator over the text that reports each character to `lines`. The parser reads one character and advances
// once, and copies the iterator only before it begins.
class CountingIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, LineCount* lines) : at_(at), lines_(lines) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    lines_->see(*at_++);
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  LineCount* lines_;
};

// Forwards the library's events; the function names are the library's.
class Forward final : public nlohmann::json_sax<Library> {
 public:
  Forward(Events& events, Outcome& outcome) : events_(events), outcome_(outcome) {}

  bool null() override { return events_.null(); }
  bool boolean(bool value) override { return events_.flag(value); }
  bool number_integer(number_integer_t value) override { return events_.negative(value); }
  bool number_unsigned(number_unsigned_t value) override { return events_.whole(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return events_.number(value); }
  bool string(string_t& value) override { return events_.text(value); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none
  bool start_object(std::size_t /*count*/) override { return events_.begin_object(); }
  bool key(string_t& name) override { return events_.key(name); }
  bool end_object() override { return events_.end_object(); }
  bool start_array(std::size_t /*count*/) override { return events_.begin_array(); }
  bool end_array() override { return events_.end_array(); }
  bool parse_error(std::size_t position, const std::string& /*token*/, const Library::exception& error) override {
    outcome_.consumed = position;
    outcome_.fault = error.what();
    return false;
  }

 private:
  Events& events_;
  Outcome& outcome_;
};

// As Library::sax_parse(), which can also read binary formats: it would bring their readers into each program, once for
// each type of iterator.
template <typename Iterator>
bool run_parser(Iterator begin, Iterator end, Forward& to, bool with_comments) {
  using Input = decltype(nlohmann::detail::input_adapter(begin, end));
  nlohmann::detail::parser<Library, Input> parser(nlohmann::detail::input_adapter(begin, end), nullptr,
                                                  /*allow_exceptions=*/true, with_comments);
  return parser.sax_parse(&to);
}

// For the library a NUL is the end of the text. The rest must not be ignored.
Outcome without_nul(Outcome outcome, std::string_view text) {
  const std::size_t nul = outcome.complete ? text.find('\0') : std::string_view::npos;
  if (nul == std::string_view::npos) return outcome;
  return {.complete = false, .consumed = nul + 1, .fault = "a NUL byte, which JSON does not allow"};
}

}  // namespace

Outcome read_events(std::string_view text, Events& events) {
  Outcome outcome;
  Forward forward(events, outcome);
  outcome.complete = run_parser(text.data(), text.data() + text.size(), forward, /*with_comments=*/false);
  return without_nul(std::move(outcome), text);
}

Outcome read_commented_events(std::string_view text, Events& events, int& line) {
  Outcome outcome;
  Forward forward(events, outcome);
  LineCount lines(line);
  outcome.complete =
      run_parser(CountingIterator(text.data(), &lines), CountingIterator(text.data() + text.size(), &lines), forward,
                 /*with_comments=*/true);
  return without_nul(std::move(outcome), text);
}

}  // namespace flight::json
