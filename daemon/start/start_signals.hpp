// SPDX-License-Identifier: Apache-2.0
// The signals of flightd before its event loop handles them: SIGTERM, SIGINT, SIGUSR2 and SIGHUP. Main thread only,
// and before it makes other threads: all of them inherit the mask. In a thread that did not have it, the default action
// of a signal would end flightd.
#pragma once

#include <chrono>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

// SIGUSR2 and SIGHUP are blocked: they would end the process. SIGTERM and SIGINT end it.
void hold_signals();

// Blocks SIGTERM and SIGINT as well, and returns a signalfd(2) of all four.
[[nodiscard]] Result<UniqueFd> block_signals();

// The same without a descriptor: waits for one of the four and returns it; 0: none came.
[[nodiscard]] int wait_for_signal(std::chrono::seconds time);

}  // namespace flight::daemon
