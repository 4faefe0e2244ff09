// SPDX-License-Identifier: Apache-2.0
// Another machine, named as for `systemctl -H`, and the ssh command that runs flightctl there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight::ctl {

struct Host {
  std::string destination;  // [USER@]HOST, for ssh
  std::string port;         // empty: from ssh's own configuration
};

// Parses "[USER@]HOST[:PORT]"; an IPv6 address with a port is in brackets. EINVAL: another form, a name that begins
// with '-', or a character that a shell or ssh interprets.
[[nodiscard]] Result<Host> parse_host(std::string_view text);

// Words for execvp(3): ssh, which runs `flightctl COMMAND` there. $FLIGHTCTL_SSH replaces ssh. With an empty `socket`,
// the other flightctl uses its default.
[[nodiscard]] std::vector<std::string> ssh_words(const Host& host, const std::string& socket, std::string_view command);

// The last part of `output` as one printable line.
[[nodiscard]] std::string last_words(std::string_view output);

// Explains in one sentence why ssh exited with `status` (1 to 255) and wrote `output` to stderr. 255: no connection;
// 127: no flightctl.
[[nodiscard]] std::string ssh_failure(const Host& host, int status, std::string_view output);

}  // namespace flight::ctl
