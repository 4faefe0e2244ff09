// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/helpers/helper_messages.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "libcore/base/passed_fds.hpp"

namespace flight::broker {

namespace {

// Calls `step(done)`, which returns how many bytes more it moved (recv(2), send(2)), until all are done.
template <typename Step>
bool move_all(std::size_t bytes, const Step& step) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t moved = step(done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    done += static_cast<std::size_t>(moved);
  }
  return true;
}

}  // namespace

bool receive_exactly(int socket, void* out, std::size_t bytes) {
  return move_all(bytes, [&](std::size_t done) {
    return ::recv(socket, static_cast<std::byte*>(out) + done, bytes - done, MSG_WAITALL);
  });
}

bool send_exactly(int socket, const void* from, std::size_t bytes) {
  return move_all(bytes, [&](std::size_t done) {
    return ::send(socket, static_cast<const std::byte*>(from) + done, bytes - done, MSG_NOSIGNAL);
  });
}

bool send_frame(int socket, FrameKind kind, std::span<const std::byte> body) {
  const Frame frame{.kind = kind, .bytes = static_cast<std::uint32_t>(body.size())};
  return send_exactly(socket, &frame, sizeof frame) && send_exactly(socket, body.data(), body.size());
}

bool send_with_descriptor(int socket, const Frame& frame, int descriptor) {
  iovec part{.iov_base = const_cast<Frame*>(&frame), .iov_len = sizeof frame};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  FdSpace<1> space;
  attach_fds(message, space.bytes, std::span(&descriptor, 1));
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof frame);
}

bool receive_frame(int socket, Frame& frame, UniqueFd& descriptor) {
  FdSpace<1> space;
  iovec part{.iov_base = &frame, .iov_len = sizeof frame};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));  // room for one, and not for two
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  while (got < 0 && errno == EINTR);
  if (got > 0) descriptor = take_one_fd(message);
  return got == static_cast<ssize_t>(sizeof frame);
}

}  // namespace flight::broker
