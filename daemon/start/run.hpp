// SPDX-License-Identifier: Apache-2.0
// From the options to the end of flightd: attempts to start (start.hpp), and the wait of a service between two of them
// (start_wait.hpp). A flightd that cannot start ends if it was started by hand; a service stays and tries again. Main
// thread only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/options.hpp"
#include "daemon/start/configured.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight::daemon {

// Logs why flightd ends, and returns `status`.
int log_failure(const Error& error, int status = kFailed);

// Returns the exit status. A service whose socket is passed by the service manager answers calls between two attempts.
// `kept`: whether `spare` has its descriptors.
[[nodiscard]] int run_flightd(const Options& options, std::vector<std::string> command_line,
                              std::unique_ptr<SpareDescriptors> spare, Result<void> kept);

// For a wrong command line: a service waits, too. Only another command line mends this, and the service manager starts
// flightd with it. Returns the exit status.
[[nodiscard]] int refuse_usage(const ParsedOptions& parsed);

}  // namespace flight::daemon
