// SPDX-License-Identifier: Apache-2.0
// Locking, syncing and giving files away, on every file system: what one cannot do at all is no error, everything else
// is. (NFS and CIFS lock only writable descriptors: EBADF.)
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>

#include "libcore/base/result.hpp"

namespace flight {

// flock(2), exclusive, without waiting. False: this file system has no locks (ENOLCK, ENOSYS, EOPNOTSUPP).
// EWOULDBLOCK: another process has it. EBADF: try again with a writable descriptor.
[[nodiscard]] Result<bool> lock_now(int fd);
// fsync(2) of a file or directory. False: this file system cannot sync it (EINVAL, ENOSYS, EOPNOTSUPP).
[[nodiscard]] Result<bool> sync_now(int fd);
// fdatasync(2) of a file, as sync_now.
[[nodiscard]] Result<bool> sync_data_now(int fd);
// fchown(2) and fchmod(2). False: this file system has no owners and modes, or this process may not set them (EPERM,
// EACCES, EINVAL, ENOSYS, EOPNOTSUPP): vfat, CIFS, NFS with root_squash. EACCES is what sshfs and CIFS make of their
// server's refusal, and SELinux's own: a descriptor has no path that could be the reason.
[[nodiscard]] Result<bool> own_now(int fd, uid_t uid, gid_t gid);
[[nodiscard]] Result<bool> mode_now(int fd, mode_t mode);

// Type (st_mode) and links of an open file, and nothing else, without a question to its disk or server: statx(2). Where
// that is refused (seccomp: EPERM, ENOSYS), fstat(2), which may wait for a server.
[[nodiscard]] Result<struct stat> status_of_open(int fd);

// What a regular file takes on the disk: its blocks, or its size where the file system reports none (ramfs and many of
// FUSE).
[[nodiscard]] std::uint64_t disk_bytes_of(const struct stat& status);

// Whether an errno means that the file system is full or its quota is used up.
[[nodiscard]] bool is_full(int error_number);

// Opens /dev/null for each of descriptors 0 to 2 that is closed. Otherwise the next file or socket would get its
// number, and the log would be written into it. First thing in main().
void fill_standard_descriptors();

}  // namespace flight
