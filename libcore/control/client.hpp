// SPDX-License-Identifier: Apache-2.0
// A blocking Varlink client on a Unix socket: what flightctl is built on.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/control/varlink.hpp"

namespace flight {

// A stream socket, connected. ENOENT or, after 2 s, ECONNREFUSED: no daemon is there; the text says how to start it.
[[nodiscard]] Result<UniqueFd> connect_control(const std::string& socket_path);

class ControlClient {
 public:
  // As connect_control().
  [[nodiscard]] static Result<ControlClient> connect(const std::string& socket_path);
  // On a stream socket that leads to a daemon by another way, such as ssh.
  [[nodiscard]] static ControlClient on(UniqueFd connected) { return ControlClient(std::move(connected)); }

  // Sends the call and waits for its last reply. `progress` gets the replies before it (`more`). An error *reply* is a
  // Reply with `error` set; the Result fails only when the connection does.
  [[nodiscard]] Result<Reply> call(const Call& call, const std::function<void(const Reply&)>& progress = {});
  // After the reply to a call that upgrades the connection: the next raw bytes; 0: the daemon has closed it.
  [[nodiscard]] Result<std::size_t> read_raw(std::span<char> buffer);

 private:
  explicit ControlClient(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  std::string received_;
};

}  // namespace flight
