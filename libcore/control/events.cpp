// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/events.hpp"

#include <array>
#include <utility>

#include "libcore/json/parse.hpp"

namespace flight {
namespace {

constexpr std::array<std::pair<const char*, std::string RecorderEvent::*>, 7> kEventTexts{{
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
  json::Object object;
  for (const auto& [key, member] : kEventTexts)
    if (!(event.*member).empty()) object.add(key, event.*member);
  if (event.recording) object.add("recording", *event.recording);
  if (event.missed) object.add("missed", *event.missed);
  return json::dump(object);
}

std::optional<RecorderEvent> parse_event(std::string_view text) {
  const json::Value value = json::parse_or_null(text);
  RecorderEvent event;
  for (const auto& [key, member] : kEventTexts) event.*member = value.at(key).text_or_empty();
  event.recording = value.at("recording").flag();
  event.missed = value.at("missed").whole<std::uint64_t>();
  if (event.event.empty()) return std::nullopt;
  return event;
}

}  // namespace flight
