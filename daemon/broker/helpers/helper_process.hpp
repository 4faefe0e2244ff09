// SPDX-License-Identifier: Apache-2.0
// A helper's own life (helpers.hpp): it gives up what it inherited of the broker, then serves one request after the
// other. Called on the only thread of a new process. It never returns, and no exception leaves it: a helper must not
// run the broker's own code.
#pragma once

#include <sys/types.h>

#include <span>

#include "daemon/broker/helpers/helpers.hpp"

namespace flight::broker {

// As in ps(1).
inline constexpr const char* kHelperTitle = "flightd-reader";

// In a new process, a child of `broker`: becomes a helper, and serves at `socket` until the broker is gone.
[[noreturn]] void run_helper(const Helpers::Work& work, std::span<char> command_line, pid_t broker, int socket);

}  // namespace flight::broker
