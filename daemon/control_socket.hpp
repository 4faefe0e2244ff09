// SPDX-License-Identifier: Apache-2.0
// Makes a listening Unix socket at a path, and says clearly who is in the way when it cannot.
#pragma once

#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// SOCK_STREAM, non-blocking, mode 0666. A dead daemon's socket file is unlinked, but only after connect(2) to it was
// refused. EADDRINUSE: somebody listens there; EEXIST: what is there is no socket.
[[nodiscard]] Result<UniqueFd> listen_on(const std::string& path);

}  // namespace flight
