// SPDX-License-Identifier: Apache-2.0
// Applies the broker's build-ids to the mappings of one snapshot: an MMAP2 record that names a file by device and inode
// becomes one with its build-id, and the BUILD_ID section gets the file. Unknown files stay unchanged.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "libcore/broker/build_ids.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

struct NamedFiles {
  std::uint64_t with = 0;        // distinct files in the window that have a build-id now, or are known to have none
  std::uint64_t without = 0;     // files that could not be read
  std::uint64_t unanswered = 0;  // among those: their device had not answered
  std::uint64_t served = 0;      // among those: their file system waits for a server
  std::set<std::string> served_types;
};
[[nodiscard]] NamedFiles add_build_ids(const KnownFiles& known, TrackerExport& window);

}  // namespace flight
