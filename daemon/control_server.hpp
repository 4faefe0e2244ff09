// SPDX-License-Identifier: Apache-2.0
// The control socket: listens, says who may connect, keeps the sessions. Everybody may connect (the socket is 0666, the
// methods are guarded one by one), so the number of connections is bounded per uid and in all, and root and the group
// have places of their own: a user who opens all he can costs nobody else. Event loop only; nothing here blocks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "daemon/control_session.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// Root, those whom ControlAccess trusts, and strangers have places of their own each: no crowd of one kind shuts out
// another kind. Strangers may only ask what flightd is; whom it trusts may have a hundred scripts at once.
struct ControlLimits {
  std::size_t root = 128;
  std::size_t trusted = 192, per_trusted_uid = 128;
  std::size_t firing = 64, per_firing_uid = 16;  // who may fire triggers, and nothing else
  std::size_t strangers = 64, per_stranger_uid = 16;
  SessionLimits session{};
};

class ControlServer {
 public:
  // Listens on `path`, mode 0666, and unlinks it at the end. A socket that is there already is unlinked when nobody
  // listens on it; EADDRINUSE when somebody does, EEXIST when it is no socket.
  [[nodiscard]] static Result<std::unique_ptr<ControlServer>> open(boost::asio::io_context& io, const std::string& path,
                                                                   ControlBackend& backend, ControlAccess access,
                                                                   ControlLimits limits = {});
  // On a socket that listens already (systemd's); its file is not ours to unlink.
  [[nodiscard]] static Result<std::unique_ptr<ControlServer>> adopt(boost::asio::io_context& io, UniqueFd listening,
                                                                    ControlBackend& backend, ControlAccess access,
                                                                    ControlLimits limits = {});
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // Closes every connection at once.
  ~ControlServer();

  // Accepts nobody any more, answers the calls under way, closes. `closed` is called when the last connection is gone.
  void stop(std::function<void()> closed);

  [[nodiscard]] std::size_t connections() const { return sessions_.size(); }
  [[nodiscard]] std::uint64_t refused_connections() const { return refused_connections_; }

 private:
  ControlServer(boost::asio::io_context& io, ControlBackend& backend, ControlAccess access, ControlLimits limits)
      : io_(io), acceptor_(io), retry_timer_(io), backend_(backend), access_(access), limits_(limits) {}
  void wait();
  void accept_some();
  void retry_later();
  void admit(UniqueFd fd);
  [[nodiscard]] std::string refusal(const Caller& caller) const;
  void unlink_socket();
  void tell_when_closed();

  boost::asio::io_context& io_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::steady_timer retry_timer_;
  ControlBackend& backend_;
  ControlAccess access_;
  ControlLimits limits_;
  std::string path_;  // empty: not ours to unlink
  std::unordered_map<ControlSession*, std::shared_ptr<ControlSession>> sessions_;
  boost::asio::thread_pool reader_{1};  // of snapshots that clients fetch
  std::uint64_t refused_connections_ = 0;
  std::function<void()> closed_;
  // Handlers that are in the loop's queue when the server goes away find it expired.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace flight
