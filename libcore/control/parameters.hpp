// SPDX-License-Identifier: Apache-2.0
// A call's parameters, read key by key: each must be known and have its type. Otherwise the call is refused with a
// sentence that names the correct form.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/control/messages.hpp"
#include "libcore/json/value.hpp"

namespace flight {

class Parameters {
 public:
  // Every key must be one of `known`.
  [[nodiscard]] static CallResult<Parameters> parse(std::string_view text,
                                                    std::initializer_list<std::string_view> known);

  // nullopt: it is missing or null.
  [[nodiscard]] CallResult<std::optional<std::string>> text(const char* key) const;
  [[nodiscard]] CallResult<std::optional<bool>> flag(const char* key) const;
  // Microseconds, a whole number of at most `max_usec`.
  [[nodiscard]] CallResult<std::optional<std::uint64_t>> usec(const char* key, std::uint64_t max_usec) const;
  // Nanoseconds, a whole number of at most `most_ns`.
  [[nodiscard]] CallResult<std::optional<std::uint64_t>> nanoseconds(const char* key, std::uint64_t most_ns) const;
  // A number of bytes from `least` to `most`. Messages have them as people type sizes: "from 1M to 1G".
  [[nodiscard]] CallResult<std::optional<std::uint64_t>> bytes(const char* key, std::uint64_t least,
                                                               std::uint64_t most) const;
  // A list of at most `most` texts; empty if it is missing.
  [[nodiscard]] CallResult<std::vector<std::string>> texts(const char* key, std::size_t most) const;
  // One line of text, of at most kMaxReasonBytes, without control characters; empty if it is missing.
  [[nodiscard]] CallResult<std::string> reason(const char* key) const;

 private:
  explicit Parameters(json::Value object) : object_(std::move(object)) {}
  json::Value object_;
};

}  // namespace flight
