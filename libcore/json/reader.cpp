// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/reader.hpp"

#include <fmt/format.h>

#include <cmath>

namespace flight::json {

Reader::Reader(const Value& value, Place place, Missing missing, std::optional<Error>& error)
    : value_(value), place_(place), missing_(missing), error_(&error) {
  if (!value.is_object()) refuse("", "an object");
}

const Value* Reader::find(const char* key) const {
  if (!ok()) return nullptr;
  const Value* found = value_.find(key);
  if (found == nullptr && missing_ == Missing::is_an_error) refuse(fmt::format("'{}' is missing", key));
  return found;
}

const Array* Reader::array(const char* key, std::size_t most) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->is_array() && value->items().size() <= most) return &value->items();
  refuse(key, most == kNoMaximum ? std::string("a list") : fmt::format("a list of at most {}", most));
  return nullptr;
}

std::string Reader::path() const {
  std::string path = place_.parent == nullptr ? std::string() : place_.parent->path();
  if (!path.empty() && *place_.key != '\0') path += '.';
  path += place_.key;
  if (place_.index) path += fmt::format("[{}]", *place_.index);
  return path;
}

void Reader::refuse(const char* key, std::string_view right) const {
  if (!ok()) return;
  std::string where = path();
  if (!where.empty() && *key != '\0') where += '.';
  where += key;
  *error_ = fail(std::errc::bad_message, "{} must be {}", where.empty() ? "it" : where, right).value();
}

void Reader::refuse(std::string_view why) const {
  if (!ok()) return;
  const std::string where = path();
  *error_ = fail(std::errc::bad_message, "{}{}{}", where, where.empty() ? "" : ": ", why).value();
}

void Reader::refuse_whole(const char* key, std::int64_t least, std::uint64_t most) const {
  refuse(key, fmt::format("a whole number from {} to {}", least, most));
}

void Reader::refuse_word(const char* key, const std::vector<std::string_view>& known) const {
  refuse(key, fmt::format("one of the words {}", fmt::join(known, ", ")));
}

void Reader::read(const char* key, bool& out) const {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (const auto flag = value->flag())
    out = *flag;
  else
    refuse(key, "true or false");
}

void Reader::read(const char* key, double& out) const {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (const auto number = value->number())
    out = *number;
  else
    refuse(key, "a number");
}

void Reader::read(const char* key, std::string& out) const {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (const std::string* text = value->text())
    out = *text;
  else
    refuse(key, "a text");
}

void Reader::read(const char* key, std::optional<bool>& out) const {
  const Value* value = find(key);
  if (value != nullptr && !value->is_null()) read(key, out.emplace());
}

void Reader::read(const char* key, std::optional<double>& out) const {
  const Value* value = find(key);
  if (value != nullptr && !value->is_null()) read(key, out.emplace());
}

void Reader::read(const char* key, std::optional<std::string>& out) const {
  const Value* value = find(key);
  if (value != nullptr && !value->is_null()) read(key, out.emplace());
}

void Reader::need(const char* key, std::string& out) const {
  read(key, out);
  if (out.empty()) refuse(key, "a text that is not missing or empty");
}

void Reader::values(const char* key, std::vector<std::string>& out, std::size_t most) const {
  const Array* items = array(key, most);
  if (items == nullptr) return;
  for (const Value& item : *items) {
    if (item.text() == nullptr) return refuse(key, "a list of texts");
    out.push_back(*item.text());
  }
}

void Reader::texts(const char* key, std::map<std::string, std::string>& out, std::size_t most) const {
  const Value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_object() || value->members().size() > most)
    return refuse(key, fmt::format("an object of at most {} members", most));
  for (const Member& member : value->members()) {
    if (member.value.text() == nullptr) return refuse(key, "an object whose members are texts");
    out.emplace(member.key, *member.value.text());
  }
}

void Reader::all_numbers(std::vector<std::pair<std::string, std::vector<double>>>& out) const {
  for (const auto& [key, value] : value_.members()) {
    if (!value.is_array()) return refuse(key.c_str(), "a list of numbers");
    std::vector<double>& numbers = out.emplace_back(key, std::vector<double>()).second;
    for (const Value& item : value.items()) {
      const auto number = item.number();
      if (!number && !item.is_null()) return refuse(key.c_str(), "a list of numbers");
      numbers.push_back(number.value_or(std::nan("")));
    }
  }
}

void Reader::object(const char* key, const std::function<void(const Reader&)>& read_object) const {
  const Value* value = find(key);
  if (value == nullptr || (value->is_null() && missing_ == Missing::keeps_default)) return;
  read_object(Reader(*value, {this, key, std::nullopt}, missing_, *error_));
}

Result<void> read_object(const Value& value, Missing missing, const std::function<void(const Reader&)>& read) {
  std::optional<Error> error;
  read(Reader(value, {}, missing, error));
  if (error) return propagate(std::move(*error));
  return {};
}

Result<void> read_list(const Value& value, Missing missing, const std::function<void(const Reader&)>& read_item) {
  if (!value.is_array()) return fail(std::errc::bad_message, "it must be an array [ … ]");
  std::optional<Error> error;
  for (std::size_t i = 0; i < value.items().size() && !error; ++i)
    read_item(Reader(value.items()[i], {nullptr, "", i}, missing, error));
  if (error) return propagate(std::move(*error));
  return {};
}

}  // namespace flight::json
