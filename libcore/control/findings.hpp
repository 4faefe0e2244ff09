// SPDX-License-Identifier: Apache-2.0
// What `flightctl doctor` finds, as scripts read it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

enum class FindingState { ok, note, warn, fail };
[[nodiscard]] std::string_view to_string(FindingState state);

struct Finding {
  std::string check;  // what was looked at: "perf-event-paranoid"
  FindingState state = FindingState::ok;
  std::string found;   // what it is
  std::string why;     // what that means for flightd
  std::string advice;  // what to do; empty where there is nothing
};
// [{check, state, found, why, do}]
[[nodiscard]] std::string to_json(const std::vector<Finding>& findings);
// EBADMSG: it is no such list, or an empty one.
[[nodiscard]] Result<std::vector<Finding>> parse_findings(std::string_view text);

}  // namespace flight
