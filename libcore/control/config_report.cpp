// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/config_report.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "libcore/control/json_depth.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const Json& at(const Json& json, const char* key) {
  static const Json kNothing;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : kNothing;
}

std::string text_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::uint64_t count_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

Result<Json> parse_object(std::string_view text, std::string_view what) {
  Json json = nests_too_deep(text) ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return fail(std::errc::bad_message, "{} is no JSON object", what);
  return json;
}

}  // namespace

std::string to_json(const ConfigReport& report) {
  Json values = Json::array();
  for (const ReportedValue& value : report.values)
    values.push_back({{"path", value.path}, {"value", value.value}, {"file", value.file}, {"line", value.line}});
  const ConfigMemory& memory = report.memory;
  return dump({{"config", std::move(values)},
               {"memory",
                {{"ring_bytes", memory.ring_bytes},
                 {"staging_bytes", memory.staging_bytes},
                 {"sideband_bytes", memory.sideband_bytes},
                 {"trigger_bytes", memory.trigger_bytes},
                 {"sum_bytes", memory.sum_bytes},
                 {"max_bytes", memory.max_bytes},
                 {"ram_bytes", memory.ram_bytes}}},
               {"digest", report.digest}});
}

Result<ConfigReport> parse_config_report(std::string_view text) {
  const auto json = parse_object(text, "the configuration");
  if (!json) return pass(json.error());
  ConfigReport report;
  if (const Json& values = at(*json, "config"); values.is_array())
    for (const Json& value : values)
      report.values.push_back(
          {text_at(value, "path"), text_at(value, "value"), text_at(value, "file"),
           static_cast<int>(std::min<std::uint64_t>(count_at(value, "line"), std::numeric_limits<int>::max()))});
  const Json& memory = at(*json, "memory");
  report.memory = {.ring_bytes = count_at(memory, "ring_bytes"),
                   .staging_bytes = count_at(memory, "staging_bytes"),
                   .sideband_bytes = count_at(memory, "sideband_bytes"),
                   .trigger_bytes = count_at(memory, "trigger_bytes"),
                   .sum_bytes = count_at(memory, "sum_bytes"),
                   .max_bytes = count_at(memory, "max_bytes"),
                   .ram_bytes = count_at(memory, "ram_bytes")};
  report.digest = text_at(*json, "digest");
  return report;
}

std::string to_json(const ReloadReport& report) {
  return dump({{"digest", report.digest}, {"changed", report.changed}, {"warnings", report.warnings}});
}

Result<ReloadReport> parse_reload_report(std::string_view text) {
  const auto json = parse_object(text, "the reload's answer");
  if (!json) return pass(json.error());
  ReloadReport report{.digest = text_at(*json, "digest"), .changed = at(*json, "changed") == true, .warnings = {}};
  if (const Json& warnings = at(*json, "warnings"); warnings.is_array())
    for (const Json& warning : warnings)
      if (warning.is_string()) report.warnings.push_back(warning.get<std::string>());
  return report;
}

}  // namespace flight
