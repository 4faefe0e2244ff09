// SPDX-License-Identifier: Apache-2.0
// Shared by shifted_clock.cpp, in flightd, and the test that changes its clock while it runs.
#pragma once

#include <cstdint>

namespace flight {

// The content of the file $FLIGHT_SHIFTED_CLOCK.
struct ShiftedClock {
  volatile std::int64_t wall_ns;   // added to CLOCK_REALTIME
  volatile std::int64_t slept_ns;  // added to CLOCK_BOOTTIME
};

}  // namespace flight
