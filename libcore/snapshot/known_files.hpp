// SPDX-License-Identifier: Apache-2.0
// Applies the broker's build-ids to the mappings of one snapshot: an MMAP2 record that names a file by device and inode
// becomes one with the build-id that the file had when it was mapped, and the BUILD_ID section gets the file. The path
// of a file without a build-id gets kNotTheHosts (mapped_file.hpp) if it does not lead to the file any more, and
// kNotVerified if it may lead to another content. Of unknown files, those that were not read for a time or an error, or
// whose turn has not come, stay unchanged, and those whose path may lead to other content, or whose user has used up
// the broker's share, get kNotVerified.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "libcore/base/file_identity.hpp"
#include "libcore/broker/build_ids.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

struct NamedFiles {
  std::uint64_t with = 0;        // distinct files in the window that have a build-id now, or are known to have none
  std::uint64_t without = 0;     // files that could not be read, or not when they were mapped
  std::uint64_t unanswered = 0;  // among those: their device had not answered
  std::uint64_t served = 0;      // among those: their file system waits for a server
  std::uint64_t changed = 0;     // among those: the file was written after it was mapped, before it could be read
  std::uint64_t replaced = 0;    // among those: it has none, and its name leads to another file, or to none
  std::uint64_t touched = 0;     // among those: it has none, and only its ctime is another one than when it was mapped
  std::uint64_t two = 0;         // among those: another file has the same numbers
  std::uint64_t forgotten = 0;   // among those: the broker knew too many others
  std::uint64_t waiting = 0;     // among those: the broker reads it later (WaitingFile)
  std::uint64_t left_out = 0;    // among those: perhaps the broker had no space or CPU time left to note it
  std::uint64_t too_late = 0;    // among those: its records were written, and their path stands for something else, too
  std::set<std::string> served_types;
};

// A mapping of a file, as its record is now.
struct NamedMapping {
  FileIdentity file;
  EventTime mapped_ns = 0;
  std::string_view recorded_name, name;  // the kernel's, and that of the record
  BuildId build_id;                      // size 0: none
  bool is_known = false;                 // it has a build-id, or is known to have none
};
using EachMapping = std::function<void(const NamedMapping& mapping)>;
// `each`: called for each mapping of a file, in the order of the records.
[[nodiscard]] NamedFiles add_build_ids(const KnownFiles& known, TrackerExport& window, const EachMapping& each = {});

}  // namespace flight
