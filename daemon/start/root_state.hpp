// SPDX-License-Identifier: Apache-2.0
// STATE is given to flightd's user, which needs root, and its disk may hang. So root takes it in a child process: a
// thread that waits for a disk cannot change its user, and the start would wait for it.
#pragma once

#include <functional>
#include <string>

#include "daemon/folders.hpp"
#include "daemon/privileges.hpp"
#include "libcore/base/result.hpp"

namespace flight::daemon {

// Before threads are started and privileges are dropped. Waits for the disk for a few seconds. The error forbids the
// start. The result takes STATE, or returns what the child did; it may be called again until it succeeds, by one thread
// at a time. Where the child failed, and without root, it takes STATE with the rights of its caller. As long as
// flightd's user cannot reach a STATE that root took, that is an error.
[[nodiscard]] Result<std::function<Result<StateFolder>()>> take_state_as_root(const std::string& path,
                                                                              const Identity& identity);

}  // namespace flight::daemon
