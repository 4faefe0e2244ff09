// SPDX-License-Identifier: Apache-2.0
// The signals of flightd before its event loop handles them. Before there are threads: all of them inherit the mask.
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
