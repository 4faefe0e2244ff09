// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/file_calls.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace flight {
namespace {

// EROFS is an error: ext4 returns it after it has given up, and the data is lost.
Result<bool> synced(int result) {
  if (result == 0) return true;
  const int why = errno;
  if (why == EINVAL || why == ENOSYS || why == EOPNOTSUPP) return false;
  return sys_error(why, "sync to the disk");
}

bool has_no_owners(int error_number) {
  return error_number == EPERM || error_number == EACCES || error_number == EINVAL || error_number == ENOSYS ||
         error_number == EOPNOTSUPP;
}

}  // namespace

Result<bool> lock_now(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  const int why = errno;
  if (why == ENOLCK || why == ENOSYS || why == EOPNOTSUPP) return false;
  return sys_error(why, "lock");
}

Result<bool> sync_now(int fd) { return synced(::fsync(fd)); }

Result<bool> sync_data_now(int fd) { return synced(::fdatasync(fd)); }

Result<struct stat> status_of_open(int fd) {
  struct stat out {};
  struct statx quick {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_NLINK, &quick) == 0) {
    out.st_mode = quick.stx_mode;
    out.st_nlink = quick.stx_nlink;
    return out;
  }
  const int why = errno;
  // EINVAL: glibc's answer where the kernel's is ENOSYS, because its own statx does not know AT_STATX_DONT_SYNC.
  if (why != EPERM && why != ENOSYS && why != EINVAL) return sys_error(why, "statx");
  if (::fstat(fd, &out) == 0) return out;
  return sys_error(errno, "statx and fstat");
}

std::uint64_t disk_bytes_of(const struct stat& status) {
  constexpr std::uint64_t kBlockBytes = 512;  // unit of st_blocks, see stat(2)
  if (!S_ISREG(status.st_mode) || status.st_blocks != 0)
    return static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes;
  return static_cast<std::uint64_t>(status.st_size);
}

Result<bool> own_now(int fd, uid_t uid, gid_t gid) {
  if (::fchown(fd, uid, gid) == 0) return true;
  const int why = errno;
  if (has_no_owners(why)) return false;
  return sys_error(why, "change the owner");
}

Result<bool> mode_now(int fd, mode_t mode) {
  if (::fchmod(fd, mode) == 0) return true;
  const int why = errno;
  if (has_no_owners(why)) return false;
  return sys_error(why, "change the mode");
}

bool is_full(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

void fill_standard_descriptors() {
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::open("/dev/null", O_RDWR))
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
}

}  // namespace flight
