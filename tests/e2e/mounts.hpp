// SPDX-License-Identifier: Apache-2.0
// A mount namespace of the test's own: what is mounted here (tracefs where the machine has not, a small disk, nothing
// at all) is seen by the programs the test starts, by nobody else, and goes away with them.
#pragma once

#include <sys/types.h>

#include <string>

namespace flight {

// Leaves the machine's mount namespace, once per test program, and mounts tracefs there if nobody has.
void enter_own_mounts();
[[nodiscard]] bool mount_tmpfs(const std::string& path, const std::string& options);
[[nodiscard]] bool remount_tmpfs(const std::string& path, bool read_only, const std::string& options);
void unmount(const std::string& path);

}  // namespace flight
