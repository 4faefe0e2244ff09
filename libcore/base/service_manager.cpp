// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/service_manager.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "libcore/base/unix_socket.hpp"

namespace flight {

Result<void> notify_service_manager(const std::string& text, std::chrono::milliseconds within, int fd) {
  const char* found = std::getenv("NOTIFY_SOCKET");
  if (found == nullptr) return {};
  const std::string path = found;
  auto address = UnixAddress::of(path, "$NOTIFY_SOCKET");
  if (!address) return propagate(address.error());
  const auto socket = open_unix_socket(SOCK_DGRAM);
  if (!socket) return propagate(socket.error());
  send_within(socket->get(), within);

  std::string words = text;
  iovec part{words.data(), words.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = address->raw();
  message.msg_namelen = address->size();
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(item), &fd, sizeof fd);
  }
  while (::sendmsg(socket->get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return sys_error(EAGAIN, "systemd does not read its notification socket {}", path);
    return sys_error(errno, "send to systemd's notification socket {}", path);
  }
  return {};
}

}  // namespace flight
