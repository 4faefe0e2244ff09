// SPDX-License-Identifier: Apache-2.0
// The broker's socket: mode 0600, in a directory with mode 0700; both belong to the client's user, and the peer's uid
// is checked as well. It serves one client at a time; a second one gets EBUSY and the pid of the first, and retries.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "daemon/broker/options.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

class Listener {
 public:
  // Replaces the socket of a dead broker; a running broker is an error. Call it before privileges are dropped: the
  // directory belongs to another user.
  [[nodiscard]] static Result<Listener> open(const BrokerOptions& options);
  // Uses a SOCK_SEQPACKET socket that listens already: systemd's, which also made its directory and mode.
  [[nodiscard]] static Result<Listener> adopt(UniqueFd socket, uid_t client_uid);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) noexcept = default;

  // With a spare descriptor if there is no other. nullopt: why is in the log. A peer with another uid was refused; or
  // no client can be accepted now: it stays in the queue, and accept_fd() leaves it there for a moment.
  [[nodiscard]] std::optional<UniqueFd> accept();
  // Accepts a client, and answers its request with this error.
  void refuse(int error_number, const std::string& why);
  // Replies EBUSY with the pid of `client` to a second client.
  void turn_away(int client);
  // For poll(2), each time anew. -1: try again later, or it would be readable all the time.
  [[nodiscard]] int accept_fd() const;

 private:
  using Clock = std::chrono::steady_clock;
  Listener(UniqueFd socket, uid_t client_uid) : socket_(std::move(socket)), client_uid_(client_uid) {}
  UniqueFd socket_;
  uid_t client_uid_;
  std::optional<Clock::time_point> failed_;  // the last attempt, for lack of descriptors or memory
  std::string trouble_;                      // why, as it was logged
};

}  // namespace flight::broker
