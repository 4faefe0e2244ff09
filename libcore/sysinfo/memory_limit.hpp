// SPDX-License-Identifier: Apache-2.0
// The smallest limit of memory among this process's cgroup and those above it (cgroups(7)): memory.max and memory.high
// of version 2, memory.limit_in_bytes of version 1. In a container, cgroups above its own are not visible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace flight {

struct MemoryLimit {
  std::uint64_t bytes = 0;
  std::string cgroup;  // the one with this limit, as its path in /proc/PID/cgroup
  std::string file;    // "memory.max"
};
// nullopt: there is none, or it is not visible. `unread` gets the reason if a file could not be read because a server's
// file system is mounted over it; the limit may then be smaller.
[[nodiscard]] std::optional<MemoryLimit> memory_limit(const std::string& root = "", std::string* unread = nullptr);

}  // namespace flight
