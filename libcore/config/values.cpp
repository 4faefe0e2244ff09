// SPDX-License-Identifier: Apache-2.0
// The values in force, and the file and line of each.
#include <algorithm>
#include <array>

#include "libcore/config/check.hpp"

namespace flight {
namespace {

constexpr const char* kNowhere = "built-in";

std::string text_of(const Value& value) {
  switch (value.kind) {
    case Value::Kind::text:
      return value.text;
    case Value::Kind::number:
      return value.is_whole ? fmt::format("{}", value.whole) : fmt::format("{}", value.number);
    case Value::Kind::boolean:
      return value.boolean ? "true" : "false";
    case Value::Kind::array:
      return "[]";
    case Value::Kind::object:
      return "{}";
    case Value::Kind::null:
      break;
  }
  return "null";
}

void add_leaves(const Value& value, const std::string& path, std::vector<ConfigValue>& out) {
  if (value.items.empty()) {
    if (path.empty()) return;
    out.push_back({path, text_of(value), value.place.source ? value.place.source->file : kNowhere, value.place.line});
    return;
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const Value& item = value.items[i];
    add_leaves(item, value.is_object() ? path_of_member(path, item.key) : path_of_item(path, i), out);
  }
}

const Value* find(const Value& root, std::string_view section, std::string_view key) {
  const Value* found = root.member(section);
  return found == nullptr || key.empty() ? found : found->member(key);
}

// The defaults, in the notation of the configuration; they are the structs' own defaults (libcore/config/config.hpp).
struct Default {
  std::string_view section, key, value;
};
constexpr std::array<Default, 24> kDefaults{{
    {"profile", "", "default"},
    {"user", "", "flightd"},
    {"memory", "max", "2%"},
    {"memory", "sideband", "512K to 4M, by memory.max"},
    {"snapshot", "capture", "pause"},
    {"snapshot", "workers", "cpu"},
    {"snapshot", "compression", "zstd"},
    {"snapshot", "compression_level", "1"},
    {"snapshot", "layout", "file"},
    {"snapshot", "on_stop", "false"},
    {"record", "workers", "cpu"},
    {"record", "max_size", "2G"},
    {"record", "switch_size", "64M"},
    {"record", "layout", "file"},
    {"store", "max_use", "10%, at most 4G"},
    {"store", "keep_free", "15%, at most 4G"},
    {"store", "max_files", "200"},
    {"store", "max_age", "30d"},
    {"store", "max_snapshot", "no limit"},
    {"store", "keep_first", "2"},
    {"store", "keep_last", "2"},
    {"storm_guard", "burst", "6"},
    {"storm_guard", "per_hour", "12"},
    {"triggers", "", "none"},
}};

}  // namespace

std::vector<ConfigValue> list_values(const Value& root, const Config& config) {
  std::vector<ConfigValue> out;
  add_leaves(root, "", out);
  for (const ChannelConfig& channel : config.channels) {
    const Value* written = find(root, "channels", channel.name);
    if (written != nullptr && written->member("ring") == nullptr)
      out.push_back({path_of_member("channels", channel.name) + ".ring",
                     fmt::format("{}M", ChannelConfig{}.ring_bytes >> 20U), kNowhere, 0});
  }
  for (const Default& value : kDefaults)
    if (find(root, value.section, value.key) == nullptr)
      out.push_back({value.key.empty() ? std::string(value.section) : fmt::format("{}.{}", value.section, value.key),
                     std::string(value.value), kNowhere, 0});
  // Sections stay together, in the order of their first value; inside, values are in the order in which they were
  // written.
  std::stable_sort(out.begin(), out.end(), [](const ConfigValue& a, const ConfigValue& b) {
    constexpr std::array<std::string_view, 9> kOrder{"profile", "user",  "memory",      "channels", "snapshot",
                                                     "record",  "store", "storm_guard", "triggers"};
    const auto rank = [&](const ConfigValue& value) {
      return std::find(kOrder.begin(), kOrder.end(), value.path.substr(0, value.path.find('.'))) - kOrder.begin();
    };
    return rank(a) < rank(b);
  });
  return out;
}

}  // namespace flight
