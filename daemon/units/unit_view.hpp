// SPDX-License-Identifier: Apache-2.0
// Finds paths that the shipped units hide from flightd. With ProtectHome= and PrivateTmp= (systemd.exec(5)) the home
// directories are empty for the service, and it has temporary directories of its own. A check by hand sees the real
// ones, so it would accept files that the service does not find. The units also run flightd as a user of its own, and
// with ProtectSystem=strict it can write only where they permit it (unit_paths.hpp).
#pragma once

#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"

namespace flight::daemon {

// User= of flightd.service, as it is installed below `root` (empty: /) with its drop-ins, otherwise as it is shipped.
// "root" if it has none.
[[nodiscard]] std::string unit_user(const std::string& root = "");

// What hides `path`, or the file that it leads to, from a unit: "flightd.service has ProtectHome=yes"; empty: both see
// it. The units are those that are installed below `root` (empty: /), with their drop-ins, otherwise the shipped ones.
[[nodiscard]] std::string hidden_by_unit(const std::string& path, const std::string& root = "");

// EACCES with the first file of the configuration, or --state-dir, that the units hide.
[[nodiscard]] Result<void> check_unit_view(const std::string& config_file, const Config& config,
                                           const std::string& state_dir, const std::string& root = "");

// EACCES if the unit of flightd may not write to one of its directories, or that of the broker to the snapshots'.
// `root`: as above.
[[nodiscard]] Result<void> check_unit_writes(const std::string& state_dir, const std::string& runtime_dir,
                                             const std::string& root = "");

}  // namespace flight::daemon
