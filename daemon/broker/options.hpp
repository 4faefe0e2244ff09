// SPDX-License-Identifier: Apache-2.0
// flightd-broker's command line.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace flight {

struct BrokerOptions {
  int fd = -1;              // one client on an inherited socket; or
  std::string socket;       // one after the other on this path; empty: on the socket that systemd hands down
  std::string runtime_dir;  // the socket's folder; made, 0700, the client's
  uid_t client_uid = 0;     // who may connect
  std::string config;       // empty: the folders
  std::string state_dir = "/var/lib/flightd";
  std::optional<gid_t> group;  // flightd's: its files are given to it
};

// The options, or the status to exit with (after --help, --version or a usage error, which is 2).
struct ParsedOptions {
  std::optional<BrokerOptions> options;
  int exit_status = 0;
};
[[nodiscard]] ParsedOptions parse_options(int argc, char** argv);

}  // namespace flight
