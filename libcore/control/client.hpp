// SPDX-License-Identifier: Apache-2.0
// A blocking Varlink client on a Unix socket, used by flightctl.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/control/varlink.hpp"

namespace flight {

// A connected stream socket. ENOENT or, after 2 s, ECONNREFUSED: flightd does not run; the text says how to start it.
[[nodiscard]] Result<UniqueFd> connect_control(const std::string& socket_path);

class ControlClient {
 public:
  // As connect_control().
  [[nodiscard]] static Result<ControlClient> connect(const std::string& socket_path);
  // Uses a stream socket that is connected to a daemon in another way, such as ssh.
  [[nodiscard]] static ControlClient on(UniqueFd connected) { return ControlClient(std::move(connected)); }

  // Sends the call and waits for its last reply. `progress` gets the replies before it (`more`). An error *reply* is a
  // Reply with `error` set; the Result fails only when the connection does.
  [[nodiscard]] Result<Reply> call(const Call& call, const std::function<void(const Reply&)>& progress = {});
  // Call it after the reply to a call that upgrades the connection. Returns the number of raw bytes read; 0: the
  // daemon has closed the connection.
  [[nodiscard]] Result<std::size_t> read_raw(std::span<char> buffer);

 private:
  explicit ControlClient(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  std::string received_;
};

}  // namespace flight
