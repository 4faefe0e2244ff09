// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace flight {

std::string_view to_string(CaptureMode mode) { return mode == CaptureMode::live ? "live" : "pause"; }

bool same_trigger(TriggerConfig one, const TriggerConfig& other) {
  one.shipped = other.shipped;
  one.place = other.place;
  return one == other;
}

std::vector<ConfigChange> config_changes(const std::vector<ConfigValue>& before, const std::vector<ConfigValue>& now) {
  std::unordered_map<std::string_view, const ConfigValue*> old;
  for (const ConfigValue& value : before) old.emplace(value.path, &value);
  // "triggers" has a value only as long as no trigger is configured.
  const auto is_section = [](const ConfigValue& value, const std::vector<ConfigValue>& others) {
    return value.line == 0 && std::any_of(others.begin(), others.end(), [&](const ConfigValue& other) {
             return other.path.starts_with(value.path) && other.path[value.path.size()] == '.';
           });
  };
  std::vector<ConfigChange> out;
  for (const ConfigValue& value : now) {
    const auto found = old.find(value.path);
    const ConfigValue* was = found == old.end() ? nullptr : found->second;
    if (was != nullptr) old.erase(found);
    if (was != nullptr ? was->value == value.value : is_section(value, before)) continue;
    out.push_back({.path = value.path,
                   .before = was != nullptr ? std::optional(was->value) : std::nullopt,
                   .now = value.value,
                   .file = value.file,
                   .line = value.line});
  }
  for (const ConfigValue& value : before)
    if (old.contains(value.path) && !is_section(value, now))
      out.push_back(
          {.path = value.path, .before = value.value, .now = std::nullopt, .file = value.file, .line = value.line});
  return out;
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
