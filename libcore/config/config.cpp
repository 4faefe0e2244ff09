// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/config.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace flight {

std::string_view to_string(CaptureMode mode) { return mode == CaptureMode::live ? "live" : "pause"; }

bool same_trigger(TriggerConfig one, const TriggerConfig& other) {
  one.shipped = other.shipped;
  one.place = other.place;
  return one == other;
}

std::string written_at(const Config& config, std::string_view path) {
  for (const ConfigValue& value : config.values) {
    const std::string_view rest = std::string_view(value.path).substr(std::min(path.size(), value.path.size()));
    const bool below = rest.empty() || rest[0] == '.' || rest[0] == '[';
    if (value.line > 0 && below && value.path.starts_with(path)) return fmt::format("{}:{}: ", value.file, value.line);
  }
  return {};
}

}  // namespace flight
