// SPDX-License-Identifier: Apache-2.0
// Preloaded into flightd, flock(2) as other file systems have it. $FLIGHT_LOCKS: "nfs": EBADF for an exclusive lock of
// a descriptor that is only for reading, as NFS and CIFS do; "none": ENOLCK. (FUSE cannot do that: the kernel answers.)
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace {

// A copy: flightd changes its environment.
const char* const value = std::getenv("FLIGHT_LOCKS");
const std::string kind = value != nullptr ? value : "";

}  // namespace

extern "C" __attribute__((visibility("default"))) int flock(int fd, int operation) noexcept {
  static const auto real = reinterpret_cast<int (*)(int, int)>(dlsym(RTLD_NEXT, "flock"));
  if (kind == "none") {
    errno = ENOLCK;
    return -1;
  }
  if (kind == "nfs" && (operation & LOCK_EX) != 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    errno = EBADF;
    return -1;
  }
  return real(fd, operation);
}
