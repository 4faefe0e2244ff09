// SPDX-License-Identifier: Apache-2.0
// STATE, STATE/snapshots and RUNTIME: makes them, locks them against a second flightd, gives them to flightd's user.
// Each is opened once and used by descriptor: its owner may rename it meanwhile.
#pragma once

#include <string>

#include "daemon/privileges.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

// While this object lives, no other flightd uses the two directories.
struct FolderLocks {
  UniqueFd state, runtime;
};

// Creates what is missing (not the parent directories) and gives STATE (0755), STATE/snapshots (0770) and RUNTIME
// (0755) to `identity`. Nothing is changed before both locks are held. EWOULDBLOCK: a second flightd; the error has
// the pid of the first. EEXIST: the directory belongs to another program. ENOENT, EACCES and ENOSPC name the directory
// and what to do.
[[nodiscard]] Result<FolderLocks> take_folders(const std::string& state_dir, const std::string& runtime_dir,
                                               const Identity& identity);

}  // namespace flight::daemon
