// SPDX-License-Identifier: Apache-2.0
// The control socket: listens, admits clients, keeps the sessions. Every user may connect (the socket is 0666; access
// is decided per method), so the number of connections is limited per uid and per kind of user. At the limit, a new
// connection replaces the oldest idle one of the same user. Calls that can last may use only
// a part of each limit, so that clients that follow events, or wait for a disk that hangs, do not keep others from
// reading the status. Users other than root and flightd's own have a limited rate, too (call_rates.hpp). Event loop
// only; nothing here blocks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "daemon/control/call_rates.hpp"
#include "daemon/control/session.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

// Root, trusted users, users that may only fire triggers, and all others have separate limits, so that connections of
// one kind cannot exclude another kind. (Reserved slots within one common limit failed: group members used up all of
// them.) 128 are enough for a hundred scripts at once.
struct ControlLimits {
  std::size_t root = 128;
  std::size_t trusted = 192, per_trusted_uid = 128;
  std::size_t firing = 64, per_firing_uid = 16;  // users that may only fire triggers
  std::size_t strangers = 64, per_stranger_uid = 16;
  CallRateLimits rates{};
  SessionLimits session{};
};

class ControlServer {
 public:
  // Listens on `path`, mode 0666, and unlinks it at the end. A socket file without a listener is replaced; EADDRINUSE
  // if there is a listener, EEXIST if it is not a socket.
  [[nodiscard]] static Result<std::unique_ptr<ControlServer>> open(
      boost::asio::io_context& io, const std::string& path, ControlBackend& backend, ControlAccess access,
      ControlLimits limits = {}, const WaitingClock& clock = WaitingClock::monotonic());
  // Uses a socket that already listens (systemd's); its file is not unlinked.
  [[nodiscard]] static Result<std::unique_ptr<ControlServer>> adopt(
      boost::asio::io_context& io, UniqueFd listening, ControlBackend& backend, ControlAccess access,
      ControlLimits limits = {}, const WaitingClock& clock = WaitingClock::monotonic());
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // Closes every connection at once.
  ~ControlServer();

  // Stops accepting, finishes the running calls, closes. `closed` is called after the last connection has ended.
  void stop(std::function<void()> closed);

  [[nodiscard]] std::size_t connections() const { return sessions_.size(); }
  [[nodiscard]] std::uint64_t refused_connections() const { return refused_connections_; }
  [[nodiscard]] std::uint64_t dropped_connections() const { return dropped_connections_; }  // idle ones

 private:
  ControlServer(boost::asio::io_context& io, ControlBackend& backend, ControlAccess access, ControlLimits limits,
                const WaitingClock& clock, std::unique_ptr<TaskThread> reader)
      : io_(io),
        acceptor_(io),
        retry_timer_(io),
        backend_(backend),
        access_(access),
        limits_(limits),
        rates_(limits.rates, clock),
        reader_(std::move(reader)) {}
  void wait();
  void accept_some();
  void retry_after(std::chrono::milliseconds time);
  // False: it was refused because its user's rate is used up.
  bool admit_at_rate(UniqueFd fd);
  void admit(UniqueFd fd);
  void refuse_unwatched(const UniqueFd& fd, int error_number);
  // Whether this user's connections and calls have a rate.
  [[nodiscard]] bool has_rate(std::uint32_t uid) const;
  enum class Kind { root, trusted, firing, stranger };
  struct Places {
    std::size_t all = 0, of_uid = 0;  // of users of one kind, of one user
  };
  [[nodiscard]] Kind kind_of(const Caller& caller) const;
  [[nodiscard]] Places places_for(const Caller& caller) const;
  // The connections whose calls can last as long as `span`; brief: all.
  [[nodiscard]] Places taken(const Caller& caller, CallSpan span) const;
  // Why `caller` is refused; empty: it is admitted.
  [[nodiscard]] std::string refusal(const Caller& caller) const;
  [[nodiscard]] std::string refusal_of_call(const Caller& caller, CallSpan span) const;
  [[nodiscard]] bool drop_idle(std::uint32_t uid);  // false: that user has none
  void unlink_socket();
  void notify_when_closed();

  boost::asio::io_context& io_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  boost::asio::steady_timer retry_timer_;
  ControlBackend& backend_;
  ControlAccess access_;
  ControlLimits limits_;
  CallRates rates_;
  std::string path_;  // empty: not to be unlinked
  std::unordered_map<ControlSession*, std::shared_ptr<ControlSession>> sessions_;
  std::unique_ptr<TaskThread> reader_;                              // for snapshots that clients fetch
  std::unordered_map<const ControlSession*, std::uint64_t> order_;  // in the order of connecting
  std::uint64_t admitted_ = 0, refused_connections_ = 0, dropped_connections_ = 0;
  bool logged_unwatched_ = false;
  std::function<void()> closed_;
  // Handlers that are still in the loop's queue after the server is destroyed find this expired.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace flight::daemon
