// SPDX-License-Identifier: Apache-2.0
// STATE, STATE/snapshots and RUNTIME: makes them, locks them against a second flightd, gives them to flightd's user.
// Each is opened once and used by descriptor: its owner may rename it meanwhile.
#pragma once

#include <string>
#include <vector>

#include "daemon/privileges.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

// While this object lives, no other flightd uses the two directories. The lock of RUNTIME contains the pid, and is
// empty after a clean end.
class FolderLocks {
 public:
  FolderLocks() = default;
  FolderLocks(FolderLocks&&) = default;
  FolderLocks& operator=(FolderLocks&&) = default;
  ~FolderLocks();

  UniqueFd state, runtime;
  std::vector<std::string> warnings;  // what a file system refused: flightd records all the same
};

// Creates what is missing (not the parent directories) and gives STATE (0755), STATE/snapshots (0770) and RUNTIME
// (0755) to `identity`. Nothing is changed before both locks are held. A read-only file system, and one without locks
// or owners, is a warning. EWOULDBLOCK: a second flightd; the error has the pid of the first. EEXIST: the directory
// belongs to another program. ENOENT, EACCES and ENOSPC name the directory and what to do.
[[nodiscard]] Result<FolderLocks> take_folders(const std::string& state_dir, const std::string& runtime_dir,
                                               const Identity& identity);

}  // namespace flight::daemon
