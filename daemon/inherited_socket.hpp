// SPDX-License-Identifier: Apache-2.0
// The control socket that the service manager listens on for us (systemd.socket(5), sd_listen_fds(3)): clients that
// come while flightd restarts wait in its queue instead of being refused.
#pragma once

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// Once, before there are threads or children: takes $LISTEN_FDS out of the environment. Not valid: nothing was handed
// down. EINVAL: what was handed down is not one listening Unix stream socket.
[[nodiscard]] Result<UniqueFd> inherited_control_socket();

}  // namespace flight
