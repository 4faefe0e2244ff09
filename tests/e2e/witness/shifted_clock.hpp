// SPDX-License-Identifier: Apache-2.0
// Shared by shifted_clock.cpp, in flightd, and the test that changes its clock while it runs.
#pragma once

#include <cstdint>
#include <string>

namespace flight {

// A FIFO beside that file. What the test writes to it makes flightd's timer on CLOCK_REALTIME ready, as if the
// machine's clock were set.
inline std::string alarm_of(const std::string& clock) { return clock + ".alarm"; }

// The content of the file $FLIGHT_SHIFTED_CLOCK.
struct ShiftedClock {
  volatile std::int64_t wall_ns;   // added to CLOCK_REALTIME
  volatile std::int64_t slept_ns;  // added to CLOCK_BOOTTIME
};

}  // namespace flight
