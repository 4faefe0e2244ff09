// SPDX-License-Identifier: Apache-2.0
// Another machine, as `systemctl -H` names it, and how ssh runs flightctl there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight::ctl {

struct Host {
  std::string destination;  // [USER@]HOST, for ssh
  std::string port;         // empty: what ssh's own configuration says
};

// "[USER@]HOST[:PORT]"; an IPv6 address with a port stands in brackets. EINVAL: it is none, or it begins with '-', or
// it has what a shell or ssh would take for more than a name.
[[nodiscard]] Result<Host> parse_host(std::string_view text);

// For execvp(3): ssh, by which `flightctl COMMAND` runs there. $FLIGHTCTL_SSH is another program for ssh. An empty
// `socket`: the default of the other side.
[[nodiscard]] std::vector<std::string> ssh_words(const Host& host, const std::string& socket, std::string_view command);

// Why ssh ended with `status`, 1 to 255, and `said` this on stderr: one sentence. 255: no connection; 127: no
// flightctl.
[[nodiscard]] std::string ssh_failure(const Host& host, int status, std::string_view said);

}  // namespace flight::ctl
