// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/config_report.hpp"

#include <algorithm>
#include <limits>

#include "libcore/json/parse.hpp"

namespace flight {
namespace {

using json::Object;

Result<json::Value> parse_object(std::string_view text, std::string_view what) {
  json::Value value = json::parse_or_null(text);
  if (!value.is_object()) return fail(std::errc::bad_message, "{} is not a JSON object", what);
  return value;
}

json::Array list_of(const std::vector<ReportedValue>& values) {
  return json::array_of(values, [](const ReportedValue& value) {
    return Object{{"path", value.path}, {"value", value.value}, {"file", value.file}, {"line", value.line}};
  });
}

int line_of(const json::Value& value) {
  return static_cast<int>(std::min<std::uint64_t>(value.at("line").count_or_zero(), std::numeric_limits<int>::max()));
}

json::Array list_of(const std::vector<ReportedChange>& changes) {
  return json::array_of(changes, [](const ReportedChange& change) {
    Object out{{"path", change.path}};
    if (change.before) out.add("before", *change.before);
    if (change.now) out.add("now", *change.now);
    out.add("file", change.file);
    out.add("line", change.line);
    return out;
  });
}

std::optional<std::string> text_in(const json::Value& value) {
  return value.text() != nullptr ? std::optional(*value.text()) : std::nullopt;
}

}  // namespace

std::string to_json(const std::vector<ReportedValue>& values) { return json::dump(list_of(values)); }

std::string to_json(const ConfigReport& report) {
  const ConfigMemory& memory = report.memory;
  Object parts{{"ring_bytes", memory.ring_bytes},         {"staging_bytes", memory.staging_bytes},
               {"sideband_bytes", memory.sideband_bytes}, {"trigger_bytes", memory.trigger_bytes},
               {"program_bytes", memory.program_bytes},   {"sum_bytes", memory.sum_bytes},
               {"max_bytes", memory.max_bytes},           {"ram_bytes", memory.ram_bytes},
               {"tracker_bytes", memory.tracker_bytes}};
  if (memory.cgroup_max_bytes) parts.add("cgroup_max_bytes", *memory.cgroup_max_bytes);
  return json::dump(Object{{"config", list_of(report.values)},
                           {"memory", std::move(parts)},
                           {"digest", report.digest},
                           {"warnings", report.warnings}});
}

Result<ConfigReport> parse_config_report(std::string_view text) {
  const auto object = parse_object(text, "the configuration");
  if (!object) return propagate(object.error());
  ConfigReport report;
  for (const json::Value& value : object->at("config").items())
    report.values.push_back({value.at("path").text_or_empty(), value.at("value").text_or_empty(),
                             value.at("file").text_or_empty(), line_of(value)});
  const json::Value& memory = object->at("memory");
  report.memory = {.ring_bytes = memory.at("ring_bytes").count_or_zero(),
                   .staging_bytes = memory.at("staging_bytes").count_or_zero(),
                   .sideband_bytes = memory.at("sideband_bytes").count_or_zero(),
                   .trigger_bytes = memory.at("trigger_bytes").count_or_zero(),
                   .program_bytes = memory.at("program_bytes").count_or_zero(),
                   .sum_bytes = memory.at("sum_bytes").count_or_zero(),
                   .max_bytes = memory.at("max_bytes").count_or_zero(),
                   .ram_bytes = memory.at("ram_bytes").count_or_zero(),
                   .tracker_bytes = memory.at("tracker_bytes").count_or_zero(),
                   .cgroup_max_bytes = memory.at("cgroup_max_bytes").whole<std::uint64_t>()};
  report.digest = object->at("digest").text_or_empty();
  for (const json::Value& warning : object->at("warnings").items())
    if (warning.text() != nullptr) report.warnings.push_back(*warning.text());
  return report;
}

std::string to_json(const ReloadReport& report) {
  Object out{{"digest", report.digest}, {"changed", report.changed}};
  if (report.changes) out.add("changes", list_of(*report.changes));
  out.add("warnings", report.warnings);
  if (report.lost_history) out.add("lost_history", *report.lost_history);
  return json::dump(out);
}

Result<ReloadReport> parse_reload_report(std::string_view text) {
  const auto object = parse_object(text, "the reply to the reload");
  if (!object) return propagate(object.error());
  ReloadReport report{.digest = object->at("digest").text_or_empty(),
                      .changed = object->at("changed").flag().value_or(false),
                      .changes = std::nullopt,
                      .warnings = {}};
  if (const json::Value& changes = object->at("changes"); changes.is_array()) {
    report.changes.emplace();
    for (const json::Value& change : changes.items())
      report.changes->push_back({.path = change.at("path").text_or_empty(),
                                 .before = text_in(change.at("before")),
                                 .now = text_in(change.at("now")),
                                 .file = change.at("file").text_or_empty(),
                                 .line = line_of(change)});
  }
  for (const json::Value& warning : object->at("warnings").items())
    if (warning.text() != nullptr) report.warnings.push_back(*warning.text());
  if (const json::Value& lost = object->at("lost_history"); lost.is_array()) {
    report.lost_history.emplace();
    for (const json::Value& channel : lost.items())
      if (channel.text() != nullptr) report.lost_history->push_back(*channel.text());
  }
  return report;
}

}  // namespace flight
