// SPDX-License-Identifier: Apache-2.0
// The trigger state that survives a restart of flightd: counters, rates, and triggers disabled by a user. A text of
// lines, complete only with its last one; a damaged text is an error, and counting starts again.
//
//   flightd-triggers 1
//   saved BOOT_ID WALL_NS MONOTONIC_NS
//   guard TOKENS
//   trigger NAME FIRED SUPPRESSED on|off|config LAST_WALL_NS|- SNAPSHOT|- MONOTONIC_NS…
//   recordings NUMBER FAILED ID|-
//   end
//
// A line of recordings belongs to the trigger above it, and is there only if it counts something.
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
  std::optional<bool> enabled;  // by a user; nullopt: as in the configuration
  std::optional<WallTime> fired_at;
  std::string snapshot;             // the last one's id
  std::vector<SignedTime> firings;  // in the boot in which it was saved
  std::uint64_t recordings = 0, recordings_failed = 0;
  std::string recording{};  // the last one's id
};

struct TriggerState {
  std::string boot_id;
  WallTime wall{};  // when it was saved
  SignedTime monotonic_ns = 0;
  double guard_tokens = 0;
  std::vector<SavedTrigger> triggers;

  // The difference to add to saved times to get times on the clock of `now`. Within one boot only the monotonic clock
  // counts, so clock steps do not matter. After a reboot the elapsed time is that of the wall clock, at least the
  // uptime: a clock that was set back delays a trigger by its limits at most, and one that starts in 1970 never allows
  // more firings than the limits.
  [[nodiscard]] SignedTime shift(std::string_view boot_id_now, const ClockPair& now) const;
};

[[nodiscard]] std::string to_text(const TriggerState& state);
[[nodiscard]] Result<TriggerState> parse_trigger_state(std::string_view text);

}  // namespace flight
