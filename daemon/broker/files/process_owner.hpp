// SPDX-License-Identifier: Apache-2.0
// Finds the user of a process. Each user has a share of the broker's helpers, threads and memory. Each call reads /proc
// again: a process can change its user, and its pid can be used again. Any thread; no call needs the lock of the
// process's mappings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "libcore/sysinfo/processes.hpp"

namespace flight::broker {

// The user who started the process, also if it executed a set-user-ID program: with the 65,536 uids of his subuid range
// (subuid(5)), or in a user namespace that he made, he is still one user. nullopt: the process has ended.
[[nodiscard]] std::optional<uid_t> owner_if_there(std::uint32_t pid);
// For a process that has ended it returns root.
[[nodiscard]] uid_t owner_of(std::uint32_t pid);
// The user that stands for all exited processes whose user is not known, and for the users above a limit of users. It
// is (uid_t)-1, which no process has.
inline constexpr uid_t kEndedOwner = ~uid_t{0};

// As read_stat(), with owner_of() as the uid.
[[nodiscard]] Presence read_stat_of_owner(std::uint32_t pid, ProcessStat& out);

}  // namespace flight::broker
