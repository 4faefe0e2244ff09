// SPDX-License-Identifier: Apache-2.0
// `flightctl snapshot -o FILE`: the durable snapshot's bytes, in a file of the caller's own.
#pragma once

#include <string>

#include "libcore/base/result.hpp"

namespace flight::ctl {

// Copies the snapshot at `path` to `target`, or to stdout where that is "-". A regular file appears whole or not at all
// (a temporary name beside it, mode 0640, then rename); a pipe or a device is written into. What is at `path` must be a
// perf.data file: the path comes from the daemon, and root's flightctl copies nothing else for it.
[[nodiscard]] Result<void> copy_out(const std::string& path, const std::string& target);

}  // namespace flight::ctl
