// SPDX-License-Identifier: Apache-2.0
// sd_notify(3) with a time limit. libsystemd's function blocks while PID 1 does not read its socket: that would block
// the event loop, or all requests of the broker.
#pragma once

#include <chrono>
#include <string>

#include "libcore/base/result.hpp"

namespace flight {

// For a line that is sent again if it was lost, or that the next one replaces, and for one that a thread of its own
// sends (READY=1 after a reload).
inline constexpr std::chrono::milliseconds kNotifySoon{100}, kNotifySurely{5000};

// Sends one datagram to $NOTIFY_SOCKET, with the descriptor `fd` unless that is -1. No-op if the variable is not set.
// EAGAIN: PID 1 did not read earlier messages `within` that time (at least a millisecond). Its socket may take the
// place of stdin.
[[nodiscard]] Result<void> notify_service_manager(const std::string& text, std::chrono::milliseconds within,
                                                  int fd = -1);

}  // namespace flight
