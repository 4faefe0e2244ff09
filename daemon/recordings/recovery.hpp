// SPDX-License-Identifier: Apache-2.0
// Finishes a part of a recording whose flightd was killed, or whose machine lost its power. Its files belong to root,
// and this flightd cannot write to them: it copies the data to a new file of the broker's, and finishes that one. It
// can be killed at any step: the next start goes on with what it finds.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/recordings/part_store.hpp"

namespace flight::daemon {

// A thread that may wait for the disk and the broker. Returns what became of it, for the log. What cannot be used is
// removed. An error: the files are still there, and it can be tried again. `host`: as in names.
[[nodiscard]] Result<std::string> recover_part(PartStore& store, std::uint64_t seq, const std::string& host);

}  // namespace flight::daemon
