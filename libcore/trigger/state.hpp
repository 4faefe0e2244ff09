// SPDX-License-Identifier: Apache-2.0
// What outlives a restart of flightd: counters, rates and what a person switched off. A text of lines, whole only with
// its last one; a damaged text is an error that says so, and then everything begins afresh.
//
//   flightd-triggers 1
//   saved BOOT_ID WALL_NS MONOTONIC_NS
//   guard TOKENS
//   trigger NAME FIRED SUPPRESSED on|off|config LAST_WALL_NS|- SNAPSHOT|- MONOTONIC_NS…
//   end
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/trigger/policy.hpp"

namespace flight {

inline constexpr std::size_t kMaxTriggerStateBytes = 2U << 20U;  // 64 triggers of 1,000 firings take 1.3 MB

struct SavedTrigger {
  std::string name;
  std::uint64_t fired = 0, suppressed = 0;
  std::optional<bool> enabled;  // by a person's word; nullopt: as it is configured
  std::optional<WallTime> fired_at;
  std::string snapshot;             // the last one's id
  std::vector<SignedTime> firings;  // of the boot it was saved in
};

struct TriggerState {
  std::string boot_id;
  WallTime wall{};  // when it was saved
  SignedTime monotonic_ns = 0;
  double guard_tokens = 0;
  std::vector<SavedTrigger> triggers;

  // What is to be added to its times to have them on the clock of `now`. In another boot that is as much as the wall
  // clock says has passed since, at the least the time since this boot: a wall clock that was set back holds nobody up
  // for longer than the limits themselves, and one that starts in 1970 opens no gate.
  [[nodiscard]] SignedTime shift(std::string_view boot_id_now, const ClockPair& now) const;
};

[[nodiscard]] std::string to_text(const TriggerState& state);
[[nodiscard]] Result<TriggerState> parse_trigger_state(std::string_view text);

}  // namespace flight
