// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/value.hpp"

#include <algorithm>

namespace flight::json {

Object::Object(std::initializer_list<Entry> entries) {
  members_.reserve(entries.size());
  for (const Entry& entry : entries) members_.push_back({std::string(entry.key), std::move(entry.value)});
}

const Value* Object::find(std::string_view key) const {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [&](const Member& member) { return member.key == key; });
  return found == members_.end() ? nullptr : &found->value;
}

std::optional<bool> Value::flag() const {
  const bool* flag = std::get_if<bool>(&value_);
  return flag == nullptr ? std::nullopt : std::optional(*flag);
}

std::optional<double> Value::number() const {
  if (const auto* real = std::get_if<double>(&value_)) return *real;
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::string Value::text_or_empty() const {
  const std::string* held = text();
  return held == nullptr ? std::string() : *held;
}

const Array& Value::items() const {
  static const Array& kNone = *new Array;  // never destroyed, as below
  const Array* held = std::get_if<Array>(&value_);
  return held == nullptr ? kNone : *held;
}

const std::vector<Member>& Value::members() const {
  static const auto& kNone = *new std::vector<Member>;  // never destroyed, as below
  const Object* held = std::get_if<Object>(&value_);
  return held == nullptr ? kNone : held->members();
}

const Value* Value::find(std::string_view key) const {
  const Object* held = std::get_if<Object>(&value_);
  return held == nullptr ? nullptr : held->find(key);
}

const Value& Value::at(std::string_view key) const {
  // Never destroyed: while exit(3) runs, a detached thread may still read a reply.
  static const Value& kNull = *new Value;
  const Value* found = find(key);
  return found == nullptr ? kNull : *found;
}

}  // namespace flight::json
