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
#include "libcore/store/clock_record.hpp"

namespace flight {

struct StoreClock {
  WallTime now{};
  std::chrono::nanoseconds since_boot{};   // CLOCK_BOOTTIME
  ClockRecord record;                      // what was seen of the clock in this boot
  bool synchronised = false;               // by NTP or a similar service
  std::optional<WallTime> first_of_boot;   // the earliest snapshot of this boot
  std::optional<WallTime> last_of_others;  // the latest snapshot of another boot

  // Reads the clocks; without the record and the snapshots.
  [[nodiscard]] static StoreClock read();
  [[nodiscard]] WallTime boot() const { return now - since_boot; }
};

inline constexpr std::chrono::nanoseconds kFirstOfBoot = std::chrono::hours(1);
inline constexpr std::chrono::nanoseconds kAfterAhead = std::chrono::hours(24);  // of CLOCK_BOOTTIME
inline constexpr std::chrono::nanoseconds kMostOff = std::chrono::hours(24 * 7);

// Whether systemd-timesyncd has set the clock within the last hour: it touches `file` at each synchronisation, at least
// every 34 minutes (timesyncd.conf(5), PollIntervalMaxSec=), and never removes it. If the clock has jumped since, the
// file's time is too old or in the future.
[[nodiscard]] bool timesyncd_vouches(const char* file, WallTime now);

struct ClockDoubt {
  std::string why;                  // a clause of a sentence
  std::chrono::nanoseconds left{};  // so much longer
  bool or_synchronised = false;     // or until the clock is known to be synchronised
};
// Why snapshots are not deleted automatically because of their age: in the first hour of a boot (the clock may not be
// set yet), and for 24 h after the clock ran ahead of CLOCK_BOOTTIME by more than an hour, whether it is synchronised
// or not. A clock that was wrong since the boot is found by the snapshots of earlier boots, if nothing vouches for it;
// this doubt ends when the boot is kMostOff old, since a synchronised clock can look like one that is not (chrony's).
// nullopt: the clock is plausible. If it is behind, nothing is deleted because of its age.
[[nodiscard]] std::optional<ClockDoubt> doubt_of(const StoreClock& clock);

}  // namespace flight
