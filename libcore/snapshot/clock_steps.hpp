// SPDX-License-Identifier: Apache-2.0
// The changes of the wall clock in a snapshot's window. The sidecar's times are as the clock showed them then; perf
// converts all of a file's times with one pair, the last one (CLOCK_DATA).
#pragma once

#include "libcore/base/clock_history.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// The newest ones are listed.
inline constexpr std::size_t kMaxListedSteps = 256;

// Fills in `clock_steps` and adds warnings; call it when `out.window` is known.
void describe_clock(Sidecar& out, const ClockHistory& clock);

}  // namespace flight
