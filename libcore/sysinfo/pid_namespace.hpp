// SPDX-License-Identifier: Apache-2.0
// Whether this process is in the machine's own PID namespace. The kernel writes the pids of the namespace in which an
// event was opened: every process outside a container's namespace has pid 0 there.
#pragma once

#include <optional>
#include <string>

namespace flight {

// The names of these processes in snapshots. The idle tasks have pid 0, too, but no sample in user mode is theirs.
inline constexpr const char* kOutsideName = "outside this container";
inline constexpr const char* kOutsideOrIdle = "outside this container, or idle";
// The kernel writes -1 for a task whose pid or tid it has released already (perf_event_pid_type() in
// kernel/events/core.c): an exiting task, in its last microseconds. Which one is not known.
inline constexpr const char* kExitingName = "[exiting]";

// nullopt: /proc does not show it. `root` is "" or a test's directory with a fake /proc in it.
[[nodiscard]] std::optional<bool> in_own_pid_namespace(const std::string& root = "");

}  // namespace flight
