// SPDX-License-Identifier: Apache-2.0
// What the shipped units hide from flightd: with ProtectHome= and PrivateTmp= (systemd.exec(5)) the folders of homes
// are empty there and the temporary ones are others. A check by hand sees them, so it would vouch for files that the
// service does not find. And they run it as their own user.
#pragma once

#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"

namespace flight::daemon {

inline constexpr const char* kUnitUser = "flightd";  // User= of flightd.service

// The setting that hides `path`, or the file that it leads to: "ProtectHome=yes"; empty: the units see it.
[[nodiscard]] std::string hidden_by_unit(const std::string& path);

// EACCES with the first file of the configuration, or --state-dir, that the units hide.
[[nodiscard]] Result<void> check_unit_view(const std::string& config_file, const Config& config,
                                           const std::string& state_dir);

}  // namespace flight::daemon
