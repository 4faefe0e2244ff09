// SPDX-License-Identifier: Apache-2.0
// flightd-broker's command line. Main thread only: it reads the environment and the user database. A service whose
// usage is wrong parses it again and again, because a user that does not exist may be known later. Nothing is opened or
// changed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>

namespace flight::broker {

struct BrokerOptions {
  int fd = -1;         // one client on an inherited socket; or
  int end_fd = -1;     // with fd: the reading end of a pipe whose other end is closed when the client ends; or none
  std::string socket;  // serve one client at a time on this path; empty: on the socket passed by systemd
  std::string runtime_dir;  // directory of the socket; created, 0700, owned by the client
  uid_t client_uid = 0;     // the user that may connect
  std::string config;       // empty: the default directories
  std::string state_dir = "/var/lib/flightd";
  std::optional<gid_t> group;    // flightd's group: it gets access to the files
  std::span<char> command_line;  // main's argv in memory
};

// The options, or the exit status (after --help, --version or a usage error, which is 2).
struct ParsedOptions {
  std::optional<BrokerOptions> options;
  int exit_status = 0;
  std::string usage;  // the error
};
[[nodiscard]] ParsedOptions parse_options(int argc, char** argv);

}  // namespace flight::broker
