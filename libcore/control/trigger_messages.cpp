// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/trigger_messages.hpp"

#include "libcore/control/parameters.hpp"
#include "libcore/json/parse.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxRows = 1024;

CallResult<std::string> read_name(const Parameters& parameters) {
  auto name = parameters.text("name");
  if (!name) return tl::unexpected(name.error());
  if (!*name || (*name)->empty())
    return tl::unexpected(invalid_parameter("name", "'name' is missing: give the name of a trigger of ListTriggers"));
  return std::move(**name);
}

// Lenient, like the status: missing members keep their defaults.
ListedTrigger row_of(const json::Value& value) {
  const auto optional_text = [&](const char* key) {
    const std::string* text = value.at(key).text();
    return text == nullptr ? std::nullopt : std::optional(*text);
  };
  ListedTrigger row;
  row.name = value.at("name").text_or_empty();
  row.kind = value.at("kind").text_or_empty();
  row.condition = value.at("condition").text_or_empty();
  row.enabled = value.at("enabled").flag().value_or(row.enabled);
  row.state = value.at("state").text_or_empty();
  row.note = value.at("note").text_or_empty();
  row.value = value.at("value").number();
  row.last_fired = optional_text("last_fired");
  row.last_snapshot = optional_text("last_snapshot");
  row.fired = value.at("fired").whole<std::uint64_t>().value_or(row.fired);
  row.suppressed = value.at("suppressed").whole<std::uint64_t>().value_or(row.suppressed);
  row.last_recording = optional_text("last_recording");
  row.recordings = value.at("recordings").count_or_zero();
  row.recordings_failed = value.at("recordings_failed").count_or_zero();
  return row;
}

}  // namespace

std::string to_json(const std::vector<ListedTrigger>& rows) {
  return json::dump(json::array_of(rows, [](const ListedTrigger& row) {
    return json::Object{{"name", row.name},
                        {"kind", row.kind},
                        {"condition", row.condition},
                        {"enabled", row.enabled},
                        {"state", row.state},
                        {"note", row.note},
                        {"value", row.value},
                        {"last_fired", row.last_fired},
                        {"last_snapshot", row.last_snapshot},
                        {"fired", row.fired},
                        {"suppressed", row.suppressed},
                        {"last_recording", row.last_recording},
                        {"recordings", row.recordings},
                        {"recordings_failed", row.recordings_failed}};
  }));
}

Result<std::vector<ListedTrigger>> parse_listed_triggers(std::string_view text) {
  const json::Value list = json::parse_or_null(text);
  if (!list.is_array() || list.items().size() > kMaxRows)
    return fail(std::errc::bad_message, "the daemon's triggers are not a list of at most {}", kMaxRows);
  std::vector<ListedTrigger> out;
  for (const json::Value& item : list.items()) {
    if (!item.is_object())
      return fail(std::errc::bad_message, "the daemon's list of triggers has an item that is not an object");
    out.push_back(row_of(item));
  }
  return out;
}

CallResult<FireParameters> parse_fire_parameters(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"name", "reason", "test"});
  if (!given) return tl::unexpected(given.error());
  auto name = read_name(*given);
  if (!name) return tl::unexpected(name.error());
  auto reason = given->reason("reason");
  if (!reason) return tl::unexpected(reason.error());
  const auto test = given->flag("test");
  if (!test) return tl::unexpected(test.error());
  return FireParameters{.name = std::move(*name), .reason = std::move(*reason), .test = test->value_or(false)};
}

std::string to_json(const FireParameters& parameters) {
  json::Object object{{"name", parameters.name}};
  if (!parameters.reason.empty()) object.add("reason", parameters.reason);
  if (parameters.test) object.add("test", true);
  return json::dump(object);
}

CallResult<SetTriggerParameters> parse_set_trigger_parameters(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"name", "enabled"});
  if (!given) return tl::unexpected(given.error());
  auto name = read_name(*given);
  if (!name) return tl::unexpected(name.error());
  const auto enabled = given->flag("enabled");
  if (!enabled) return tl::unexpected(enabled.error());
  if (!*enabled) return tl::unexpected(invalid_parameter("enabled", "'enabled' is missing: give true or false"));
  return SetTriggerParameters{.name = std::move(*name), .enabled = **enabled};
}

std::string to_json(const SetTriggerParameters& parameters) {
  return json::dump(json::Object{{"name", parameters.name}, {"enabled", parameters.enabled}});
}

std::string triggers_reply(std::string_view array) { return fmt::format(R"({{"triggers":{}}})", array); }
std::string fired_reply(std::string_view id) { return json::dump(json::Object{{"id", id}}); }

CallError no_such_trigger(std::string_view name, std::string_view message) {
  return recorder_error("NoSuchTrigger", {{"name", name}, {"message", message}});
}

CallError trigger_disabled(std::string_view name, std::string_view message) {
  return recorder_error("TriggerDisabled", {{"name", name}, {"message", message}});
}

CallError suppressed(std::string_view name, std::string_view until, std::string_view message) {
  return recorder_error("Suppressed", {{"name", name}, {"until", until}, {"message", message}});
}

}  // namespace flight
