// SPDX-License-Identifier: Apache-2.0
// What file systems answer: this program has its own flock(2), fsync(2), fdatasync(2), fchown(2) and fchmod(2), which
// fail as NFS, FUSE or an old overlay do, or call the kernel.
#include "libcore/base/file_calls.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "libcore/base/unique_fd.hpp"
#include "tests/unit/base/failing_listings.hpp"

namespace {

int next_errno = 0;  // 0: the kernel answers

template <typename... Arguments>
int answer(long number, Arguments... arguments) {
  if (next_errno == 0) return static_cast<int>(::syscall(number, arguments...));
  errno = next_errno;
  return -1;
}

}  // namespace

extern "C" int flock(int fd, int operation) noexcept { return answer(SYS_flock, fd, operation); }
extern "C" int fsync(int fd) { return answer(SYS_fsync, fd); }
extern "C" int fdatasync(int fd) { return answer(SYS_fdatasync, fd); }
extern "C" int fchown(int fd, uid_t uid, gid_t gid) noexcept { return answer(SYS_fchown, fd, uid, gid); }
extern "C" int fchmod(int fd, mode_t mode) noexcept { return answer(SYS_fchmod, fd, mode); }

namespace flight {
namespace {

class FileCalls : public testing::Test {
 protected:
  void TearDown() override { next_errno = 0; }
  UniqueFd file_{::memfd_create("file", MFD_CLOEXEC)};
};

TEST_F(FileCalls, ALockIsThereTakenByAnotherOrImpossible) {
  ASSERT_TRUE(lock_now(file_.get()));
  EXPECT_TRUE(*lock_now(file_.get()));
  const UniqueFd other(::open(("/proc/self/fd/" + std::to_string(file_.get())).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_GE(other.get(), 0);
  EXPECT_EQ(lock_now(other.get()).error().errno_value(), EWOULDBLOCK) << "only this means another process";
  for (const int none : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    next_errno = none;
    const auto locked = lock_now(file_.get());
    ASSERT_TRUE(locked) << none;
    EXPECT_FALSE(*locked) << none;
  }
  for (const int failure : {EBADF, EIO, EINTR, EINVAL}) {
    next_errno = failure;
    EXPECT_EQ(lock_now(file_.get()).error().errno_value(), failure);
  }
}

TEST_F(FileCalls, WhatCannotBeSyncedIsNoErrorAndSaid) {
  EXPECT_TRUE(sync_now(file_.get()).value());
  EXPECT_TRUE(sync_data_now(file_.get()).value());
  for (const int none : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    next_errno = none;
    for (const auto& synced : {sync_now(file_.get()), sync_data_now(file_.get())}) {
      ASSERT_TRUE(synced) << none;
      EXPECT_FALSE(*synced) << none;
    }
  }
  for (const int failure : {EIO, EROFS, ENOSPC, EDQUOT, EBADF}) {
    next_errno = failure;
    EXPECT_EQ(sync_now(file_.get()).error().errno_value(), failure);
    EXPECT_EQ(sync_data_now(file_.get()).error().errno_value(), failure);
  }
}

TEST_F(FileCalls, AnOwnerThatCannotBeSetIsSaid) {
  EXPECT_TRUE(own_now(file_.get(), ::getuid(), ::getgid()).value());
  EXPECT_TRUE(mode_now(file_.get(), 0600).value());
  for (const int none : {EPERM, EACCES, EINVAL, ENOSYS, EOPNOTSUPP}) {
    next_errno = none;
    for (const auto& set : {own_now(file_.get(), 1, 1), mode_now(file_.get(), 0600)}) {
      ASSERT_TRUE(set) << none;
      EXPECT_FALSE(*set) << none;
    }
  }
  for (const int failure : {EIO, EROFS, ENOSPC, EDQUOT}) {
    next_errno = failure;
    EXPECT_EQ(own_now(file_.get(), 1, 1).error().errno_value(), failure);
    EXPECT_EQ(mode_now(file_.get(), 0600).error().errno_value(), failure);
  }
}

TEST_F(FileCalls, TheStatusOfAnOpenFileIsKnownWithoutStatx) {
  EXPECT_TRUE(S_ISREG(status_of_open(file_.get()).value().st_mode));
  for (const unsigned refusal : {unsigned{EPERM}, unsigned{ENOSYS}}) {
    const auto status = test::with_failing_calls(
        SYS_statx, [this] { return status_of_open(file_.get()); }, refusal);
    ASSERT_TRUE(status) << refusal << ": " << status.error().what;
    EXPECT_TRUE(S_ISREG(status->st_mode));
  }
  EXPECT_EQ(status_of_open(-1).error().errno_value(), EBADF);
  const auto failed = test::with_failing_calls(
      SYS_statx, [this] { return status_of_open(file_.get()); }, EIO);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errno_value(), EIO);
  EXPECT_EQ(failed.error().what.find("statx"), 0U) << failed.error().what;
}

// Each of the eight combinations, in a process of its own.
TEST(StandardDescriptors, ClosedOnesAreFilled) {
  for (unsigned closed = 0; closed < 8; ++closed) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int fd = 0; fd < 3; ++fd)
        if ((closed >> static_cast<unsigned>(fd) & 1U) != 0) ::close(fd);
      const int next_free = ::fcntl(2, F_DUPFD, 3);  // unused, except if it is closed
      if (next_free >= 0) ::close(next_free);
      fill_standard_descriptors();
      for (int fd = 0; fd < 3; ++fd) {
        struct stat info {};
        if (::fstat(fd, &info) != 0) ::_exit(1);
        const bool is_null = S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
        if ((closed >> static_cast<unsigned>(fd) & 1U) != 0 && !is_null) ::_exit(2);
      }
      // Nothing else stays open: the next file gets the number that it would have had.
      const int next = ::open("/", O_RDONLY | O_DIRECTORY);
      ::_exit(next_free >= 0 && next != next_free ? 3 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "closed: " << closed;
  }
}

}  // namespace
}  // namespace flight
