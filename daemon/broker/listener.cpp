// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/log/log.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/unix_socket.hpp"
#include "libcore/broker/messages.hpp"

namespace flight::broker {
namespace {

constexpr int kBacklog = 4;
constexpr auto kUnchanged = static_cast<gid_t>(-1);

Result<void> make_folder(const std::string& path, uid_t owner) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    // Not own_now(): in a folder that it does not own, flightd could not connect.
    if (::chown(path.c_str(), owner, kUnchanged) != 0)
      return sys_error(errno, "give the runtime directory {} to uid {}", path, owner);
    return {};
  }
  if (errno != EEXIST) return sys_error(errno, "create the runtime directory {}", path);
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return sys_error(errno, "stat the runtime directory {}", path);
  const bool trusted = status.st_uid == owner || status.st_uid == 0 || status.st_uid == ::geteuid();
  if (!S_ISDIR(status.st_mode) || !trusted || (status.st_mode & 022U) != 0)
    return fail(std::errc::permission_denied,
                "the runtime directory {} is not a directory that only uid {} may write to: chmod 0700 it, or select "
                "another with --runtime-dir",
                path, owner);
  return {};
}

}  // namespace

Result<Listener> Listener::open(const BrokerOptions& options) {
  if (auto made = make_folder(options.runtime_dir, options.client_uid); !made) return propagate(made.error());
  auto socket = listen_on(options.socket,
                          {.type = SOCK_SEQPACKET, .backlog = kBacklog, .mode = 0600, .listener = "flightd-broker"});
  if (!socket) return propagate(socket.error());
  if (options.client_uid != ::geteuid() && ::lchown(options.socket.c_str(), options.client_uid, kUnchanged) != 0)
    return sys_error(errno, "give the socket {} to uid {}", options.socket, options.client_uid);
  return Listener(std::move(*socket), options.client_uid);
}

Result<Listener> Listener::adopt(UniqueFd socket, uid_t client_uid) {
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return sys_error(errno, "make the socket passed by systemd non-blocking");
  return Listener(std::move(socket), client_uid);
}

std::optional<UniqueFd> Listener::accept() {
  const SpareDescriptors::Use use;
  UniqueFd client = with_spare([this] { return ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC); });
  if (!client) {
    const Error why = sys_error(errno, "accept flightd's connection").value();
    if (why.errno_value() == EAGAIN || why.errno_value() == EINTR || why.errno_value() == ECONNABORTED)
      return std::nullopt;
    failed_ = Clock::now();
    if (why.what != std::exchange(trouble_, why.what))
      log::warn("{}{}; trying again", why.what, descriptor_advice(why));
    return std::nullopt;
  }
  failed_.reset();
  if (!std::exchange(trouble_, {}).empty()) log::info("connections are accepted again");
  const auto peer = peer_credentials(client.get());
  if (peer && peer->uid == client_uid_) return client;
  if (peer)
    log::warn("refused process {} of uid {}: only uid {} may attach", peer->pid, peer->uid, client_uid_);
  else
    log::warn("{}", peer.error().what);
  return std::nullopt;
}

// Reads what the client has already sent: closing a socket with unread data would discard the reply.
void Listener::refuse(int error_number, const std::string& why) {
  const auto client = accept();
  if (!client) return;
  ReplyHeader header;
  header.failed = 1;
  header.error_number = error_number;
  static_cast<void>(send_message(client->get(), header, why, {}));
  ::shutdown(client->get(), SHUT_RD);
  while (receive_request(client->get())) {
  }
}

void Listener::turn_away(int client) {
  const auto served = peer_credentials(client);
  const std::string why =
      fmt::format("flightd-broker already serves another flightd, process {}: stop it first", served ? served->pid : 0);
  log::warn("refused a second flightd: {}", why);
  refuse(EBUSY, why);
}

int Listener::accept_fd() const {
  constexpr std::chrono::milliseconds kPause(100);
  return failed_ && Clock::now() - *failed_ < kPause ? -1 : socket_.get();
}

}  // namespace flight::broker
