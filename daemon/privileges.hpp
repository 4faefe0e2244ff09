// SPDX-License-Identifier: Apache-2.0
// Who flightd becomes, and what it takes with it. Started as root it raises its limits and its nice level, makes its
// folders and gives them away, then becomes an unprivileged user without any capability. Before there is a thread, but
// for the freeze thread: glibc carries a change of uid to all threads, and with it the capabilities go.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;  // the group that may read snapshots: flightd, else the user's own
  std::string user;
  std::string note;  // "there is no user flightd: running as nobody"; empty otherwise
};

// `user` of the config, nobody where there is no such user; the caller's own identity when it is not root.
[[nodiscard]] Result<Identity> find_identity(const std::string& user);

// RLIMIT_NOFILE, _MEMLOCK and _RTPRIO as far as we may, nice -10. What was refused is told where it matters.
void raise_limits();

// Makes STATE, STATE/snapshots (0770) and RUNTIME (0755), owned by `identity`. ENOENT, EACCES and ENOSPC say which
// folder and what to do.
[[nodiscard]] Result<void> make_folders(const std::string& state_dir, const std::string& runtime_dir,
                                        const Identity& identity);

// Holds FOLDER/flightd.lock for as long as the fd lives; EWOULDBLOCK: a second flightd, with the pid of the first.
// `option` is what the admin would change.
[[nodiscard]] Result<UniqueFd> lock_folder(const std::string& folder, std::string_view option);

// Irrevocable: uid, gid, no supplementary groups, no capability, no_new_privs. Does nothing but the last when not root.
[[nodiscard]] Result<void> drop_privileges(const Identity& identity);

}  // namespace flight
