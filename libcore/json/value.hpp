// SPDX-License-Identifier: Apache-2.0
// A JSON value: the result of parsing (parse.hpp), or a value to be written. It can be moved, not copied. Its own
// accessors are lenient: a value of another type counts as missing. To refuse wrong input, use reader.hpp.
//
//   dump(Object{{"id", row.id}, {"cpus", row.cpus}, {"window", Object{{"seconds", 2.5}}}})
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace flight::json {

class Value;
struct Member;
struct Entry;
using Array = std::vector<Value>;

// Members in their original order. A parsed object has each key once.
class Object {
 public:
  Object();
  Object(std::initializer_list<Entry> entries);
  explicit Object(std::vector<Member> members);
  Object(Object&&) noexcept;
  Object& operator=(Object&&) noexcept;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object();

  // Appends a member. The caller ensures that `key` is new.
  template <typename T>
  void add(std::string_view key, T&& value);

  [[nodiscard]] const Value* find(std::string_view key) const;  // nullptr: no such member
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member> members_;
};

class Value {
 public:
  Value() = default;  // null
  template <std::same_as<bool> T>
  explicit Value(T flag) : value_(flag) {}
  template <std::signed_integral T>
  explicit Value(T number) : value_(std::int64_t{number}) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) explicit Value(T number) : value_(std::uint64_t{number}) {}
  explicit Value(double number) : value_(number) {}  // written as null if it is not finite
  explicit Value(std::string text) : value_(std::move(text)) {}
  explicit Value(std::string_view text) : value_(std::string(text)) {}
  explicit Value(const char* text) : value_(std::string(text)) {}
  explicit Value(Array items) : value_(std::move(items)) {}
  explicit Value(Object object) : value_(std::move(object)) {}
  // null if there is none
  template <typename T>
  explicit Value(const std::optional<T>& value) : Value(value ? Value(*value) : Value()) {}
  template <typename T>
  requires(!std::same_as<T, Value>) explicit Value(const std::vector<T>& items);

  Value(Value&&) noexcept = default;
  Value& operator=(Value&&) noexcept = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value() = default;

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(value_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(value_); }

  [[nodiscard]] std::optional<bool> flag() const;
  [[nodiscard]] std::optional<double> number() const;
  // A number without fraction and exponent that T can hold.
  template <std::integral T>
  [[nodiscard]] std::optional<T> whole() const;
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&value_); }  // nullptr: none
  [[nodiscard]] std::string text_or_empty() const;
  [[nodiscard]] std::uint64_t count_or_zero() const { return whole<std::uint64_t>().value_or(0); }
  [[nodiscard]] const Array& items() const;                     // empty if it is not an array
  [[nodiscard]] const std::vector<Member>& members() const;     // empty if it is not an object
  [[nodiscard]] const Value* find(std::string_view key) const;  // nullptr: no such member, or not an object
  [[nodiscard]] const Value& at(std::string_view key) const;    // null: no such member, or not an object

  // Calls `visitor` with the value, which has one of the types of Held.
  using Held = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;
  template <typename Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return std::visit(std::forward<Visitor>(visitor), value_);
  }

 private:
  Held value_;
};

struct Member {
  std::string key;
  Value value;
};

// An element of an Object in braces. The elements of an initializer_list are const, so the value is mutable and is
// moved out.
struct Entry {
  template <typename T>
  Entry(std::string_view its_key, T&& its_value) : key(its_key), value(std::forward<T>(its_value)) {}
  std::string_view key;
  mutable Value value;
};

// Makes an array of `make(item)` for each item.
template <typename Items, typename Make>
[[nodiscard]] Array array_of(const Items& items, const Make& make) {
  Array array;
  array.reserve(items.size());
  for (const auto& item : items) array.emplace_back(make(item));
  return array;
}

// The same with a function. It may be overloaded: the one for T is called.
template <typename T>
[[nodiscard]] Array objects_of(const std::vector<T>& items, Object (*make)(const T&)) {
  return array_of(items, make);
}

// The text, on one line without `indent`. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string dump(const Value& value, int indent = -1);
[[nodiscard]] std::string dump(const Object& object, int indent = -1);
[[nodiscard]] std::string dump(const Array& items, int indent = -1);
[[nodiscard]] std::string dump_text(std::string_view text);

// After Member: a vector of an incomplete type can be declared, but not used.
inline Object::Object() = default;
inline Object::Object(std::vector<Member> members) : members_(std::move(members)) {}
inline Object::Object(Object&&) noexcept = default;
inline Object& Object::operator=(Object&&) noexcept = default;
inline Object::~Object() = default;

template <typename T>
void Object::add(std::string_view key, T&& value) {
  members_.push_back({std::string(key), Value(std::forward<T>(value))});
}

template <typename T>
requires(!std::same_as<T, Value>) Value::Value(const std::vector<T>& items)
    : value_(array_of(items, [](const T& item) { return Value(item); })) {}

template <std::integral T>
std::optional<T> Value::whole() const {
  if (const auto* number = std::get_if<std::uint64_t>(&value_))
    return std::in_range<T>(*number) ? std::optional<T>(static_cast<T>(*number)) : std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(&value_))
    return std::in_range<T>(*number) ? std::optional<T>(static_cast<T>(*number)) : std::nullopt;
  return std::nullopt;
}

}  // namespace flight::json
