// SPDX-License-Identifier: Apache-2.0
// The socket on which flightd comes back to a broker that outlives it: 0600, in a 0700 folder, both the client's, and
// the peer's uid is checked besides. One client at a time; who comes meanwhile is told so.
#pragma once

#include <string>

#include "daemon/broker/options.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class Listener {
 public:
  // Replaces the socket of a dead broker; a living one is an error. Before privileges are dropped: the folder is
  // another user's.
  [[nodiscard]] static Result<Listener> open(const BrokerOptions& options);
  // One that listens already, SOCK_SEQPACKET: systemd's, which made its folder and mode.
  [[nodiscard]] static Result<Listener> adopt(UniqueFd socket, uid_t client_uid);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) noexcept = default;

  // EACCES: a peer of another uid, turned away.
  [[nodiscard]] Result<UniqueFd> accept() const;
  // Who knocks while `client` is served is answered EBUSY, with the client's pid.
  void turn_away(int client) const;
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  Listener(UniqueFd socket, uid_t client_uid) : socket_(std::move(socket)), client_uid_(client_uid) {}
  UniqueFd socket_;
  uid_t client_uid_;
};

}  // namespace flight
