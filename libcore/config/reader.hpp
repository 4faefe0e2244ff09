// SPDX-License-Identifier: Apache-2.0
// From a value of the tree into a field of a struct, with every check on the way. A Reader is one value and its path;
// the first thing that is refused is kept in the Check they all share, and the rest is read on without effect.
#pragma once

#include <fmt/format.h>

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
  // A fragment that lies over or below others: members may be null, and what is missing may come from elsewhere.
  bool fragment = false;
  std::optional<ConfigError> error;
};

class Reader;

// A key an object may have, and what to do with its value.
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

  // Each member goes to its field, in the document's order; an unknown key is refused with the nearest known one.
  void object(std::initializer_list<Field> fields) const;
  // Each member has a name of the user's own, of letters that file names can carry.
  void named(std::string_view what, std::size_t most, const std::function<void(const Reader&)>& read) const;
  // Each item. Within a list everything is complete, in a fragment, too: patches replace lists whole.
  void list(std::size_t most, const std::function<void(const Reader&)>& read) const;

  // The value as it is in the document; false and refused when it is something else.
  [[nodiscard]] bool is(Value::Kind kind, std::string_view right) const;
  void flag(bool& out) const;
  void text(std::string& out, std::string_view right) const;  // not empty, no control characters, at most 4,000 bytes
  void choice(std::string& out, const std::vector<std::string_view>& words) const;
  void capture_mode(CaptureMode& out) const;
  void whole(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const;
  void bytes(std::uint64_t& out, std::uint64_t least, std::uint64_t most) const;
  void duration(std::chrono::nanoseconds& out, std::chrono::nanoseconds least, std::chrono::nanoseconds most) const;
  void size_or_share(SizeOrShare& out, bool zero_allowed) const;
  void percent(double& out) const;

 private:
  Check* check_;
  const Value* value_;
  std::string path_;
};

// [a-z0-9][a-z0-9-]{0,31}: of channels, triggers, profiles.
[[nodiscard]] bool valid_config_name(std::string_view name);
inline constexpr std::string_view kConfigNameRule = "1 to 32 of a-z, 0-9 and -, and no - in front";

// The one of `known` that is fewest edits away; empty where there is none at all.
[[nodiscard]] std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known);
// "a, b, c"
[[nodiscard]] std::string join_words(const std::vector<std::string_view>& words);

}  // namespace flight
