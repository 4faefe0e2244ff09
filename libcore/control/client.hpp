// SPDX-License-Identifier: Apache-2.0
// A blocking Varlink client on a Unix socket, used by flightctl.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
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

// The begin of a peer's first answer. Behind ssh, the start-up files of a shell may print something instead.
struct FirstAnswer {
  bool (*fits)(std::string_view received);  // whether it can be the begin of an answer
  bool (*found)(std::string_view received);
  std::string received = {};
};
// Reads until `found`, and so ends the wait of `patience`. EBADMSG: something else came, and the connection was not
// closed within 2 s; ECONNRESET: it was; EMSGSIZE: more than 1 MiB came. The text has the first line of what came.
[[nodiscard]] Result<void> wait_for_answer(int fd, FirstAnswer& first, Patience& patience);
// Whether `text` can be the begin of a JSON object, or of an array of objects.
[[nodiscard]] bool begins_object(std::string_view text);
[[nodiscard]] bool begins_list(std::string_view text);
// "'Welcome to web3' came instead of an answer": the first line of `received`, printable and cut; empty: it is blank.
[[nodiscard]] std::string noise_text(std::string_view received);

class ControlClient {
 public:
  // As connect_control().
  [[nodiscard]] static Result<ControlClient> connect(const std::string& socket_path, Patience& patience);
  // Uses a stream socket that is connected to a daemon in another way, such as ssh.
  [[nodiscard]] static ControlClient on(UniqueFd connected) { return ControlClient(std::move(connected)); }

  // Calls GetInfo, which flightd answers at once whatever another call waits for. Without an answer in time, nothing
  // was asked of flightd that it might still do later. Errors as of wait_for_answer().
  [[nodiscard]] Result<Reply> greet(Patience& patience);
  // What was received so far and is no whole message.
  [[nodiscard]] std::string_view unanswered() const { return received_; }
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
