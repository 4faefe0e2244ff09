// SPDX-License-Identifier: Apache-2.0
// Converts the window that a client requests with TakeSnapshot to the clock of the events. Called on the event loop.
// The present is an argument, so that all parameters of a request mean the same moment. A window that cannot be had is
// refused here, before anything is captured.
#pragma once

#include "libcore/base/clock_history.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight::daemon {

// The data to check a window against: the present, what the wall clock showed before, and the content of the rings.
struct WindowNow {
  ClockTriple now;
  ClockHistory clock;
  EventTime oldest_held_ns = 0;  // no ring holds an older record
};

// InvalidParameter names the parameter: `last_usec` together with `since`; a text that is not a time; a `since` that
// is no longer in the rings or after the end of `post`; an `until` before the begin or before everything in the rings.
[[nodiscard]] CallResult<WindowRequest> parse_window(const SnapshotParameters& parameters, const WindowNow& now);

}  // namespace flight::daemon
