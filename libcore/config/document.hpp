// SPDX-License-Identifier: Apache-2.0
// A JSON text with comments as a small tree in which every value still knows its file and line, so that what is
// found wrong later, after files were merged, is told where a person can mend it. Everything about it is bounded.
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

// One file of those a config was made of. `rank`: a greater one was laid over a smaller one. `shipped`: flightd's own
// or its vendor's, no admin's.
struct Source {
  std::string file;
  int rank = 0;
  bool shipped = false;
};

struct Place {
  std::shared_ptr<const Source> source;
  int line = 0;  // from 1
};

struct Value {
  enum class Kind { null, boolean, number, text, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;
  bool is_whole = false;  // a number without fraction, exponent and sign:
  std::uint64_t whole = 0;
  std::string text;
  std::string key;  // its name in the object it is a member of
  Place key_place;
  Place place;
  std::vector<Value> items;  // of an array, or the members of an object in their order

  [[nodiscard]] const Value* member(std::string_view name) const;
  [[nodiscard]] bool is_object() const { return kind == Kind::object; }
};

// "a text", "an object", …
[[nodiscard]] std::string_view to_string(Value::Kind kind);

// At most 64 bytes of `text` for a message, without control characters and whole UTF-8 characters only.
[[nodiscard]] std::string excerpt(std::string_view text);
// `path` of a member: "channels.stacks"; of an item: "events[0]".
[[nodiscard]] std::string path_of_member(const std::string& parent, std::string_view key);
[[nodiscard]] std::string path_of_item(const std::string& parent, std::size_t index);

// The whole text; the root is an object. Duplicate keys are errors.
[[nodiscard]] ConfigResult<Value> parse_document(std::string_view text, const std::string& file, int rank = 0,
                                                 bool shipped = false);

// RFC 7396: members of `patch` replace those of `target`, objects are merged, null removes.
void merge_patch(Value& target, Value patch);

}  // namespace flight
