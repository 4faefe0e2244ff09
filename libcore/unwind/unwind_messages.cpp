// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/unwind_messages.hpp"

#include <sys/socket.h>

#include <cassert>
#include <cerrno>

#include "libcore/base/passed_fds.hpp"

namespace flight {

Result<void> send_unwind_message(int socket, const UnwindMessage& message, std::span<const int> fds) {
  assert(fds.size() <= kMaxUnwindFds);
  UnwindMessage copy = message;
  iovec part{.iov_base = &copy, .iov_len = sizeof copy};
  msghdr raw{};
  raw.msg_iov = &part;
  raw.msg_iovlen = 1;
  FdSpace<kMaxUnwindFds> space;
  if (!fds.empty()) attach_fds(raw, space.bytes, fds);
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &raw, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return sys_error(errno, "send a message about stacks");
  return {};
}

Result<UnwindMessage> receive_unwind_message(int socket, std::vector<UniqueFd>& fds) {
  fds.clear();
  UnwindMessage message;
  iovec part{.iov_base = &message, .iov_len = sizeof message};
  msghdr raw{};
  raw.msg_iov = &part;
  raw.msg_iovlen = 1;
  FdSpace<kMaxUnwindFds> space;
  raw.msg_control = space.bytes.data();
  raw.msg_controllen = space.bytes.size();
  ssize_t got = 0;
  do got = ::recvmsg(socket, &raw, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return sys_error(errno, "receive a message about stacks");
  take_fds(raw, fds);
  if (got == 0) return fail(std::errc::not_connected, "receive a message about stacks: the other side is gone");
  if (got != ssize_t{sizeof message} || (raw.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return fail(std::errc::bad_message, "a message about stacks has {} bytes, or descriptors are missing", got);
  return message;
}

}  // namespace flight
