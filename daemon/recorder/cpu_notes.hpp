// SPDX-License-Identifier: Apache-2.0
// When CPUs went offline, for people. The broker reports it by the clock of the events, and says the same again for as
// long as the CPU is offline; meanwhile the wall clock can be set. Only flightd knows which time it showed before.
#pragma once

#include <string>
#include <vector>

#include "libcore/base/clock_history.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight::daemon {

// The manifest's notes, with the times of gone_cpu_text().
[[nodiscard]] std::vector<std::string> notes_with_times(const Manifest& manifest, const ClockHistory& clock);

}  // namespace flight::daemon
