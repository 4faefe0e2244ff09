// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/json_read.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

const Json& as_json(const void* value) { return *static_cast<const Json*>(value); }

const Json* find(const void* object, const char* key) {
  const Json& json = as_json(object);
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

// False: no whole number, or one that does not fit.
template <typename T>
bool whole(const Json& value, T& out) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::in_range<T>(number)) out = static_cast<T>(number);
    return std::in_range<T>(number);
  }
  if (!value.is_number_integer()) return false;
  const auto number = value.get<std::int64_t>();
  if (std::in_range<T>(number)) out = static_cast<T>(number);
  return std::in_range<T>(number);
}

bool take(const Json& value, std::string& out) {
  if (value.is_string()) out = value.get_ref<const std::string&>();
  return value.is_string();
}

template <typename T>
void read_whole(const Members& members, const void* object, const char* key, T& out) {
  const Json* value = find(object, key);
  if (value != nullptr && !whole(*value, out)) members.refuse(key, "a whole number in its range");
}

}  // namespace

Members::Members(const void* object, std::string path, std::optional<Error>& error)
    : path_(std::move(path)), object_(object), error_(&error) {
  if (!as_json(object).is_object()) refuse("", "an object");
}

void Members::refuse(const char* key, std::string_view right) const {
  if (!*error_) *error_ = fail(std::errc::bad_message, "{}{}: {} should stand here", path_, key, right).value();
}

void Members::read(const char* key, bool& out) const {
  const Json* value = find(object_, key);
  if (value == nullptr) return;
  if (value->is_boolean())
    out = value->get<bool>();
  else
    refuse(key, "true or false");
}

void Members::read(const char* key, double& out) const {
  const Json* value = find(object_, key);
  if (value == nullptr) return;
  if (value->is_number())
    out = value->get<double>();
  else
    refuse(key, "a number");
}

void Members::read(const char* key, std::optional<double>& out) const {
  const Json* value = find(object_, key);
  if (value == nullptr || value->is_null()) return;
  read(key, out.emplace());
}

void Members::read(const char* key, std::string& out) const {
  const Json* value = find(object_, key);
  if (value != nullptr && !take(*value, out)) refuse(key, "a text");
}

void Members::read(const char* key, std::uint64_t& out) const { read_whole(*this, object_, key, out); }
void Members::read(const char* key, std::uint32_t& out) const { read_whole(*this, object_, key, out); }
void Members::read(const char* key, std::int32_t& out) const { read_whole(*this, object_, key, out); }

void Members::values(const char* key, std::vector<std::string>& out) const {
  const Json* value = find(object_, key);
  if (value == nullptr) return;
  if (!value->is_array()) return refuse(key, "a list of texts");
  for (const Json& item : *value)
    if (!take(item, out.emplace_back())) return refuse(key, "a list of texts");
}

void Members::values(const char* key, std::vector<std::int32_t>& out) const {
  const Json* value = find(object_, key);
  if (value == nullptr) return;
  if (!value->is_array()) return refuse(key, "a list of whole numbers");
  for (const Json& item : *value)
    if (!whole(item, out.emplace_back())) return refuse(key, "a list of whole numbers");
}

void Members::all_numbers(std::vector<std::pair<std::string, std::vector<double>>>& out) const {
  const Json& object = as_json(object_);
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_array()) return refuse(key.c_str(), "a list of numbers");
    std::vector<double>& numbers = out.emplace_back(key, std::vector<double>()).second;
    for (const Json& item : value) {
      if (!item.is_number() && !item.is_null()) return refuse(key.c_str(), "a list of numbers");
      numbers.push_back(item.is_null() ? std::nan("") : item.get<double>());
    }
  }
}

void Members::need(const char* key, std::string& out) const {
  read(key, out);
  if (out.empty()) refuse(key, "a text that is not missing or empty");
}

void Members::object(const char* key, const std::function<void(const Members&)>& read_object) const {
  const Json* value = find(object_, key);
  if (value != nullptr && !value->is_null()) read_object(Members(value, fmt::format("{}{}.", path_, key), *error_));
}

void Members::each(const char* key, const std::function<void(const Members&)>& read_item) const {
  const Json* value = find(object_, key);
  if (value == nullptr) return;
  if (!value->is_array()) return refuse(key, "a list");
  for (std::size_t i = 0; i < value->size() && !*error_; ++i)
    read_item(Members(&(*value)[i], fmt::format("{}{}[{}].", path_, key, i), *error_));
}

Result<JsonText> JsonText::parse(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    return fail(std::errc::file_too_large, "{} bytes of JSON are more than the {} allowed", text.size(), max_bytes);
  bool too_deep = false;
  const auto within_depth = [&](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    return !too_deep;  // false: what follows is passed over without being kept
  };
  auto json = std::make_shared<const Json>(Json::parse(text, within_depth, /*allow_exceptions=*/false));
  if (too_deep) return fail(std::errc::bad_message, "JSON nested more than {} deep", kMaxJsonDepth);
  if (json->is_discarded()) return fail(std::errc::bad_message, "the text is no JSON, or was cut off");
  return JsonText(std::move(json));
}

std::optional<Error> JsonText::read_object(const std::function<void(const Members&)>& read) const {
  std::optional<Error> error;
  read(Members(root_.get(), "", error));
  return error;
}

std::optional<Error> JsonText::read_array(const std::function<void(const Members&)>& read_item) const {
  const Json& json = as_json(root_.get());
  if (!json.is_array()) return fail(std::errc::bad_message, "an array [ … ] should stand here").value();
  std::optional<Error> error;
  for (std::size_t i = 0; i < json.size() && !error; ++i) read_item(Members(&json[i], fmt::format("[{}].", i), error));
  return error;
}

}  // namespace flight
