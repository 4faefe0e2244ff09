// SPDX-License-Identifier: Apache-2.0
// STATE, STATE/snapshots and RUNTIME: made, locked against a second flightd, and given to flightd's user. A folder is
// opened once, and everything is done to that descriptor: its name may be changed meanwhile by the user it belongs to.
#pragma once

#include <string>

#include "daemon/privileges.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// For as long as this lives, no other flightd uses the two folders.
struct FolderLocks {
  UniqueFd state, runtime;
};

// Makes what is missing (not the folders above it) and gives STATE (0755), STATE/snapshots (0770) and RUNTIME (0755)
// to `identity`. Nothing is changed before both locks are held. EWOULDBLOCK: a second flightd, with the pid of the
// first. EEXIST: the folder is somebody else's. ENOENT, EACCES and ENOSPC say which folder and what to do.
[[nodiscard]] Result<FolderLocks> take_folders(const std::string& state_dir, const std::string& runtime_dir,
                                               const Identity& identity);

}  // namespace flight
