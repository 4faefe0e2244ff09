// SPDX-License-Identifier: Apache-2.0
// A connection to flightd: to the control socket of this machine, or with --host through ssh to `flightctl bridge` on
// another machine. One connection is one ssh. The first call waits for a sign of life first (patience.hpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "ctl/child.hpp"
#include "ctl/commands.hpp"
#include "ctl/host.hpp"
#include "libcore/control/client.hpp"

namespace flight::ctl {

// A possible cause of output that is not flightctl's, and of none.
inline constexpr std::string_view kNoisyShell = "do the start-up files of the shell there print something?";

class Connection {
 public:
  [[nodiscard]] static Result<Connection> open(const Common& common);
  Connection(Connection&&) noexcept = default;
  Connection& operator=(Connection&& other) noexcept {
    std::swap(client_, other.client_);
    std::swap(patience_, other.patience_);
    std::swap(ssh_, other.ssh_);
    return *this;
  }
  ~Connection();  // closes it, and gives ssh a moment to exit

  // As in ControlClient. If the connection fails, the error contains the output of ssh.
  [[nodiscard]] Result<Reply> call(const Call& call, const std::function<void(const Reply&)>& progress = {});
  [[nodiscard]] Result<std::size_t> read_raw(std::span<char> buffer);

 private:
  struct Ssh {
    Host host;
    Child child;
  };
  Connection(ControlClient client, Patience patience, std::unique_ptr<Ssh> ssh = nullptr)
      : client_(std::move(client)), patience_(std::move(patience)), ssh_(std::move(ssh)) {}
  [[nodiscard]] Error explained(Error error);
  std::optional<ControlClient> client_;
  std::optional<Patience> patience_;  // until the first answer
  std::unique_ptr<Ssh> ssh_;          // null: this machine
};

// The output of `flightctl COMMAND` on --host, up to 1 MiB. The exit status must be 0, or 1 without a message on
// stderr. It must be a list, whose first byte the command writes at once.
[[nodiscard]] Result<std::string> output_there(const Common& common, std::string_view command);

}  // namespace flight::ctl
