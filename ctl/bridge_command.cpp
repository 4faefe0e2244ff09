// SPDX-License-Identifier: Apache-2.0
// flightctl bridge: stdin and stdout are a connection to the control socket; what --host runs on the other side.
//
//   stdin ──thread──▶ control socket ──▶ stdout
//
// The end of stdin closes that half only: an answer may still be to come. The end of the socket, or nobody behind
// stdout any more, is the end of it all.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include "ctl/output.hpp"
#include "libcore/base/files.hpp"
#include "libcore/control/client.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kBufferBytes = 64U << 10U;
using Buffer = std::array<std::byte, kBufferBytes>;

// Of the next bytes; 0: the end, or an error.
std::size_t read_some(int fd, Buffer& buffer) {
  ssize_t count = 0;
  do count = ::read(fd, buffer.data(), buffer.size());
  while (count < 0 && errno == EINTR);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

void copy_in(int socket) {
  Buffer buffer;
  while (const std::size_t count = read_some(STDIN_FILENO, buffer))
    if (!write_all(socket, std::span(buffer).first(count))) break;
  ::shutdown(socket, SHUT_WR);
}

// Whether there is something to read; false: nobody is behind stdout. Else a listener on a quiet day would stay there
// for ever.
bool wait_for_bytes(int socket) {
  std::array<pollfd, 2> watched{pollfd{socket, POLLIN, 0}, pollfd{STDOUT_FILENO, 0, 0}};
  for (;;) {
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return false;
    if (watched[0].revents != 0) return true;
    if (watched[1].revents != 0) return false;
  }
}

}  // namespace

int run_bridge(const Common& common) {
  auto socket = connect_control(common.socket);
  if (!socket) return complain(common, kNotConnected, socket.error().what, kRefused);
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  // It may wait in read(2) for ever, and ends with the process.
  std::thread(copy_in, socket->get()).detach();
  Buffer buffer;
  while (wait_for_bytes(socket->get())) {
    const std::size_t count = read_some(socket->get(), buffer);
    if (count == 0) ::_exit(kDone);
    if (!write_all(STDOUT_FILENO, std::span(buffer).first(count))) break;
  }
  ::_exit(kRefused);
}

}  // namespace flight::ctl
