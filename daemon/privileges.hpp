// SPDX-License-Identifier: Apache-2.0
// Who flightd becomes, and what it takes with it. Started as root it raises its limits and its nice level, takes its
// folders (folders.hpp), then becomes an unprivileged user without any capability. Before there is a thread, but for
// the freeze thread: glibc carries a change of uid to all threads, and with it the capabilities go.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "libcore/base/result.hpp"

namespace flight {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;  // the group that may read snapshots: flightd, else the user's own
  std::string user;
  std::string note;  // "there is no user flightd: running as nobody"; empty otherwise
  // Who may call everything beside root: the user, where it was named rather than fallen back on (others run as nobody,
  // too), and the members of the group flightd, where there is one.
  std::optional<uid_t> trusted_uid;
  std::optional<gid_t> trusted_gid;
  std::optional<gid_t> trigger_gid;  // of the group flightd-trigger, where there is one
};

// `user` of the config, nobody where there is no such user; the caller's own identity when it is not root.
[[nodiscard]] Result<Identity> find_identity(const std::string& user);

// RLIMIT_NOFILE, _MEMLOCK and _RTPRIO as far as we may, nice -10. What was refused is told where it matters.
void raise_limits();

// Keeps what this process has touched, and its code, in memory: a request that has to wait for pages of its own from
// the disk waits longest when memory is short. Before the drop. What is touched later is locked as well where
// RLIMIT_MEMLOCK is infinite; where it is not, allocations would fail.
[[nodiscard]] Result<void> lock_memory();

// Of the calling thread: each has capabilities of its own.
[[nodiscard]] Result<void> drop_capabilities();

// Irrevocable: uid, gid, no supplementary groups, no capability, no_new_privs. Does nothing but the last when not root.
[[nodiscard]] Result<void> drop_privileges(const Identity& identity);

}  // namespace flight
