// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/parameters.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcore/base/text.hpp"
#include "libcore/control/json_depth.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

tl::unexpected<CallError> refuse(std::string_view parameter, std::string_view message) {
  return tl::unexpected(invalid_parameter(parameter, message));
}

const Json* find(const void* object, const char* key) {
  const Json& json = *static_cast<const Json*>(object);
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

CallResult<Parameters> Parameters::parse(std::string_view text, std::initializer_list<std::string_view> known) {
  // To nlohmann's parser a NUL is the end of the text, to Varlink of the message.
  auto json = std::make_shared<Json>(Json::value_t::discarded);
  if (!nests_too_deep(text) && text.find('\0') == std::string_view::npos)
    *json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json->is_object()) return refuse("parameters", "the parameters must be a JSON object");
  for (const auto& entry : json->items())
    if (std::find(known.begin(), known.end(), entry.key()) == known.end())
      return refuse(entry.key(), known.size() == 0 ? std::string("this method takes no parameters")
                                                   : fmt::format("there is no parameter '{}'; there are: {}",
                                                                 entry.key(), fmt::join(known, ", ")));
  return Parameters(std::move(json));
}

CallResult<std::optional<std::string>> Parameters::text(const char* key) const {
  const Json* value = find(object_.get(), key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return refuse(key, fmt::format("'{}' must be a string", key));
  return value->get<std::string>();
}

CallResult<std::optional<bool>> Parameters::flag(const char* key) const {
  const Json* value = find(object_.get(), key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return refuse(key, fmt::format("'{}' must be true or false", key));
  return value->get<bool>();
}

CallResult<std::optional<std::uint64_t>> Parameters::usec(const char* key, std::uint64_t max_usec) const {
  const Json* value = find(object_.get(), key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned())
    return refuse(key, fmt::format("'{}' must be a whole number of microseconds, not negative", key));
  const auto usec = value->get<std::uint64_t>();
  if (usec > max_usec) return refuse(key, fmt::format("'{}' may be at most {} s", key, max_usec / 1'000'000));
  return usec;
}

CallResult<std::string> Parameters::reason(const char* key) const {
  auto given = text(key);
  if (!given) return tl::unexpected(given.error());
  std::string out = given->value_or("");
  if (out.size() > kMaxReasonBytes)
    return refuse(key, fmt::format("'{}' may have at most {} bytes, not {}", key, kMaxReasonBytes, out.size()));
  if (!is_printable(out))
    return refuse(key, fmt::format("'{}' has characters that steer a terminal or are not to be seen (a newline, an "
                                   "escape, a change of direction, a space of no width); it must be one line of text",
                                   key));
  return out;
}

}  // namespace flight
