// SPDX-License-Identifier: Apache-2.0
// Which systemd unit a process belongs to, from the path of its cgroup alone: systemd names a unit's cgroup after the
// unit, and puts an underscore before a name that the kernel could take for a file of its own
// (systemd.resource-control(5), https://systemd.io/CGROUP_DELEGATION).
#pragma once

#include <string>
#include <string_view>

namespace flight {

// "/system.slice/burn.service/payload" -> "burn.service". The innermost service or scope, so that a user's own service
// is told and not user@1000.service; else the innermost slice; empty where there is none of them.
[[nodiscard]] std::string unit_of(std::string_view cgroup);

}  // namespace flight
