// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/file_calls.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace flight {

Result<bool> lock_now(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  const int why = errno;
  if (why == ENOLCK || why == ENOSYS || why == EOPNOTSUPP) return false;
  return sys_error(why, "lock");
}

Result<void> sync_now(int fd) {
  if (::fsync(fd) == 0) return {};
  const int why = errno;
  if (why == EINVAL || why == ENOSYS || why == EOPNOTSUPP) return {};
  return sys_error(why, "sync");
}

Result<bool> own_now(int fd, uid_t uid, gid_t gid) {
  if (::fchown(fd, uid, gid) == 0) return true;
  const int why = errno;
  if (why == EPERM || why == EINVAL || why == EOPNOTSUPP) return false;
  return sys_error(why, "change the owner");
}

void fill_standard_descriptors() {
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::open("/dev/null", O_RDWR))
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
}

}  // namespace flight
