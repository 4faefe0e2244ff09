// SPDX-License-Identifier: Apache-2.0
// A decision of the rules: fire, with the reason and the action, or suppressed, with the limit and its end.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "libcore/base/clock.hpp"
#include "libcore/config/config.hpp"
#include "libcore/store/sidecar.hpp"
#include "libcore/trigger/policy.hpp"

namespace flight {

struct Decision {
  std::string trigger;
  SuppressedBy by = SuppressedBy::nothing;
  std::string reason;  // "cpu.hottest 100 % above 90 % for 2.0 s (baseline 12 %)"
  // If suppressed: until when, and whether it is the first of its window, which is reported separately.
  EventTime until_ns = 0;
  WallTime until{};
  bool first = false;
  // The reason of a metric trigger. If the time before is unknown, the baseline is NaN and the reason has no baseline.
  std::optional<SidecarFired> fired;
  // The action:
  std::chrono::nanoseconds post{}, last{};  // last 0: everything in the rings
  std::optional<CaptureMode> capture;
  std::chrono::nanoseconds record{};  // then a recording goes on for so long; 0: none
  // It is the last firing that max_per_day allows: when the trigger can fire again.
  std::optional<WallTime> blind_until{};
  std::uint32_t max_per_day = 0;

  [[nodiscard]] bool fires() const { return by == SuppressedBy::nothing; }
};

// Suppressed firings of one trigger in one window, reported together.
struct SuppressedWindow {
  std::string trigger;
  std::array<std::uint64_t, kSuppressedByCount> by{};  // number of firings, by SuppressedBy
  std::uint64_t count = 0;                             // their sum
  WallTime first{}, last{};
  [[nodiscard]] std::string by_text() const;  // "cooldown", or "cooldown (140), storm guard (8)"
};

// A line of `flightctl triggers`.
struct TriggerRow {
  std::string name;
  std::string condition;  // as text
  bool enabled = true;
  // "armed", "pending", "fired" (waits for rearm), "held back", "warming up", "off", "unavailable"
  std::string state;
  std::string note;             // explains the state: "34 s more", "cooldown until …"
  std::optional<double> value;  // of its metric
  bool share = false;           // value is in percent
  std::optional<WallTime> fired_at;
  std::string snapshot;  // the last one's id; empty: none yet
  std::uint64_t fired = 0, suppressed = 0;
  std::string recording{};  // the last one's id; empty: none yet
  std::uint64_t recordings = 0, recordings_failed = 0;
};

}  // namespace flight
