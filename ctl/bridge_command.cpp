// SPDX-License-Identifier: Apache-2.0
// flightctl bridge: connects stdin and stdout to the control socket. --host runs it on the other machine.
//
//   stdin ──thread──▶ control socket ──▶ stdout
//
// The end of stdin closes only that half, because a reply may still come. The end of the socket or of stdout ends the
// bridge.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "ctl/output.hpp"
#include "ctl/patience.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/control/client.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kBufferBytes = 64U << 10U;
using Buffer = std::array<std::byte, kBufferBytes>;

// Returns the number of bytes read; 0 at the end or on an error.
std::size_t read_some(int fd, Buffer& buffer) {
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR) continue;
    pollfd ready{fd, POLLIN, 0};  // what was inherited may be O_NONBLOCK
    if (errno != EAGAIN || (::poll(&ready, 1, -1) < 0 && errno != EINTR)) return 0;
  }
}

void copy_in(int socket) {
  Buffer buffer;
  while (const std::size_t count = read_some(STDIN_FILENO, buffer))
    if (!write_all(socket, std::span(buffer).first(count))) break;
  ::shutdown(socket, SHUT_WR);
}

// Waits for bytes to read; false: stdout was closed. Without this check a Monitor without events would never end.
bool wait_for_answer(int socket) {
  std::array<pollfd, 2> watched{pollfd{socket, POLLIN, 0}, pollfd{STDOUT_FILENO, 0, 0}};
  for (;;) {
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return false;
    if (watched[0].revents != 0) return true;
    if (watched[1].revents != 0) return false;
  }
}

}  // namespace

int run_bridge(const Common& common) {
  Patience patience = patience_here(common.socket);
  auto socket = connect_control(common.socket, patience);
  if (!socket) return complain(common, kNotConnected, socket.error().what, kRefused);
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  // The thread may block in read(2) without limit; it ends with the process.
  auto thread = start_thread("copy", [fd = socket->get()] { copy_in(fd); });
  if (!thread) return complain(common, kNotConnected, thread.error().what, kRefused);
  thread->detach();
  Buffer buffer;
  while (wait_for_answer(socket->get())) {
    const std::size_t count = read_some(socket->get(), buffer);
    if (count == 0) ::_exit(kDone);
    if (!write_patiently(STDOUT_FILENO, std::span(buffer).first(count))) break;
  }
  ::_exit(kRefused);
}

}  // namespace flight::ctl
