// SPDX-License-Identifier: Apache-2.0
// The names of the kernel's generic events, and what to suggest instead of a wrong name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flight {

// PERF_TYPE_HARDWARE and PERF_TYPE_SOFTWARE events, which need no lookup.
struct GenericEvent {
  std::string_view name;
  std::uint32_t type;
  std::uint64_t config;
};
[[nodiscard]] std::optional<GenericEvent> generic_event(std::string_view name);
[[nodiscard]] std::vector<std::string> generic_event_names();

// Whether it is a component of a path that stays in its directory, and is not hidden: tracefs and sysfs have a
// directory for each event.
[[nodiscard]] bool is_plain_name(std::string_view name);

// "; the nearest are 'a', 'b'", or empty: the end of a sentence about an unknown name.
[[nodiscard]] std::string did_you_mean(const std::vector<std::string>& names);

}  // namespace flight
