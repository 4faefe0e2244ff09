// SPDX-License-Identifier: Apache-2.0
// flightd's command line. Main thread only, once: it reads the environment. Nothing is opened or changed. Directories
// come from the options, else from the environment, else from the defaults below, and are absolute.
#pragma once

#include <optional>
#include <string>

namespace flight::daemon {

struct Options {
  std::string config_file;  // empty: /etc/flightd, /usr/lib/flightd
  bool check_config = false;
  bool for_service = false;   // check also what the units hide and forbid
  std::string state_dir;      // --state-dir, $STATE_DIRECTORY, /var/lib/flightd
  std::string runtime_dir;    // --runtime-dir, $RUNTIME_DIRECTORY, /run/flightd
  std::string broker_socket;  // empty: fork a broker
};

// The options, or the exit status: 0 after --help and --version, 2 for a usage error.
struct ParsedOptions {
  std::optional<Options> options;
  int exit_status = 0;
  std::string usage;  // the error
};
[[nodiscard]] ParsedOptions parse_options(int argc, char** argv);

}  // namespace flight::daemon
