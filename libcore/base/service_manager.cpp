// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/service_manager.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <span>
#include <utility>

#include "libcore/base/passed_fds.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight {
namespace {

// Where there is no descriptor (RLIMIT_NOFILE, fs.file-max), the main thread gives up stdin for it, which a service
// does not read: without READY=1, systemd ends a service that waits for descriptors.
Result<UniqueFd> open_socket() {
  static bool has_stdin = true;  // main thread's
  auto opened = open_unix_socket(SOCK_DGRAM);
  if (opened) return opened;
  const int why = opened.error().errno_value();
  if ((why != EMFILE && why != ENFILE) || ::gettid() != ::getpid() || !has_stdin) return opened;
  ::close(STDIN_FILENO);
  opened = open_unix_socket(SOCK_DGRAM);
  has_stdin = false;
  if (opened) return opened;
  // Another process took the file. If there is one again now, this can be tried again.
  UniqueFd null(::open("/dev/null", O_RDONLY));
  has_stdin = null.get() == STDIN_FILENO;
  if (has_stdin) static_cast<void>(null.release());
  return opened;
}

}  // namespace

Result<void> notify_service_manager(const std::string& text, std::chrono::milliseconds within, int fd) {
  const char* found = std::getenv("NOTIFY_SOCKET");
  if (found == nullptr) return {};
  const std::string path = found;
  auto address = UnixAddress::of(path, "$NOTIFY_SOCKET");
  if (!address) return propagate(address.error());
  // Kept: without a descriptor for it, WATCHDOG=1 would not arrive, and systemd would kill a process that works. Each
  // thread has one because the time limit belongs to the socket.
  static thread_local UniqueFd socket;
  if (!socket) {
    auto opened = open_socket();
    if (!opened) return propagate(opened.error());
    socket = std::move(*opened);
  }
  send_within(socket.get(), within);

  std::string words = text;
  iovec part{words.data(), words.size()};
  msghdr message{};
  message.msg_name = address->raw();
  message.msg_namelen = address->size();
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  FdSpace<1> space;
  if (fd >= 0) attach_fds(message, space.bytes, std::span(&fd, 1));
  while (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return sys_error(EAGAIN, "systemd does not read its notification socket {}", path);
    return sys_error(errno, "send to systemd's notification socket {}", path);
  }
  return {};
}

}  // namespace flight
