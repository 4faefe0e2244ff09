// SPDX-License-Identifier: Apache-2.0
// A blocking Varlink client on a Unix socket, used by flightctl.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/control/varlink.hpp"

namespace flight {

// How long to wait for the first answer of a peer that may hang. At `until`, `over` decides: its error ends the wait;
// without one the wait goes on and has no limit.
struct Patience {
  std::chrono::steady_clock::time_point until;
  std::function<Result<void>()> over;
};

// A connected stream socket. ENOENT or, after 2 s, ECONNREFUSED: flightd does not run; the text says how to start it.
// `patience`: the queue of the listener may be full.
[[nodiscard]] Result<UniqueFd> connect_control(const std::string& socket_path, Patience& patience);
// Waits until `fd` has bytes or was closed.
[[nodiscard]] Result<void> wait_for_bytes(int fd, Patience& patience);

class ControlClient {
 public:
  // As connect_control().
  [[nodiscard]] static Result<ControlClient> connect(const std::string& socket_path, Patience& patience);
  // Uses a stream socket that is connected to a daemon in another way, such as ssh.
  [[nodiscard]] static ControlClient on(UniqueFd connected) { return ControlClient(std::move(connected)); }

  // Calls GetInfo, which flightd answers at once whatever another call waits for. Without an answer in time, nothing
  // was asked of flightd that it might still do later.
  [[nodiscard]] Result<Reply> greet(Patience& patience);
  // Sends the call and waits for its last reply, without a limit. `progress` gets the replies before it (`more`). An
  // error *reply* is a Reply with `error` set; the Result fails only when the connection does.
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
