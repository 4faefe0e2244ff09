// SPDX-License-Identifier: Apache-2.0
// Whose process it is, for the share that each user has of the broker's helpers, threads and memory.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "libcore/sysinfo/processes.hpp"

namespace flight::broker {

// The user who started the process: with the 65,536 uids of his subuid range (subuid(5)), or in a user namespace that
// he made, he is still one user. For a process that has exited it returns root, which has no limit. Any thread; does
// not need the lock of the process's mappings.
[[nodiscard]] uid_t owner_of(std::uint32_t pid);

// As read_stat(), with owner_of() as the uid.
[[nodiscard]] Presence read_stat_of_owner(std::uint32_t pid, ProcessStat& out);

}  // namespace flight::broker
