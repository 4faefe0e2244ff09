// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/unix_socket.hpp"
#include "libcore/base/spare_descriptors.hpp"

#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace flight {
namespace {

constexpr mode_t kOwnerOnly = 0600;

// Unlinks a socket file without a listener at `path`, and nothing else.
Result<void> remove_dead_socket(const std::string& path, const UnixAddress& address, const UnixListen& how) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return {};
    return sys_error(errno, "stat the socket {}", path);
  }
  if (!S_ISSOCK(found.st_mode)) return fail(std::errc::file_exists, "{} is not a socket: move it away", path);
  auto probe = open_unix_socket(how.type | SOCK_NONBLOCK);
  if (!probe) return propagate(probe.error());
  const auto connected = connect_to(probe->get(), address);
  const int error_number = connected ? 0 : connected.error().errno_value();
  // EAGAIN: the listener's queue is full.
  if (error_number == 0 || error_number == EAGAIN)
    return fail(std::errc::address_in_use, "another {} listens on {}; stop it first, or use another --runtime-dir",
                how.listener, path);
  if (error_number != ECONNREFUSED && error_number != ENOENT)
    return sys_error(error_number, "check whether another {} listens on {}", how.listener, path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return sys_error(errno, "remove the socket {} of a {} that has ended", path, how.listener);
  return {};
}

Failure not_bound(int error_number, const std::string& path) {
  if (error_number == EROFS)
    return fail(std::errc::read_only_file_system,
                "cannot make the socket {}: its file system is read-only; mount it writable, or use another "
                "--runtime-dir (--socket of flightd-broker)",
                path);
  return sys_error(error_number, "bind the socket {}", path);
}

// Creates the file with its final mode: if others may not connect, it never has another mode.
Result<void> bind_to(int socket, const std::string& path, const UnixAddress& address, mode_t mode) {
  const bool owner_only = mode == kOwnerOnly;
  const mode_t old_mask = owner_only ? ::umask(0777 & ~kOwnerOnly) : 0;
  const int bound = ::bind(socket, address.raw(), address.size());
  const int error_number = errno;
  if (owner_only) ::umask(old_mask);
  if (bound != 0) return not_bound(error_number, path);
  if (!owner_only && ::chmod(path.c_str(), mode) != 0) return sys_error(errno, "chmod {:04o} {}", mode, path);
  return {};
}

}  // namespace

Result<UnixAddress> UnixAddress::of(std::string_view path, std::string_view what) {
  UnixAddress out;
  out.address_.sun_family = AF_UNIX;
  constexpr std::size_t kMostBytes = sizeof out.address_.sun_path - 1;
  if (path.empty() || path.size() > kMostBytes)
    return fail(std::errc::filename_too_long, "{} '{}': the path of a socket has 1 to {} bytes", what, path,
                kMostBytes);
  path.copy(out.address_.sun_path, path.size());
  if (path.front() == '@') out.address_.sun_path[0] = '\0';
  out.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (path.front() == '@' ? 0 : 1));
  return out;
}

Result<UniqueFd> open_unix_socket(int type) {
  UniqueFd fd = with_spare([&] { return ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0); });
  if (!fd) return sys_error(errno, "open a Unix socket");
  return fd;
}

Result<SocketPair> socket_pair(int type) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) return sys_error(errno, "make a socket pair");
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<UniqueFd> listen_on(const std::string& path, const UnixListen& how) {
  const auto address = UnixAddress::of(path, "the socket");
  if (!address) return propagate(address.error());
  if (auto removed = remove_dead_socket(path, *address, how); !removed) return propagate(removed.error());
  auto fd = open_unix_socket(how.type | SOCK_NONBLOCK);
  if (!fd) return propagate(fd.error());
  if (auto bound = bind_to(fd->get(), path, *address, how.mode); !bound) return propagate(bound.error());
  if (::listen(fd->get(), how.backlog) != 0) return sys_error(errno, "listen on {}", path);
  return fd;
}

Result<void> connect_to(int socket, const UnixAddress& address) {
  while (::connect(socket, address.raw(), address.size()) != 0)
    if (errno != EINTR) return sys_error(errno, "connect");
  return {};
}

void send_within(int socket, std::chrono::milliseconds limit) {
  const auto ms = std::max<std::chrono::milliseconds::rep>(limit.count(), 1);
  const timeval time{.tv_sec = static_cast<time_t>(ms / 1000), .tv_usec = static_cast<suseconds_t>(ms % 1000 * 1000)};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

Result<ucred> peer_credentials(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return sys_error(errno, "read the credentials of a socket's peer (SO_PEERCRED)");
  return peer;
}

}  // namespace flight
