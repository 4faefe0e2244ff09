// SPDX-License-Identifier: Apache-2.0
#include "daemon/control_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace flight {
namespace {

constexpr int kBacklog = 128;  // how many may wait for accept(2)
constexpr mode_t kSocketMode = 0666;

Result<UniqueFd> new_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return sys_error(errno, "socket");
  return fd;
}

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

// Makes room at `path` if only a dead daemon's socket is there.
Result<void> clear_the_way(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return {};
    return sys_error(errno, "looking for the control socket {}", path);
  }
  if (!S_ISSOCK(found.st_mode))
    return fail(std::errc::file_exists, "{} is in the way of the control socket: it is no socket; move it away", path);
  auto probe = new_socket();
  if (!probe) return pass(probe.error());
  // EAGAIN: somebody listens, whose queue is full.
  if (::connect(probe->get(), generic(address), sizeof(address)) == 0 || errno == EAGAIN)
    return fail(std::errc::address_in_use,
                "another flightd answers on {}; stop it first, or give this one a --runtime-dir of its own", path);
  if (errno != ECONNREFUSED && errno != ENOENT)
    return sys_error(errno, "finding out whether another flightd answers on {}", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return sys_error(errno, "removing the control socket {} of a flightd that is gone", path);
  return {};
}

}  // namespace

Result<UniqueFd> listen_on(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return fail(std::errc::filename_too_long,
                "'{}' cannot be a socket's path: it must have 1 to {} bytes; use a shorter --runtime-dir", path,
                sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  if (auto cleared = clear_the_way(path, address); !cleared) return pass(cleared.error());
  auto fd = new_socket();
  if (!fd) return pass(fd.error());
  if (::bind(fd->get(), generic(address), sizeof(address)) != 0)
    return sys_error(errno, "making the control socket {}", path);
  // By path, after bind(2): the umask had its say there. Methods are guarded one by one, not by this mode.
  if (::chmod(path.c_str(), kSocketMode) != 0) return sys_error(errno, "chmod 0666 of the control socket {}", path);
  if (::listen(fd->get(), kBacklog) != 0) return sys_error(errno, "listening on {}", path);
  return fd;
}

}  // namespace flight
