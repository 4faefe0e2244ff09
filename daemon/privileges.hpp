// SPDX-License-Identifier: Apache-2.0
// Changes flightd's user and drops its privileges. As root it raises its limits and nice level, takes its directories
// (folders.hpp), then changes to an unprivileged user without capabilities. Only the freeze thread may exist before:
// glibc changes the uid in all threads, and the capabilities are dropped with it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "libcore/base/result.hpp"

namespace flight::daemon {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;  // the group that may read snapshots: flightd, otherwise the user's own
  std::string user;
  std::string note;  // why it runs as nobody or as root, or does not know its groups; empty otherwise
  // The trusted callers besides root: the configured user (not the fallback `nobody`, which other services use), and
  // the members of the group flightd, if it exists.
  std::optional<uid_t> trusted_uid;
  std::optional<gid_t> trusted_gid;
  std::optional<gid_t> trigger_gid;  // of the group flightd-trigger, if it exists
};

// `user` of the configuration, or nobody if that user does not exist; the caller's own identity if it is not root.
[[nodiscard]] Result<Identity> find_identity(const std::string& user);

// Raises RLIMIT_MEMLOCK and _RTPRIO as far as allowed, and sets nice -10 and a short time slice. The code that
// needs a limit reports a refusal.
void raise_limits();

// Locks the memory that this process has touched, and its code: reading pages from the disk takes longest when memory
// is short. Call it before the drop. Memory touched later is locked only if RLIMIT_MEMLOCK is infinite; otherwise
// allocations would fail.
[[nodiscard]] Result<void> lock_memory();

// For the calling thread: each thread has its own capabilities.
[[nodiscard]] Result<void> drop_capabilities();

// From now on no other process of this user can read this one's memory or descriptors, and the kernel writes no core
// dump of it (prctl(2), PR_SET_DUMPABLE): the rings and their copies have data of all users, and as `nobody` flightd
// shares its uid with other services. Call it before rings are mapped. A change of the user undoes it.
[[nodiscard]] Result<void> forbid_inspection();

// Irrevocable: sets uid and gid, no supplementary groups, no capability, no_new_privs; forbids inspection. If not root,
// only the last two.
[[nodiscard]] Result<void> drop_privileges(const Identity& identity);

// Calls `look` in a child process with the rights of `identity`, and returns its text. Root only, and before threads
// are started.
[[nodiscard]] Result<std::string> look_as(const Identity& identity, const std::function<std::string()>& look);

}  // namespace flight::daemon
