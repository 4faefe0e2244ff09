// SPDX-License-Identifier: Apache-2.0
// Takes the control socket that systemd listens on (systemd.socket(5), sd_listen_fds(3)): clients that connect while
// flightd restarts wait in its queue and are not refused.
#pragma once

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

// Call it once, before there are threads or children: it removes $LISTEN_FDS from the environment. Returns an invalid
// descriptor if no socket was inherited. EINVAL: not exactly one listening Unix stream socket.
[[nodiscard]] Result<UniqueFd> inherited_control_socket();

}  // namespace flight::daemon
