// SPDX-License-Identifier: Apache-2.0
// How long flightctl waits for the first answer of flightd or of another machine. At a terminal somebody may be typing
// a password for ssh, and can press Ctrl-C: one line says what the wait is for, and it goes on. Without a terminal the
// wait ends, because a script or a timer would hang for ever. Once the peer has answered, nothing is cut: a snapshot or
// a Monitor may take as long as it likes.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "ctl/host.hpp"
#include "libcore/control/client.hpp"

namespace flight::ctl {

inline constexpr std::chrono::seconds kSaysSoAfter(10);  // at a terminal
inline constexpr std::chrono::seconds kEndsAfter(15);    // without one

// For the control socket of this machine.
[[nodiscard]] Patience patience_here(const std::string& socket);
// For `command`, run by ssh on `host`. `ssh_output` returns what ssh has written to stderr so far.
[[nodiscard]] Patience patience_there(const Host& host, std::string command, std::function<std::string()> ssh_output);

}  // namespace flight::ctl
