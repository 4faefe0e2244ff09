// SPDX-License-Identifier: Apache-2.0
// The loaded kernel modules and their files. Addresses need CAP_SYSLOG (kptr_restrict).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

struct LoadedModule {
  std::string name;
  std::uint64_t address = 0, bytes = 0;
  // The inode of /sys/module/NAME, which is created anew at each load; 0: unknown.
  std::uint64_t inode = 0;
  bool live = true;                    // false: it is being loaded or unloaded
  std::vector<std::uint8_t> build_id;  // empty: unknown
};

// Sorted by address and not overlapping. Modules without an address are omitted. Empty: the kernel has no modules.
// Reads only /proc and /sys, about 20 us per module.
[[nodiscard]] Result<std::vector<LoadedModule>> loaded_modules(const std::string& root = "");

// 16 hex digits that change whenever /proc/kallsyms has other symbols of modules: a digest of the name, the address
// and the build-id of each module (without one, its inode). It excludes sizes, which shrink when a module has started.
[[nodiscard]] std::string digest_of(const std::vector<LoadedModule>& modules);

// Maps a module's name to the path of its file, for all installed modules. Reads the disk, which may hang; but not one
// that waits for a server: EREMOTE.
[[nodiscard]] Result<std::map<std::string, std::string>> module_paths(const std::string& root = "");

}  // namespace flight
