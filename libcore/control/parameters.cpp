// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/parameters.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "libcore/base/text.hpp"
#include "libcore/json/parse.hpp"

namespace flight {
namespace {

constexpr std::string_view kSizeSuffixes = "KMG";  // those of parse_bytes()

tl::unexpected<CallError> refuse_parameter(std::string_view parameter, std::string_view message) {
  return tl::unexpected(invalid_parameter(parameter, message));
}

// As people type it: "1M".
std::string size_word(std::uint64_t bytes) {
  constexpr std::uint64_t kStep = 1024;
  std::size_t step = 0;
  for (; step < kSizeSuffixes.size() && bytes >= kStep && bytes % kStep == 0; ++step) bytes /= kStep;
  return step == 0 ? std::to_string(bytes) : std::to_string(bytes) + kSizeSuffixes[step - 1];
}

}  // namespace

CallResult<Parameters> Parameters::parse(std::string_view text, std::initializer_list<std::string_view> known) {
  json::Value object = json::parse_or_null(text);
  if (!object.is_object()) return refuse_parameter("parameters", "the parameters must be a JSON object");
  for (const json::Member& member : object.members())
    if (std::find(known.begin(), known.end(), member.key) == known.end())
      return refuse_parameter(member.key, known.size() == 0 ? std::string("this method takes no parameters")
                                                            : fmt::format("there is no parameter '{}'; there are: {}",
                                                                          member.key, fmt::join(known, ", ")));
  return Parameters(std::move(object));
}

CallResult<std::optional<std::string>> Parameters::text(const char* key) const {
  const json::Value& value = object_.at(key);
  if (value.is_null()) return std::nullopt;
  if (value.text() == nullptr) return refuse_parameter(key, fmt::format("'{}' must be a string", key));
  return *value.text();
}

CallResult<std::optional<bool>> Parameters::flag(const char* key) const {
  const json::Value& value = object_.at(key);
  if (value.is_null()) return std::nullopt;
  const auto flag = value.flag();
  if (!flag) return refuse_parameter(key, fmt::format("'{}' must be true or false", key));
  return flag;
}

CallResult<std::optional<std::uint64_t>> Parameters::usec(const char* key, std::uint64_t max_usec) const {
  const json::Value& value = object_.at(key);
  if (value.is_null()) return std::nullopt;
  const auto usec = value.whole<std::uint64_t>();
  if (!usec)
    return refuse_parameter(key, fmt::format("'{}' must be a whole number of microseconds, not negative", key));
  if (*usec > max_usec)
    return refuse_parameter(key, fmt::format("'{}' may be at most {} s", key, max_usec / 1'000'000));
  return usec;
}

CallResult<std::optional<std::uint64_t>> Parameters::nanoseconds(const char* key, std::uint64_t most_ns) const {
  constexpr std::uint64_t kDayNs = 86'400ULL * 1'000'000'000;
  const json::Value& value = object_.at(key);
  if (value.is_null()) return std::nullopt;
  const auto number = value.whole<std::uint64_t>();
  if (!number)
    return refuse_parameter(key, fmt::format("'{}' must be a whole number of nanoseconds, not negative", key));
  if (*number > most_ns)
    return refuse_parameter(key, fmt::format("'{}' may be at most {} days", key, most_ns / kDayNs));
  return number;
}

CallResult<std::optional<std::uint64_t>> Parameters::bytes(const char* key, std::uint64_t least,
                                                           std::uint64_t most) const {
  const json::Value& value = object_.at(key);
  if (value.is_null()) return std::nullopt;
  const auto number = value.whole<std::uint64_t>();
  if (!number) return refuse_parameter(key, fmt::format("'{}' must be a whole number of bytes, not negative", key));
  if (*number < least || *number > most)
    return refuse_parameter(key, fmt::format("'{}' must be from {} to {}", key, size_word(least), size_word(most)));
  return number;
}

CallResult<std::vector<std::string>> Parameters::texts(const char* key, std::size_t most) const {
  const json::Value& value = object_.at(key);
  std::vector<std::string> out;
  if (value.is_null()) return out;
  bool good = value.is_array() && value.items().size() <= most;
  for (const json::Value& item : value.items()) {
    good = good && item.text() != nullptr;
    out.push_back(item.text_or_empty());
  }
  if (!good) return refuse_parameter(key, fmt::format("'{}' must be a list of at most {} strings", key, most));
  return out;
}

CallResult<std::string> Parameters::reason(const char* key) const {
  auto given = text(key);
  if (!given) return tl::unexpected(given.error());
  std::string out = given->value_or("");
  if (out.size() > kMaxReasonBytes)
    return refuse_parameter(key,
                            fmt::format("'{}' may have at most {} bytes, not {}", key, kMaxReasonBytes, out.size()));
  if (!is_printable(out))
    return refuse_parameter(
        key, fmt::format("'{}' has control characters or invisible characters (a newline, an "
                         "escape, a change of the text direction, a zero-width space); it must be one line of text",
                         key));
  return out;
}

}  // namespace flight
