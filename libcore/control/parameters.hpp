// SPDX-License-Identifier: Apache-2.0
// A call's parameters, read key by key: each must be known and of its type, or the call is refused with a sentence that
// says what would be right. The JSON library stays in the .cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/control/messages.hpp"

namespace flight {

class Parameters {
 public:
  // Every key must be one of `known`.
  [[nodiscard]] static CallResult<Parameters> parse(std::string_view text,
                                                    std::initializer_list<std::string_view> known);

  // nullopt: it is not there, or null.
  [[nodiscard]] CallResult<std::optional<std::string>> text(const char* key) const;
  [[nodiscard]] CallResult<std::optional<bool>> flag(const char* key) const;
  // Microseconds, a whole number of at most `max_usec`.
  [[nodiscard]] CallResult<std::optional<std::uint64_t>> usec(const char* key, std::uint64_t max_usec) const;
  // One line for people, of at most kMaxReasonBytes, without what steers a terminal; empty where it is not there.
  [[nodiscard]] CallResult<std::string> reason(const char* key) const;

 private:
  explicit Parameters(std::shared_ptr<const void> object) : object_(std::move(object)) {}
  std::shared_ptr<const void> object_;  // the library's value
};

}  // namespace flight
