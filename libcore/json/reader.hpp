// SPDX-License-Identifier: Apache-2.0
// Reads the members of an object into fields, strictly: a value of a wrong type, or out of its range, is an error that
// names its position ("rings[3].cpu"). The first error is kept, and the rest is read without effect. Unknown members
// are ignored.
//
//   Result<void> read = json::read_object(value, Missing::keeps_default, [&](const json::Reader& in) {
//     in.need("id", out.id);
//     in.read("samples", out.samples);
//     in.list("rings", out.rings, read_ring);
//   });
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/json/value.hpp"

namespace flight::json {

// Whether a member may be missing. It applies to the object that is read and to all objects inside it.
enum class Missing { keeps_default, is_an_error };

inline constexpr std::size_t kNoMaximum = std::numeric_limits<std::size_t>::max();

class Reader {
 public:
  void read(const char* key, bool& out) const;
  void read(const char* key, double& out) const;
  void read(const char* key, std::string& out) const;
  // null: the field does not change.
  void read(const char* key, std::optional<bool>& out) const;
  void read(const char* key, std::optional<double>& out) const;
  void read(const char* key, std::optional<std::string>& out) const;
  // A whole number that T can hold.
  template <std::integral T>
  void read(const char* key, T& out) const;
  // A whole number from 0 to `most`, which T can hold.
  template <std::integral T>
  void count(const char* key, T& out, std::uint64_t most) const;
  // Whether the member is there: for one that may be missing where others may not.
  [[nodiscard]] bool has(const char* key) const { return value_.find(key) != nullptr; }
  // A required text that is not empty.
  void need(const char* key, std::string& out) const;
  // One of the words to_string(E) of `known`.
  template <typename E>
  void word(const char* key, std::initializer_list<E> known, E& out) const;

  // Lists and objects whose values are all of one type; of at most `most` values.
  void values(const char* key, std::vector<std::string>& out, std::size_t most = kNoMaximum) const;
  template <std::integral T>
  void values(const char* key, std::vector<T>& out, std::size_t most = kNoMaximum) const;
  void texts(const char* key, std::map<std::string, std::string>& out, std::size_t most = kNoMaximum) const;
  // Every member of this object is a list of numbers; null in it is NaN.
  void all_numbers(std::vector<std::pair<std::string, std::vector<double>>>& out) const;

  // A member that is an object. If missing members keep their defaults, null also changes nothing.
  void object(const char* key, const std::function<void(const Reader&)>& read_object) const;
  // A list of at most `most` objects, each read by `read_item(const Reader&, T&)`.
  template <typename T, typename Read>
  void list(const char* key, std::vector<T>& out, const Read& read_item, std::size_t most = kNoMaximum) const;

  // For the caller's own checks: "PATH.KEY must be RIGHT", and "PATH: WHY".
  void refuse(const char* key, std::string_view right) const;
  void refuse(std::string_view why) const;
  [[nodiscard]] bool ok() const { return !*error_; }

 private:
  friend Result<void> read_object(const Value&, Missing, const std::function<void(const Reader&)>&);
  friend Result<void> read_list(const Value&, Missing, const std::function<void(const Reader&)>&);
  struct Place {  // `key` and `index` in `parent`
    const Reader* parent = nullptr;
    const char* key = "";
    std::optional<std::size_t> index;
  };
  Reader(const Value& value, Place place, Missing missing, std::optional<Error>& error);
  [[nodiscard]] const Value* find(const char* key) const;
  // The array of the member `key`, with at most `most` elements. nullptr: there is none; if it is required, that has
  // been reported.
  [[nodiscard]] const Array* array(const char* key, std::size_t most) const;
  [[nodiscard]] std::string path() const;
  void refuse_whole(const char* key, std::int64_t least, std::uint64_t most) const;
  void refuse_word(const char* key, const std::vector<std::string_view>& known) const;

  const Value& value_;
  Place place_;
  Missing missing_;
  std::optional<Error>* error_;
};

// `value` must be an object, or an array of objects. EBADMSG: the first error.
[[nodiscard]] Result<void> read_object(const Value& value, Missing missing,
                                       const std::function<void(const Reader&)>& read);
[[nodiscard]] Result<void> read_list(const Value& value, Missing missing,
                                     const std::function<void(const Reader&)>& read_item);

template <std::integral T>
void Reader::read(const char* key, T& out) const {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (const auto number = value->whole<T>())
    out = *number;
  else
    refuse_whole(key, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

template <std::integral T>
void Reader::count(const char* key, T& out, std::uint64_t most) const {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (const auto number = value->whole<std::uint64_t>(); number && *number <= most)
    out = static_cast<T>(*number);
  else
    refuse_whole(key, 0, most);
}

template <typename E>
void Reader::word(const char* key, std::initializer_list<E> known, E& out) const {
  const Value* value = find(key);
  if (value == nullptr) return;
  std::vector<std::string_view> words;
  for (const E one : known) {
    words.push_back(to_string(one));
    if (value->text() == nullptr || *value->text() != words.back()) continue;
    out = one;
    return;
  }
  refuse_word(key, words);
}

template <std::integral T>
void Reader::values(const char* key, std::vector<T>& out, std::size_t most) const {
  const Array* items = array(key, most);
  if (items == nullptr) return;
  for (const Value& item : *items) {
    const auto number = item.whole<T>();
    if (!number) return refuse(key, "a list of whole numbers");
    out.push_back(*number);
  }
}

template <typename T, typename Read>
void Reader::list(const char* key, std::vector<T>& out, const Read& read_item, std::size_t most) const {
  const Array* items = array(key, most);
  if (items == nullptr) return;
  for (std::size_t i = 0; i < items->size() && ok(); ++i)
    read_item(Reader((*items)[i], {this, key, i}, missing_, *error_), out.emplace_back());
}

}  // namespace flight::json
