// SPDX-License-Identifier: Apache-2.0
// Whether the clock is plausible when snapshots are deleted because of their age. A clock that jumps ahead by 40 days
// makes all of them too old, and a later correction does not restore them. So the time is checked against facts that
// the clock cannot change: the uptime (CLOCK_BOOTTIME) and the times of snapshots. A decision about plain values.
//
//   last snapshot of an earlier boot   boot by the clock    first snapshot of this boot      now
//   ───────────●───────────────────────────┼─────────────────────────●────────────────────────┼──▶
//              └── off: at most kMostOff ──┘  not before the boot    └ since the boot: BOOTTIME
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "libcore/base/clock.hpp"

namespace flight {

struct StoreClock {
  WallTime now{};
  std::chrono::nanoseconds since_boot{};   // CLOCK_BOOTTIME
  WallTime boot_at_start{};                // the wall clock minus CLOCK_BOOTTIME when this process started
  bool synchronised = false;               // by NTP or a similar service: then the time is correct
  std::optional<WallTime> first_of_boot;   // the earliest snapshot of this boot
  std::optional<WallTime> last_of_others;  // the latest snapshot of another boot

  // Reads the clocks, without the snapshots. `boot_at_start`: from the first call.
  [[nodiscard]] static StoreClock read(WallTime boot_at_start);
  [[nodiscard]] WallTime boot() const { return now - since_boot; }
};

inline constexpr std::chrono::nanoseconds kMostStep = std::chrono::hours(1);
inline constexpr std::chrono::nanoseconds kMostOff = std::chrono::hours(24 * 7);

// Whether systemd-timesyncd has set the clock within the last hour: it touches `file` at each synchronisation, at least
// every 34 minutes (timesyncd.conf(5), PollIntervalMaxSec=), and never removes it. If the clock has jumped since, the
// file's time is too old or in the future.
[[nodiscard]] bool timesyncd_vouches(const char* file, WallTime now);

// Why `clock.now` may be too far ahead, as a clause of a sentence; empty: it is plausible. If the clock is behind,
// nothing is deleted because of its age.
[[nodiscard]] std::string why_doubtful(const StoreClock& clock);

}  // namespace flight
