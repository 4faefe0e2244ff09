// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a Unix socket, as the kernel says: SO_PEERCRED alone has no supplementary groups,
// SO_PEERGROUPS has (Linux 4.13). Both are of the moment of connect(2). Nothing the peer writes can change the answer.
#pragma once

#include <sys/types.h>

#include <optional>

#include "daemon/control_backend.hpp"
#include "libcore/base/result.hpp"

namespace flight {

// The command's name comes from /proc and is only for people: the process may be gone already (then it is empty), and
// control characters in it become '?'.
[[nodiscard]] Result<Caller> peer_of(int socket_fd);

// For people: `comm` with '?' for what a terminal could take for a command.
[[nodiscard]] std::string plain_comm(std::string comm);
// "flightctl (pid 12, uid 0)"; without the first where /proc does not tell it.
[[nodiscard]] std::string name_of(const Caller& caller);

// Who may call everything: root, and those of the other two that are known: the daemon's own user, its group's members.
struct ControlAccess {
  std::optional<uid_t> own_uid;
  std::optional<gid_t> group;
  std::optional<gid_t> trigger_group;  // its members may fire external triggers

  [[nodiscard]] bool trusts(const Caller& caller) const;
  [[nodiscard]] bool may_fire(const Caller& caller) const;
};

}  // namespace flight
