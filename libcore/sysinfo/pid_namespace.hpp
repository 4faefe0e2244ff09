// SPDX-License-Identifier: Apache-2.0
// Whether this process is in the machine's own PID namespace. The kernel writes the pids of the namespace in which an
// event was opened: every process outside a container's namespace has pid 0 there.
#pragma once

#include <optional>
#include <string>

namespace flight {

// The name of these processes in snapshots.
inline constexpr const char* kOutsideName = "outside this container";

// nullopt: /proc does not show it. `root` is "" or a test's directory with a fake /proc in it.
[[nodiscard]] std::optional<bool> in_own_pid_namespace(const std::string& root = "");

}  // namespace flight
