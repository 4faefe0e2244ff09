// SPDX-License-Identifier: Apache-2.0
// The findings of `flightctl doctor`, as scripts read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

enum class FindingState { ok, note, warn, fail };
[[nodiscard]] std::string_view to_string(FindingState state);

struct Finding {
  std::string check;  // the name of the check: "perf-event-paranoid"
  FindingState state = FindingState::ok;
  std::string found;   // the current state
  std::string why;     // what it means for flightd
  std::string advice;  // what to do; empty if there is nothing to do
};
// [{check, state, found, why, do}]
[[nodiscard]] std::string to_json(const std::vector<Finding>& findings);
// EBADMSG: not such a list, or an empty one.
[[nodiscard]] Result<std::vector<Finding>> parse_findings(std::string_view text);

}  // namespace flight
