// SPDX-License-Identifier: Apache-2.0
// flightd's journal entries: a MESSAGE_ID that never changes, and fields that programs read
// (systemd.journal-fields(7)). systemd/flightd.catalog explains each id and uses the fields: to add or rename one,
// change both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::daemon {

inline constexpr std::string_view kSnapshotMessageId = "569dd7ad7633419d8fb3a32326c62f33";
inline constexpr std::string_view kSuppressedMessageId = "780467055d8b419c8a7c497b4af8dc33";
inline constexpr std::string_view kBlindMessageId = "67101adf90e74eafbb245279e55d8adb";
inline constexpr std::string_view kDegradedMessageId = "e9b92a3c69c94002a11d5de30652aceb";
inline constexpr std::string_view kRecoveredMessageId = "738c740d52594a51a8c1c1b70b937f41";

// As in syslog(3).
enum class Priority : int { error = 3, warning = 4, notice = 5 };

struct JournalEntry {
  Priority priority = Priority::notice;
  std::string message;              // one line; also for the log if there is no journal
  std::vector<std::string> fields;  // "NAME=value"; without MESSAGE and PRIORITY
};

// Firings of a trigger that its rate policy or the storm guard suppressed.
struct Suppressed {
  std::string trigger;
  std::uint64_t count = 0;
  WallTime first{}, last{};
  std::string by;  // the limit: "cooldown", "max_per_hour", "storm guard"
};

// A trigger has fired as often as its max_per_day allows.
struct Blind {
  std::string trigger;
  std::uint32_t max_per_day = 0;
  WallTime until{};  // when it can fire again
};

// The message is headline(). The priority is warning for a trigger's snapshot, notice for a person's.
[[nodiscard]] JournalEntry snapshot_entry(const Sidecar& sidecar);
// Once for each window in which anything was suppressed.
[[nodiscard]] JournalEntry suppressed_entry(const Suppressed& suppressed);
// After the snapshot of that firing.
[[nodiscard]] JournalEntry blind_entry(const Blind& blind);
// `what`: "disk" or "broker"; `message` says how flightd continues.
[[nodiscard]] JournalEntry degraded_entry(std::string_view what, std::string_view message);
[[nodiscard]] JournalEntry recovered_entry(std::string_view what, std::string_view message);

}  // namespace flight::daemon
