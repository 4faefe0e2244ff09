// SPDX-License-Identifier: Apache-2.0
// Tracepoints as described by tracefs (Documentation/trace/events.rst).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// Where tracefs is mounted, from /proc/self/mounts ("/sys/kernel/tracing"); ENOENT with the command that mounts it;
// EREMOTE if a server's file system covers it (kernel_file.hpp).
[[nodiscard]] Result<std::string> find_tracefs();
// As find_tracefs(), but mounts it on /sys/kernel/tracing if it is not mounted and the process may do that.
[[nodiscard]] Result<std::string> find_or_mount_tracefs();

// The number in events/SYSTEM/EVENT/id. ENOENT names the nearest tracepoints; EACCES names the capability.
[[nodiscard]] Result<std::uint64_t> tracepoint_id(const std::string& tracefs, const std::string& system,
                                                  const std::string& event);
// The text of events/SYSTEM/EVENT/format.
[[nodiscard]] Result<std::string> tracepoint_format(const std::string& tracefs, const std::string& system,
                                                    const std::string& event);
// The names "SYSTEM:EVENT" of all tracepoints, sorted.
[[nodiscard]] std::vector<std::string> list_tracepoints(const std::string& tracefs);

}  // namespace flight
