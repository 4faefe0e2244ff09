// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/listener.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "libcore/broker/wall.hpp"

namespace flight {
namespace {

constexpr int kBacklog = 4;
constexpr auto kUnchanged = static_cast<gid_t>(-1);

Result<ucred> peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return sys_error(errno, "ask who the client is");
  return peer;
}

Result<void> make_folder(const std::string& path, uid_t owner) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    if (::chown(path.c_str(), owner, kUnchanged) != 0)
      return sys_error(errno, "give the runtime folder {} to uid {}", path, owner);
    return {};
  }
  if (errno != EEXIST) return sys_error(errno, "make the runtime folder {}", path);
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return sys_error(errno, "look at the runtime folder {}", path);
  const bool trusted = status.st_uid == owner || status.st_uid == 0 || status.st_uid == ::geteuid();
  if (!S_ISDIR(status.st_mode) || !trusted || (status.st_mode & 022U) != 0)
    return fail(std::errc::permission_denied,
                "the runtime folder {} is no folder that only uid {} may write to: chmod 0700 it, or name another by "
                "--runtime-dir",
                path, owner);
  return {};
}

}  // namespace

Result<Listener> Listener::open(const BrokerOptions& options) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.socket.size() >= sizeof address.sun_path)
    return fail(std::errc::filename_too_long, "--socket {}: a socket's path has at most {} bytes", options.socket,
                sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, options.socket.c_str(), options.socket.size() + 1);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (auto made = make_folder(options.runtime_dir, options.client_uid); !made) return pass(made.error());

  UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return sys_error(errno, "socket");
  if (::connect(probe.get(), raw, sizeof address) == 0 || errno == EAGAIN)
    return fail(std::errc::address_in_use, "another flightd-broker listens on {}", options.socket);
  ::unlink(options.socket.c_str());

  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return sys_error(errno, "socket");
  const mode_t old_mask = ::umask(0177);
  const int bound = ::bind(socket.get(), raw, sizeof address);
  const int error_number = errno;
  ::umask(old_mask);
  if (bound != 0) return sys_error(error_number, "bind the socket {}", options.socket);
  if (options.client_uid != ::geteuid() && ::lchown(options.socket.c_str(), options.client_uid, kUnchanged) != 0)
    return sys_error(errno, "give the socket {} to uid {}", options.socket, options.client_uid);
  if (::listen(socket.get(), kBacklog) != 0) return sys_error(errno, "listen on {}", options.socket);
  return Listener(std::move(socket), options.client_uid);
}

Result<Listener> Listener::adopt(UniqueFd socket, uid_t client_uid) {
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return sys_error(errno, "make the socket that systemd handed down non-blocking");
  return Listener(std::move(socket), client_uid);
}

Result<UniqueFd> Listener::accept() const {
  UniqueFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return sys_error(errno, "accept a client");
  const auto peer = peer_of(client.get());
  if (!peer) return pass(peer.error());
  if (peer->uid != client_uid_)
    return fail(std::errc::permission_denied, "process {} of uid {} was turned away: only uid {} may attach", peer->pid,
                peer->uid, client_uid_);
  return client;
}

// What it asked already is read and no more is taken: a socket that is closed with something unread takes the answer
// along.
void Listener::turn_away(int client) const {
  const auto other = accept();
  if (!other) return spdlog::warn("{}", other.error().what);
  const auto served = peer_of(client);
  const std::string why = fmt::format("flightd-broker serves another flightd already, process {}: end that one first",
                                      served ? served->pid : 0);
  spdlog::warn("a second flightd was turned away: {}", why);
  ReplyHeader header;
  header.failed = 1;
  header.error_number = EBUSY;
  static_cast<void>(send_message(other->get(), header, why, {}));
  ::shutdown(other->get(), SHUT_RD);
  while (receive_request(other->get())) {
  }
}

}  // namespace flight
