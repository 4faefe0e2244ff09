// SPDX-License-Identifier: Apache-2.0
// Reads a value of the configuration into a field of a struct and checks it. A Reader is one value and its path. The
// first error is kept in the shared Check, and the rest is read without effect.
//
// Not json::Reader (libcore/json/reader.hpp), which reads what programs wrote, ignores unknown members and reports a
// position in the JSON. People write a configuration: values have units, an unknown key is refused with the nearest
// known one, an error names file and line, and a fragment may leave out what another file has.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/config/config.hpp"
#include "libcore/config/document.hpp"

namespace flight {

// One pass over a document.
struct Check {
  // One of several files: members may be null, and missing members may come from another file.
  bool fragment = false;
  std::optional<ConfigError> error;
};

class Reader;

// A key of an object, and how to read its value.
struct Field {
  std::string_view key;
  std::function<void(const Reader&)> read;
};

class Reader {
 public:
  Reader(Check& check, const Value& value, std::string path) : check_(&check), value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const Value& value() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool fragment() const { return check_->fragment; }
  [[nodiscard]] Reader of(const Value& member) const;  // of a member of this object

  // Keeps "FILE:LINE: PATH: MESSAGE" unless something was refused before.
  void refuse(std::string message) const;

  // Reads each member into its field, in the document's order; an unknown key is refused, with the nearest known one or
  // its new name.
  void object(std::initializer_list<Field> fields) const;
  // Each member has a name chosen by the user, with characters that are valid in file names. A member that is null is
  // omitted, also if no other file defines it: the shipped text suggests it.
  void named(std::string_view what, std::size_t most, const std::function<void(const Reader&)>& read) const;
  // Reads each item. A list must be complete, also in a fragment: patches replace whole lists.
  void list(std::size_t most, const std::function<void(const Reader&)>& read) const;

  // The value as in the document; if it has another kind, refuses it and returns false.
  [[nodiscard]] bool is(Value::Kind kind, std::string_view right) const;
  void flag(bool& out) const;
  void text(std::string& out, std::string_view right) const;  // not empty, no control characters, at most 4,000 bytes
  void choice(std::string& out, const std::vector<std::string_view>& words) const;
  void capture_mode(CaptureMode& out) const;
  void whole(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const;
  void bytes(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const;
  // A power of two.
  void ring_bytes(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const;
  void duration(std::chrono::nanoseconds& out, std::chrono::nanoseconds least, std::chrono::nanoseconds most) const;
  void size_or_share(SizeOrShare& out, bool zero_allowed) const;
  void percent(double& out) const;

 private:
  Check* check_;
  const Value* value_;
  std::string path_;
};

// [a-z0-9][a-z0-9-]{0,31}: names of channels, triggers, profiles.
[[nodiscard]] bool valid_config_name(std::string_view name);
inline constexpr std::string_view kConfigNameRule = "1 to 32 of a-z, 0-9 and -, and no - in front";

// "a, b, c"
[[nodiscard]] std::string join_words(const std::vector<std::string_view>& words);

}  // namespace flight
