// SPDX-License-Identifier: Apache-2.0
// Converts the window that a client requests with TakeSnapshot to the clock of the events.
#pragma once

#include "libcore/base/clock.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight::daemon {

// The data to check a window against: the same moment on both clocks, and the content of the rings.
struct WindowNow {
  EventTime now_ns = 0;
  WallTime now{};  // the base for "10 min ago"
  ClockPair clock;
  EventTime oldest_held_ns = 0;  // no ring holds an older record
};

// InvalidParameter names the parameter: `last_usec` together with `since`; a text that is not a time; a `since` that
// is no longer in the rings or after the end of `post`; an `until` before the begin or before everything in the rings.
[[nodiscard]] CallResult<WindowRequest> parse_window(const SnapshotParameters& parameters, const WindowNow& now);

}  // namespace flight::daemon
