// SPDX-License-Identifier: Apache-2.0
// The parameters and replies of the triggers' methods: ListTriggers, FireTrigger, SetTrigger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/control/messages.hpp"

namespace flight {

// A row of ListTriggers, and of `flightctl --json triggers`.
struct ListedTrigger {
  std::string name;
  std::string kind;       // "metric", "event", "external"
  std::string condition;  // as text: "cpu.busy above 90 % for 2 s"
  bool enabled = true;
  std::string state;  // "armed", "pending", "fired", "held back", "warming up", "off", "unavailable"
  std::string note;   // for display: why it is in this state; may be empty
  std::optional<double> value;
  std::optional<std::string> last_fired, last_snapshot;  // RFC 3339; an id
  std::uint64_t fired = 0, suppressed = 0;
  std::optional<std::string> last_recording{};  // the id of its first part
  std::uint64_t recordings = 0, recordings_failed = 0;
};
[[nodiscard]] std::string to_json(const std::vector<ListedTrigger>& rows);  // an array, one line
[[nodiscard]] Result<std::vector<ListedTrigger>> parse_listed_triggers(std::string_view text);

// {"name": "checkout-slow", "reason": "…", "test": false} of FireTrigger; only the name is required.
struct FireParameters {
  std::string name, reason;
  bool test = false;
};
[[nodiscard]] CallResult<FireParameters> parse_fire_parameters(std::string_view parameters);
[[nodiscard]] std::string to_json(const FireParameters& parameters);
// {"name": "lopsided", "enabled": true} of SetTrigger.
struct SetTriggerParameters {
  std::string name;
  bool enabled = true;
};
[[nodiscard]] CallResult<SetTriggerParameters> parse_set_trigger_parameters(std::string_view parameters);
[[nodiscard]] std::string to_json(const SetTriggerParameters& parameters);

// {"triggers": ARRAY} and {"id": "7"}.
[[nodiscard]] std::string triggers_reply(std::string_view array);
[[nodiscard]] std::string fired_reply(std::string_view id);

[[nodiscard]] CallError no_such_trigger(std::string_view name, std::string_view message);
[[nodiscard]] CallError trigger_disabled(std::string_view name, std::string_view message);
// `until`: RFC 3339, or empty if it is unknown.
[[nodiscard]] CallError suppressed(std::string_view name, std::string_view until, std::string_view message);

}  // namespace flight
