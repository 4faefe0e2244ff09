// SPDX-License-Identifier: Apache-2.0
// Tracepoints as tracefs describes them (Documentation/trace/events.rst).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// Where tracefs is mounted, from /proc/self/mounts ("/sys/kernel/tracing"); ENOENT with the command that mounts it.
[[nodiscard]] Result<std::string> find_tracefs();
// find_tracefs, and where it is not mounted and we may, mount it on /sys/kernel/tracing first.
[[nodiscard]] Result<std::string> find_or_mount_tracefs();

// The number in events/SYSTEM/EVENT/id. ENOENT names the nearest tracepoints; EACCES names the capability.
[[nodiscard]] Result<std::uint64_t> tracepoint_id(const std::string& tracefs, const std::string& system,
                                                  const std::string& event);
// The text of events/SYSTEM/EVENT/format.
[[nodiscard]] Result<std::string> tracepoint_format(const std::string& tracefs, const std::string& system,
                                                    const std::string& event);
// "SYSTEM:EVENT" of all, sorted.
[[nodiscard]] std::vector<std::string> list_tracepoints(const std::string& tracefs);

}  // namespace flight
