// SPDX-License-Identifier: Apache-2.0
// A snapshot's bytes, from the daemon (ReadSnapshot) to a file of the caller's own, a pipe or stdout.
#pragma once

#include <string>

#include "ctl/commands.hpp"
#include "ctl/daemon_call.hpp"

namespace flight::ctl {

// To `target`, "-" for stdout, or empty for the snapshot's own name in the current folder, where nothing of that name
// may be yet. A regular file appears whole or not at all; a pipe or a device is written into. Where it went.
[[nodiscard]] Answer<std::string> fetch(const Common& common, const std::string& id, const std::string& target);

// Why `target` cannot be written to; empty: it can. Before anything is asked of the daemon.
[[nodiscard]] std::string check_target(const std::string& target);

}  // namespace flight::ctl
