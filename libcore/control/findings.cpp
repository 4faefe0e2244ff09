// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/findings.hpp"

#include <array>
#include <optional>
#include <utility>

#include "libcore/json/parse.hpp"

namespace flight {
namespace {

constexpr std::array<FindingState, 4> kStates{FindingState::ok, FindingState::note, FindingState::warn,
                                              FindingState::fail};
constexpr std::array<std::pair<const char*, std::string Finding::*>, 4> kFindingTexts{{
    {"check", &Finding::check},
    {"found", &Finding::found},
    {"why", &Finding::why},
    {"do", &Finding::advice},
}};

std::optional<FindingState> state_of(const json::Value& value) {
  for (const FindingState state : kStates)
    if (value.text() != nullptr && *value.text() == to_string(state)) return state;
  return std::nullopt;
}

std::optional<Finding> finding_of(const json::Value& value) {
  const auto state = state_of(value.at("state"));
  if (!state) return std::nullopt;
  Finding finding;
  finding.state = *state;
  for (const auto& [key, member] : kFindingTexts) {
    const std::string* text = value.at(key).text();
    if (text == nullptr) return std::nullopt;
    finding.*member = *text;
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
  return json::dump(json::array_of(findings, [](const Finding& finding) {
    return json::Object{{"check", finding.check},
                        {"state", to_string(finding.state)},
                        {"found", finding.found},
                        {"why", finding.why},
                        {"do", finding.advice}};
  }));
}

Result<std::vector<Finding>> parse_findings(std::string_view text) {
  const json::Value list = json::parse_or_null(text);
  if (list.items().empty()) return fail(std::errc::bad_message, "it is not a list of findings");
  std::vector<Finding> findings;
  for (const json::Value& item : list.items()) {
    auto finding = finding_of(item);
    if (!finding) return fail(std::errc::bad_message, "item {} of its list is not a finding", findings.size());
    findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace flight
