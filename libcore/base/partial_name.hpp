// SPDX-License-Identifier: Apache-2.0
// The name of an empty file that flightd-broker has made and flightd has not renamed: ".flightd-RANDOM.partial", with
// 16 hex digits. Each is used only once.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flight {

inline constexpr std::string_view kPartialPrefix = ".flightd-", kPartialEnd = ".partial";

[[nodiscard]] inline std::string partial_name(std::uint64_t random) {
  return fmt::format("{}{:016x}{}", kPartialPrefix, random, kPartialEnd);
}

[[nodiscard]] inline bool is_partial_name(std::string_view file) {
  constexpr std::size_t kDigits = 16;
  if (file.size() != kPartialPrefix.size() + kDigits + kPartialEnd.size()) return false;
  if (!file.starts_with(kPartialPrefix) || !file.ends_with(kPartialEnd)) return false;
  return file.substr(kPartialPrefix.size(), kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace flight
