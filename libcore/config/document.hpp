// SPDX-License-Identifier: Apache-2.0
// Parses JSON with comments into a small tree whose values know their file and line, so that an error that is found
// after files were merged names the place to correct. Everything is bounded. json::Value (libcore/json/value.hpp) has
// no lines: replies and sidecars do not need them, and each of their values would become larger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/config/parse.hpp"

namespace flight {

inline constexpr std::size_t kMaxConfigBytes = 1U << 20U;
inline constexpr std::size_t kMaxConfigDepth = 16;
inline constexpr std::size_t kMaxConfigMembers = 1024;  // of one object or array

// One file of a configuration. `rank`: a file with a greater rank overrides one with a smaller rank. `shipped`: from
// flightd or its vendor, not from an administrator.
struct Source {
  std::string file;
  int rank = 0;
  bool shipped = false;
};

struct Place {
  std::shared_ptr<const Source> source;
  int line = 0;  // starts at 1
};

struct Value {
  enum class Kind { null, boolean, number, text, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;
  bool is_whole = false;  // a number without fraction, exponent and sign:
  std::uint64_t whole = 0;
  std::string text;
  std::string key;  // its name, if it is a member of an object
  Place key_place;
  Place place;
  std::vector<Value> items;  // of an array, or the members of an object in their order

  [[nodiscard]] const Value* member(std::string_view name) const;
  [[nodiscard]] bool is_object() const { return kind == Kind::object; }
};

// "a text", "an object", …
[[nodiscard]] std::string_view to_string(Value::Kind kind);

// At most 64 bytes of `text` for a message, without control characters; UTF-8 characters are not split.
[[nodiscard]] std::string excerpt(std::string_view text);
// `path` of a member: "channels.stacks"; of an item: "events[0]".
[[nodiscard]] std::string path_of_member(const std::string& parent, std::string_view key);
[[nodiscard]] std::string path_of_item(const std::string& parent, std::size_t index);

// Parses the whole text; the root is an object. Duplicate keys are errors.
[[nodiscard]] ConfigResult<Value> parse_document(std::string_view text, const std::string& file, int rank = 0,
                                                 bool shipped = false);

// RFC 7396: members of `patch` replace those of `target`, objects are merged, null removes.
void merge_patch(Value& target, Value patch);

}  // namespace flight
