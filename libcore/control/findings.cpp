// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/findings.hpp"

#include <nlohmann/json.hpp>

namespace flight {

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
  using Json = nlohmann::ordered_json;
  Json json = Json::array();
  for (const Finding& finding : findings)
    json.push_back({{"check", finding.check},
                    {"state", to_string(finding.state)},
                    {"found", finding.found},
                    {"why", finding.why},
                    {"do", finding.advice}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace flight
