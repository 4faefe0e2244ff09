// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/raw_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace flight {
namespace {

bool wait_for(int fd, short what, Milliseconds limit) {
  pollfd watched{.fd = fd, .events = what, .revents = 0};
  return poll(&watched, 1, static_cast<int>(limit.count())) > 0;
}

}  // namespace

RawSocket RawSocket::connect(const std::string& path) {
  RawSocket socket;
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) socket.fd_ = std::move(fd);
  return socket;
}

bool RawSocket::send(std::string_view bytes, Milliseconds limit) {
  while (!bytes.empty()) {
    ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN || !wait_for(fd_.get(), POLLOUT, limit)) {
      return false;
    }
  }
  return true;
}

std::optional<std::string> RawSocket::receive(Milliseconds limit) {
  for (;;) {
    if (std::size_t end = received_.find('\0'); end != std::string::npos) {
      std::string message = received_.substr(0, end);
      received_.erase(0, end + 1);
      return message;
    }
    char buffer[65536];
    if (!wait_for(fd_.get(), POLLIN, limit)) return std::nullopt;
    ssize_t got = recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return std::nullopt;
    received_.append(buffer, static_cast<std::size_t>(got));
  }
}

bool RawSocket::closed(Milliseconds limit) {
  char byte = 0;
  return received_.empty() && wait_for(fd_.get(), POLLIN, limit) && recv(fd_.get(), &byte, 1, 0) <= 0;
}

}  // namespace flight
