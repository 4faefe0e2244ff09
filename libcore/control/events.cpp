// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/events.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcore/control/json_depth.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<const char*, std::string RecorderEvent::*>, 7> kTexts{{
    {"event", &RecorderEvent::event},
    {"time", &RecorderEvent::time},
    {"id", &RecorderEvent::id},
    {"trigger", &RecorderEvent::trigger},
    {"reason", &RecorderEvent::reason},
    {"path", &RecorderEvent::path},
    {"message", &RecorderEvent::message},
}};

}  // namespace

std::string to_json(const RecorderEvent& event) {
  Json json = Json::object();
  for (const auto& [key, member] : kTexts)
    if (!(event.*member).empty()) json[key] = event.*member;
  if (event.recording) json["recording"] = *event.recording;
  if (event.missed) json["missed"] = *event.missed;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<RecorderEvent> parse_event(std::string_view text) {
  const Json json = nests_too_deep(text) ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  RecorderEvent event;
  for (const auto& [key, member] : kTexts)
    if (const auto found = json.find(key); found != json.end() && found->is_string())
      event.*member = found->get<std::string>();
  if (const auto found = json.find("recording"); found != json.end() && found->is_boolean())
    event.recording = found->get<bool>();
  if (const auto found = json.find("missed"); found != json.end() && found->is_number_unsigned())
    event.missed = found->get<std::uint64_t>();
  if (event.event.empty()) return std::nullopt;
  return event;
}

}  // namespace flight
