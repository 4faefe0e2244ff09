// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/findings.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "libcore/control/json_depth.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<FindingState, 4> kStates{FindingState::ok, FindingState::note, FindingState::warn,
                                              FindingState::fail};
constexpr std::array<std::pair<const char*, std::string Finding::*>, 4> kTexts{{
    {"check", &Finding::check},
    {"found", &Finding::found},
    {"why", &Finding::why},
    {"do", &Finding::advice},
}};

std::optional<FindingState> state_of(const Json& json) {
  for (const FindingState state : kStates)
    if (json == to_string(state)) return state;
  return std::nullopt;
}

std::optional<Finding> finding_of(const Json& json) {
  if (!json.is_object() || !json.contains("state")) return std::nullopt;
  const auto state = state_of(json["state"]);
  if (!state) return std::nullopt;
  Finding finding;
  finding.state = *state;
  for (const auto& [key, member] : kTexts) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return std::nullopt;
    finding.*member = found->get<std::string>();
  }
  return finding;
}

}  // namespace

std::string_view to_string(FindingState state) {
  switch (state) {
    case FindingState::ok:
      return "ok";
    case FindingState::note:
      return "note";
    case FindingState::warn:
      return "warn";
    case FindingState::fail:
      return "fail";
  }
  return "?";
}

std::string to_json(const std::vector<Finding>& findings) {
  Json json = Json::array();
  for (const Finding& finding : findings)
    json.push_back({{"check", finding.check},
                    {"state", to_string(finding.state)},
                    {"found", finding.found},
                    {"why", finding.why},
                    {"do", finding.advice}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::vector<Finding>> parse_findings(std::string_view text) {
  const Json json = nests_too_deep(text) ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.empty()) return fail(std::errc::bad_message, "it is no list of findings");
  std::vector<Finding> findings;
  for (const Json& item : json) {
    auto finding = finding_of(item);
    if (!finding) return fail(std::errc::bad_message, "number {} of its list is no finding", findings.size());
    findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace flight
