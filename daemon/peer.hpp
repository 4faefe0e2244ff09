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

// Who may call everything: root, the daemon's own user and the members of its group. Without a group: the first two.
struct ControlAccess {
  uid_t own_uid = 0;
  std::optional<gid_t> group;

  [[nodiscard]] bool trusts(const Caller& caller) const;
};

}  // namespace flight
