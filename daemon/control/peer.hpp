// SPDX-License-Identifier: Apache-2.0
// The identity of a client of a Unix socket, from the kernel: SO_PEERCRED has no supplementary groups, SO_PEERGROUPS
// has them (Linux 4.13). Both are from the moment of connect(2). The client cannot change them. A pid can be used again
// since then; SO_PEERPIDFD (Linux 6.5) shows that.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "daemon/control/backend.hpp"
#include "libcore/base/result.hpp"

namespace flight::daemon {

// The command's name comes from /proc and is for display only: it is empty if the process has exited, and control
// characters become '?'.
[[nodiscard]] Result<Caller> peer_of(int socket_fd);

// Without the name, which costs the most.
[[nodiscard]] Result<Caller> unnamed_peer_of(int socket_fd);

// For peer_of(): the name of process `pid`, which SO_PEERCRED says; empty if /proc does not show it. nullopt: the
// client's process has ended, and any name could be another one's. Kernels before 6.5 do not say that. `root` as in
// cpus.hpp.
[[nodiscard]] std::optional<std::string> peer_comm(int socket_fd, pid_t pid, const std::string& root = "");
// For display: `comm` with '?' for characters that a terminal could interpret.
[[nodiscard]] std::string plain_comm(std::string comm);
// "flightctl (pid 12, uid 0)"; without the name if /proc does not show it.
[[nodiscard]] std::string name_of(const Caller& caller);

// Decides who may call which methods. Root, the daemon's own user and the members of its group may call all of them, as
// far as the user and the group are known.
struct ControlAccess {
  std::optional<uid_t> own_uid;
  std::optional<gid_t> group;
  std::optional<gid_t> trigger_group;  // its members may fire external triggers

  [[nodiscard]] bool trusts(const Caller& caller) const;
  [[nodiscard]] bool may_fire(const Caller& caller) const;
};

}  // namespace flight::daemon
