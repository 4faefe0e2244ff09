// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/trigger_messages.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "libcore/control/json_depth.hpp"
#include "libcore/control/parameters.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxRows = 1024;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

CallError recorder_error(std::string_view name, const Json& members) {
  return {fmt::format("{}.{}", kInterface, name), dump(members)};
}

CallResult<std::string> read_name(const Parameters& parameters) {
  auto name = parameters.text("name");
  if (!name) return tl::unexpected(name.error());
  if (!*name || (*name)->empty())
    return tl::unexpected(invalid_parameter("name", "'name' is needed: a trigger's, as ListTriggers tells it"));
  return std::move(**name);
}

// Lenient, as the status is read: what is missing keeps its default.
ListedTrigger row_of(const Json& json) {
  ListedTrigger row;
  const auto text = [&](const char* key, std::string& out) {
    if (const auto found = json.find(key); found != json.end() && found->is_string()) out = found->get<std::string>();
  };
  const auto optional_text = [&](const char* key, std::optional<std::string>& out) {
    if (const auto found = json.find(key); found != json.end() && found->is_string()) out = found->get<std::string>();
  };
  const auto count = [&](const char* key, std::uint64_t& out) {
    if (const auto found = json.find(key); found != json.end() && found->is_number_unsigned())
      out = found->get<std::uint64_t>();
  };
  text("name", row.name);
  text("kind", row.kind);
  text("condition", row.condition);
  if (const auto found = json.find("enabled"); found != json.end() && found->is_boolean())
    row.enabled = found->get<bool>();
  text("state", row.state);
  text("note", row.note);
  if (const auto found = json.find("value"); found != json.end() && found->is_number())
    row.value = found->get<double>();
  optional_text("last_fired", row.last_fired);
  optional_text("last_snapshot", row.last_snapshot);
  count("fired", row.fired);
  count("suppressed", row.suppressed);
  return row;
}

}  // namespace

std::string to_json(const std::vector<ListedTrigger>& rows) {
  Json list = Json::array();
  for (const ListedTrigger& row : rows)
    list.push_back({{"name", row.name},
                    {"kind", row.kind},
                    {"condition", row.condition},
                    {"enabled", row.enabled},
                    {"state", row.state},
                    {"note", row.note},
                    {"value", row.value && std::isfinite(*row.value) ? Json(*row.value) : Json()},
                    {"last_fired", or_null(row.last_fired)},
                    {"last_snapshot", or_null(row.last_snapshot)},
                    {"fired", row.fired},
                    {"suppressed", row.suppressed}});
  return dump(list);
}

Result<std::vector<ListedTrigger>> parse_listed_triggers(std::string_view text) {
  const Json json = nests_too_deep(text) ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.size() > kMaxRows)
    return fail(std::errc::bad_message, "the daemon's triggers are no list of at most {}", kMaxRows);
  std::vector<ListedTrigger> out;
  for (const Json& item : json) {
    if (!item.is_object()) return fail(std::errc::bad_message, "the daemon's list of triggers has one that is none");
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
  Json json = {{"name", parameters.name}};
  if (!parameters.reason.empty()) json["reason"] = parameters.reason;
  if (parameters.test) json["test"] = true;
  return dump(json);
}

CallResult<SetTriggerParameters> parse_set_trigger_parameters(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"name", "enabled"});
  if (!given) return tl::unexpected(given.error());
  auto name = read_name(*given);
  if (!name) return tl::unexpected(name.error());
  const auto enabled = given->flag("enabled");
  if (!enabled) return tl::unexpected(enabled.error());
  if (!*enabled) return tl::unexpected(invalid_parameter("enabled", "'enabled' is needed: true or false"));
  return SetTriggerParameters{.name = std::move(*name), .enabled = **enabled};
}

std::string to_json(const SetTriggerParameters& parameters) {
  return dump({{"name", parameters.name}, {"enabled", parameters.enabled}});
}

std::string triggers_reply(std::string_view array) { return fmt::format(R"({{"triggers":{}}})", array); }
std::string fired_reply(std::string_view id) { return dump({{"id", id}}); }

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
