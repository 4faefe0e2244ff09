// SPDX-License-Identifier: Apache-2.0
// What the rules say: fire, with the reason and the action, or held back, by what and until when.
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
  // Held back: when it would be let through, and whether this is the first of its window, which is told by itself.
  EventTime until_ns = 0;
  WallTime until{};
  bool first = false;
  // Why, of a metric. Where nothing is known of the time before, the baseline is NaN and the reason does not name one.
  std::optional<SidecarFired> fired;
  // The action:
  std::chrono::nanoseconds post{}, last{};  // last 0: all that is held
  std::optional<CaptureMode> capture;

  [[nodiscard]] bool fires() const { return by == SuppressedBy::nothing; }
};

// What one trigger did not do in one window, told once.
struct SuppressedWindow {
  std::string trigger;
  std::array<std::uint64_t, kSuppressedByCount> by{};  // how many, by SuppressedBy
  std::uint64_t count = 0;                             // their sum
  WallTime first{}, last{};
  [[nodiscard]] std::string by_text() const;  // "cooldown", or "cooldown (140), storm guard (8)"
};

// A line of `flightctl triggers`.
struct TriggerRow {
  std::string name;
  std::string condition;  // in words
  bool enabled = true;
  // "armed", "pending", "fired" (waits for rearm), "held back", "warming up", "off", "unavailable"
  std::string state;
  std::string note;             // what the state means now: "34 s more", "cooldown until …"
  std::optional<double> value;  // of its metric
  bool share = false;           // value is percent
  std::optional<WallTime> fired_at;
  std::string snapshot;  // the last one's id; empty: none yet
  std::uint64_t fired = 0, suppressed = 0;
};

}  // namespace flight
