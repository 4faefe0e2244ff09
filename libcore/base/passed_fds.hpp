// SPDX-License-Identifier: Apache-2.0
// Descriptors that a message over a Unix socket carries (SCM_RIGHTS; unix(7), cmsg(3)).
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "libcore/base/unique_fd.hpp"

namespace flight {

// Memory for at most `Most` descriptors of one message.
template <std::size_t Most>
struct FdSpace {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(Most * sizeof(int))> bytes{};
};

// For sendmsg(2). The receiver gets descriptors of its own; `fds` stay the caller's. At most as many as `space` has
// room for; `space` must live as long as `message`.
void attach_fds(msghdr& message, std::span<std::byte> space, std::span<const int> fds);

// After recvmsg(2), also of a message that is not used: appends every descriptor that came with it, and owns it.
void take_fds(msghdr& message, std::vector<UniqueFd>& out);
// The same where one is expected: the descriptor that came with it. None: there was none, or more than one, which are
// closed.
[[nodiscard]] UniqueFd take_one_fd(msghdr& message);

}  // namespace flight
