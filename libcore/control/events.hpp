// SPDX-License-Identifier: Apache-2.0
// The events of Monitor: one object each, the same as a line of `flightctl --json monitor`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flight {

// The values of `event`.
inline constexpr std::string_view kMonitoring = "monitoring";  // the first event: the client receives all later ones
inline constexpr std::string_view kSnapshotBegun = "snapshot_begun";
inline constexpr std::string_view kSnapshotFinished = "snapshot_finished";
inline constexpr std::string_view kSnapshotFailed = "snapshot_failed";
inline constexpr std::string_view kRecordingPaused = "recording_paused";
inline constexpr std::string_view kRecordingResumed = "recording_resumed";
inline constexpr std::string_view kDegraded = "degraded";
inline constexpr std::string_view kRecovered = "recovered";
inline constexpr std::string_view kReloaded = "reloaded";  // another configuration is in force
inline constexpr std::string_view kTriggerFired = "trigger_fired";
inline constexpr std::string_view kTriggersSuppressed = "triggers_suppressed";  // once for each window of suppressions
inline constexpr std::string_view kMissed = "missed";  // a slow client: this many of the oldest were dropped

// Empty texts are not written.
struct RecorderEvent {
  std::string event;
  std::string time;                       // RFC 3339
  std::string id, trigger, reason, path;  // of a snapshot
  std::string message;                    // for display
  std::optional<bool> recording;          // of kMonitoring
  std::optional<std::uint64_t> missed;    // of kMissed
};

[[nodiscard]] std::string to_json(const RecorderEvent& event);
// nullopt: it is not an event. Unknown values of `event` are kept: a newer daemon may send them.
[[nodiscard]] std::optional<RecorderEvent> parse_event(std::string_view text);

}  // namespace flight
