// SPDX-License-Identifier: Apache-2.0
// Reads a JSON text piece by piece without keeping it: for callers that need a few values of a large text (a list of
// snapshots), or the position of each value (the configuration). parse.hpp makes a tree of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flight::json {

// Receives the content of the text, in order. If a function returns false, reading stops. Nesting is not bounded:
// count begin_object and begin_array. Texts may be moved from.
class Events {
 public:
  Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  virtual ~Events() = default;

  virtual bool null() = 0;
  virtual bool flag(bool value) = 0;
  virtual bool whole(std::uint64_t value) = 0;
  virtual bool negative(std::int64_t value) = 0;  // -0, too
  virtual bool number(double value) = 0;          // with a fraction or an exponent, or too large for the other two
  virtual bool text(std::string& value) = 0;
  virtual bool key(std::string& name) = 0;
  virtual bool begin_object() = 0;
  virtual bool end_object() = 0;
  virtual bool begin_array() = 0;
  virtual bool end_array() = 0;
};

struct Outcome {
  bool complete = false;     // the whole text is one JSON value, and reading was not stopped
  std::size_t consumed = 0;  // after a fault: bytes that were read, including the refused token
  std::string fault;         // the parser's message; empty if `events` stopped the reading
};

[[nodiscard]] Outcome read_events(std::string_view text, Events& events);
// Accepts // and /* */ comments. While `events` is called, `line` is the line, from 1, of the last character that is
// not a line break.
[[nodiscard]] Outcome read_commented_events(std::string_view text, Events& events, int& line);

}  // namespace flight::json
