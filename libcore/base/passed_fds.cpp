// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/passed_fds.hpp"

#include <cstring>
#include <utility>

namespace flight {

void attach_fds(msghdr& message, std::span<std::byte> space, std::span<const int> fds) {
  message.msg_control = space.data();
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
}

void take_fds(msghdr& message, std::vector<UniqueFd>& out) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
}

UniqueFd take_one_fd(msghdr& message) {
  std::vector<UniqueFd> taken;
  take_fds(message, taken);
  return taken.size() == 1 ? std::move(taken.front()) : UniqueFd();
}

}  // namespace flight
