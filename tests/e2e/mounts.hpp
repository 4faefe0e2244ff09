// SPDX-License-Identifier: Apache-2.0
// The test's own mount namespace: only programs that the test starts see its mounts (tracefs if the machine has not
// mounted it, a small disk), and they are removed with the test.
#pragma once

#include <sys/types.h>

#include <string>

namespace flight {

// Leaves the machine's mount namespace, once per test program, and mounts tracefs there if it is not mounted.
void enter_own_mounts();
[[nodiscard]] bool mount_tmpfs(const std::string& path, const std::string& options);
[[nodiscard]] bool remount_tmpfs(const std::string& path, bool read_only, const std::string& options);
void unmount(const std::string& path);

}  // namespace flight
