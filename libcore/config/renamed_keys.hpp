// SPDX-License-Identifier: Apache-2.0
// Keys of the configuration that have another name now. They are refused, and the error gives the new name. NEWS.md
// lists the same renames.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace flight {

struct RenamedKey {
  std::string_view path, key, since;  // `key`: the whole new path
};

inline constexpr std::array<RenamedKey, 1> kRenamedKeys{{{"snapshot.crew", "snapshot.workers", "0.2.0"}}};

// "renamed to 'snapshot.workers' in flightd 0.2.0"; empty if the key was not renamed.
[[nodiscard]] inline std::string renamed_text(std::string_view path) {
  for (const RenamedKey& renamed : kRenamedKeys)
    if (renamed.path == path) return fmt::format("renamed to '{}' in flightd {}", renamed.key, renamed.since);
  return {};
}

}  // namespace flight
