// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/mounts.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

namespace flight {

void enter_own_mounts() {
  static const bool once = [] {
    bool entered = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    struct stat info {};
    if (entered && stat("/sys/kernel/tracing/events", &info) != 0) {
      entered = mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, nullptr) == 0;
    }
    if (!entered) {
      perror("mounts of our own (these tests need root)");
      std::exit(2);
    }
    return true;
  }();
  (void)once;
}

bool mount_tmpfs(const std::string& path, const std::string& options) {
  return mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

bool remount_tmpfs(const std::string& path, bool read_only, const std::string& options) {
  return mount("tmpfs", path.c_str(), "tmpfs",
               static_cast<unsigned long>(read_only ? MS_REMOUNT | MS_RDONLY : MS_REMOUNT), options.c_str()) == 0;
}

void unmount(const std::string& path) { umount2(path.c_str(), MNT_DETACH); }

}  // namespace flight
