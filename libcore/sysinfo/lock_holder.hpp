// SPDX-License-Identifier: Apache-2.0
// Finds the process that holds the flock(2) of a file, for an error message. /proc/locks names the process that took
// the lock; it may have exited, and a child may have the descriptor. So a process is named only if its
// /proc/PID/fdinfo shows the lock: a wrong name is worse than none.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace flight {

struct LockHolder {
  pid_t pid = 0;
  std::string comm;
};

// `fd`: the file, opened by this process and not locked. nullopt: the lock is free now, or /proc does not show its
// holder.
[[nodiscard]] std::optional<LockHolder> lock_holder(int fd);

}  // namespace flight
