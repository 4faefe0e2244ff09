// SPDX-License-Identifier: Apache-2.0
// The lock of the two directories: no other process can take it, root changes no file of another user for it, and the
// message names the holder correctly or not at all. This program has its own flock(2), which can be that of NFS.
#include "daemon/folders.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "daemon/start/root_state.hpp"
#include "libcore/base/files.hpp"
#include "tests/unit/base/failing_listings.hpp"

namespace {

bool locks_only_writable = false;  // as NFS and CIFS do

}  // namespace

extern "C" int flock(int fd, int operation) noexcept {
  if (locks_only_writable && (operation & LOCK_EX) != 0 && (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    errno = EBADF;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace flight::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A process that did something with the lock file and now waits until it may exit.
class Other {
 public:
  explicit Other(const std::function<void()>& act) {
    std::array<int, 2> ready{};
    if (::pipe2(ready.data(), O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      act();
      const pid_t self = ::getpid();
      static_cast<void>(!::write(ready[1], &self, sizeof self));
      for (;;) ::pause();
    }
    ::close(ready[1]);
    // The last process: `act` may have forked and exited.
    for (pid_t said = 0; ::read(ready[0], &said, sizeof said) == sizeof said;) {
      holder_ = said;
      break;
    }
    ::close(ready[0]);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() {
    ::kill(holder_, SIGKILL);
    if (holder_ != pid_) ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t holder() const { return holder_; }
  [[nodiscard]] pid_t first() const { return pid_; }

 private:
  pid_t pid_ = -1, holder_ = -1;
};

class Folders : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-folders-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    state_ = root_ + "/state";
    run_ = root_ + "/run";
    file_ = run_ + "/flightd.lock";
    for (const std::string& folder : {state_, run_}) std::filesystem::create_directory(folder);
  }
  void TearDown() override {
    locks_only_writable = false;
    std::filesystem::remove_all(root_);
  }
  struct Taken {
    RuntimeFolder runtime;
    StateFolder state;
  };
  [[nodiscard]] Result<Taken> take() const {
    auto runtime = take_runtime_folder(run_, identity_);
    if (!runtime) return propagate(runtime.error());
    auto state = take_state_folder(state_, identity_);
    if (!state) return propagate(state.error());
    return Taken{std::move(*runtime), std::move(*state)};
  }
  [[nodiscard]] std::string refused() const {
    const auto taken = take();
    EXPECT_FALSE(taken);
    return taken ? "" : taken.error().what;
  }
  void make(mode_t mode) const {
    std::ofstream(file_) << "4242\n";
    ASSERT_EQ(::chmod(file_.c_str(), mode), 0);
  }
  [[nodiscard]] static mode_t mode_of(const std::string& file) {
    struct stat info {};
    return ::stat(file.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
  }
  void lock() const {
    const int fd = ::open(file_.c_str(), O_RDONLY);
    if (fd < 0 || ::flock(fd, LOCK_EX) != 0) std::abort();
  }

  std::string root_, state_, run_, file_;
  Identity identity_{.uid = ::geteuid(), .gid = ::getegid(), .user = "me", .trusted_uid = ::geteuid()};
};

TEST_F(Folders, OnlyTheOwnerMayOpenTheLock) {
  ASSERT_TRUE(take());
  EXPECT_EQ(mode_of(file_), 0600U);
  EXPECT_EQ(mode_of(state_ + "/flightd.lock"), 0600U);
}

TEST_F(Folders, TheLockHasThePidAndIsEmptyAfterACleanEnd) {
  make(0600);  // of a flightd that was killed
  {
    const auto taken = take();
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_EQ(read_file(file_).value(), fmt::format("{}\n", ::getpid()));
    EXPECT_THAT(taken->runtime.warnings, testing::IsEmpty());
    EXPECT_THAT(taken->state.warnings, testing::IsEmpty());
  }
  EXPECT_EQ(read_file(file_).value(), "");
  EXPECT_EQ(read_file(state_ + "/flightd.lock").value(), "");
}

TEST_F(Folders, AReadOnlyDiskIsNoReasonNotToStart) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", state_.c_str(), "tmpfs", 0, "size=1M,mode=755"), 0);
  EXPECT_TRUE(take());
  ASSERT_EQ(::mount("none", state_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
  const auto taken = take();
  EXPECT_TRUE(taken) << taken.error().what;
  if (taken) {
    EXPECT_THAT(taken->state.warnings, testing::Contains(HasSubstr("read-only file system")));
  }
  ::umount2(state_.c_str(), MNT_DETACH);
}

// It has no writable file that could be locked.
TEST_F(Folders, AReadOnlyNetworkDiskIsNoReasonNotToStart) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", state_.c_str(), "tmpfs", 0, "size=1M,mode=755"), 0);
  locks_only_writable = true;
  {
    const auto taken = take();
    EXPECT_TRUE(taken) << taken.error().what;
    if (taken) {
      EXPECT_THAT(taken->state.warnings, testing::IsEmpty());
    }
    const auto second = take_state_folder(state_, identity_);
    EXPECT_FALSE(second) << "it is locked";
  }
  ASSERT_EQ(::mount("none", state_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
  const auto taken = take();
  EXPECT_TRUE(taken) << taken.error().what;
  if (taken) {
    EXPECT_THAT(taken->state.warnings,
                testing::AllOf(testing::Contains(HasSubstr("cannot be locked (its file system locks only writable "
                                                           "files, and this one cannot be opened for writing)")),
                               testing::Contains(HasSubstr("no snapshot can be written until it is writable"))));
  }
  ::umount2(state_.c_str(), MNT_DETACH);
}

// /run is full, or has no inode left. The folder is there: the service manager made it earlier.
TEST_F(Folders, AFullRuntimeFolderIsNoReasonNotToStart) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", run_.c_str(), "tmpfs", 0, "size=1M,nr_inodes=2,mode=755"), 0);
  std::ofstream(run_ + "/flightd.lock.other") << "";  // the last inode
  const auto taken = take();
  EXPECT_TRUE(taken) << taken.error().what;
  if (taken) {
    EXPECT_THAT(taken->runtime.warnings,
                testing::Contains(HasSubstr("cannot be locked (it does not exist, and the file "
                                            "system is full)")));
  }
  ::umount2(run_.c_str(), MNT_DETACH);
}

// A disk that is missing or broken can come back; another's folder stays another's.
TEST_F(Folders, OnlyADangerForbidsTheStart) {
  const auto forbidden = [this] {
    const auto taken = take_state_folder(state_, identity_);
    EXPECT_FALSE(taken);
    return !taken && forbids_start(taken.error());
  };
  const std::string there = state_;
  state_ = root_ + "/none/state";
  EXPECT_FALSE(forbidden());
  state_ = root_ + "/file";
  std::ofstream{state_} << "";
  EXPECT_FALSE(forbidden());
  state_ = root_ + "/link";
  ASSERT_EQ(::symlink(there.c_str(), state_.c_str()), 0);
  EXPECT_FALSE(forbidden());  // made by root, but not followed
  if (::geteuid() == 0) {
    ASSERT_EQ(::lchown(state_.c_str(), 12345, 12345), 0);
    EXPECT_TRUE(forbidden());
  }
  state_ = there;
  ASSERT_EQ(::symlink(root_.c_str(), (state_ + "/snapshots").c_str()), 0);
  EXPECT_TRUE(forbidden());
  std::filesystem::remove(state_ + "/snapshots");
  const auto first = take_state_folder(state_, identity_);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_TRUE(forbidden());  // a second flightd
}

// Root's child hands over the lock, or the error.
TEST_F(Folders, RootsChildTakesTheFolderForFlightd) {
  {
    auto take = take_state_as_root(state_, identity_);
    ASSERT_TRUE(take) << take.error().what;
    const auto taken = (*take)();
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_TRUE(std::filesystem::is_directory(state_ + "/snapshots"));
    const auto second = take_state_as_root(state_, identity_);
    EXPECT_FALSE(second && (*second)()) << "it is locked";
  }
  std::filesystem::remove(state_ + "/snapshots");
  ASSERT_EQ(::symlink(root_.c_str(), (state_ + "/snapshots").c_str()), 0);
  auto trap = take_state_as_root(state_, identity_);
  const Error error = trap ? (*trap)().error() : trap.error();
  EXPECT_TRUE(forbids_start(error));
  EXPECT_THAT(error.what, HasSubstr(state_ + "/snapshots"));
  std::filesystem::remove(state_ + "/snapshots");
  const std::string there = state_;
  state_ = root_ + "/later";
  std::ofstream{state_} << "";
  auto late = take_state_as_root(state_, identity_);
  ASSERT_TRUE(late) << late.error().what;
  EXPECT_FALSE((*late)());
  std::filesystem::remove(state_);
  const auto taken = (*late)();
  EXPECT_TRUE(taken) << taken.error().what;
}

// As with --state-dir in /root.
TEST_F(Folders, WhatRootTookMustBeReachableForFlightd) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  identity_ = Identity{.uid = 65534, .gid = 65534, .user = "nobody"};
  auto take = take_state_as_root(state_, identity_);
  ASSERT_TRUE(take) << take.error().what;
  const auto why_not = [&] {
    return look_as(identity_,
                   [&] {
                     const auto taken = (*take)();
                     return taken ? std::string("taken") : taken.error().what;
                   })
        .value_or("");
  };
  EXPECT_THAT(why_not(), HasSubstr("nobody cannot reach " + state_ + "/snapshots"));
  ASSERT_EQ(::chmod(root_.c_str(), 0711), 0);
  EXPECT_EQ(why_not(), "taken");
}

// FUSE, NFS with root_squash. In an earlier version the advice was to open the directories above.
TEST_F(Folders, AChownThatIsRefusedIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  identity_ = Identity{.uid = 65534, .gid = 65534, .user = "nobody"};
  ASSERT_EQ(::chmod(root_.c_str(), 0711), 0);
  auto take = test::with_failing_calls(
      SYS_fchown, [this] { return take_state_as_root(state_, identity_); }, EPERM);
  ASSERT_TRUE(take) << take.error().what;
  const auto why_not = look_as(identity_, [&] {
    const auto taken = (*take)();
    return taken ? std::string("taken") : taken.error().what;
  });
  EXPECT_THAT(why_not.value_or(""),
              AllOf(HasSubstr("user nobody cannot use " + state_ + "/snapshots: it belongs to user 0"),
                    HasSubstr("(chown)"), Not(HasSubstr("above it"))));
}

// mkdir(2) under a umask of 022 takes g+w, which the broker needs, and then the mode cannot be changed.
TEST_F(Folders, WhereChmodIsRefusedTheUmaskDoesNotMatterOrItIsNamed) {
  const mode_t before = ::umask(022);
  if (::geteuid() == 0) {
    auto take = test::with_failing_calls(
        SYS_fchmod, [this] { return take_state_as_root(state_, identity_); }, EPERM);
    ASSERT_TRUE(take) << take.error().what;
    const auto taken = (*take)();
    EXPECT_TRUE(taken) << taken.error().what;
    EXPECT_EQ(mode_of(state_ + "/snapshots"), 0770U);
  }
  const std::string other = root_ + "/other";
  const auto taken = test::with_failing_calls(
      SYS_fchmod, [&] { return take_state_folder(other, identity_); }, EPERM);
  ::umask(before);
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_THAT(taken->warnings,
              testing::ElementsAre(AllOf(HasSubstr(other + "/snapshots keeps mode 0750"), HasSubstr("chmod 0770"))));
}

TEST_F(Folders, AnErrorOfARuntimeFolderThatCouldNotBeGivenNamesTheChown) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  identity_ = Identity{.uid = 65534, .gid = 65534, .user = "nobody"};
  const Error denied{std::make_error_code(std::errc::permission_denied), "bind the socket"};
  const Error full{std::make_error_code(std::errc::no_space_on_device), "bind the socket"};
  const auto given = take_runtime_folder(root_ + "/given", identity_);
  ASSERT_TRUE(given) << given.error().what;
  EXPECT_EQ(with_refused_chown(denied, *given).what, "bind the socket");
  const auto refused = test::with_failing_calls(
      SYS_fchown, [this] { return take_runtime_folder(run_, identity_); }, EPERM);
  ASSERT_TRUE(refused) << refused.error().what;
  EXPECT_EQ(with_refused_chown(full, *refused).what, "bind the socket");
  EXPECT_THAT(with_refused_chown(denied, *refused).what,
              AllOf(HasSubstr("bind the socket; directory " + run_ + " could not be given to nobody"),
                    HasSubstr("refused chown"), HasSubstr("--runtime-dir")));
}

TEST_F(Folders, WithoutATaskTheErrorSaysWhatToRaise) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root starts a process for it";
  const auto take = test::without_tasks([this] { return take_state_as_root(state_, identity_); });
  ASSERT_FALSE(take);
  EXPECT_EQ(take.error().errno_value(), EAGAIN);
  EXPECT_THAT(take.error().what, AllOf(HasSubstr("start the process that gives " + state_ + " to user"),
                                       HasSubstr("Resource temporarily unavailable"), HasSubstr("raise TasksMax=")));
}

TEST_F(Folders, AnOlderLockIsMadePrivate) {
  make(0644);
  ASSERT_TRUE(take());
  EXPECT_EQ(mode_of(file_), 0600U);
}

TEST_F(Folders, AFileWithAnotherNameIsLeftAlone) {
  make(0644);
  ASSERT_EQ(::link(file_.c_str(), (root_ + "/shadow").c_str()), 0);
  EXPECT_THAT(refused(), HasSubstr("hard link"));
  EXPECT_EQ(mode_of(root_ + "/shadow"), 0644U);
  EXPECT_EQ(std::filesystem::file_size(root_ + "/shadow"), 5U);
}

// `cp -al` makes a backup of hard links: nothing has to be changed, so flightd starts.
TEST_F(Folders, ALockThatIsRightMayHaveAnotherName) {
  ASSERT_TRUE(take());
  for (const std::string& folder : {state_, run_})
    ASSERT_EQ(::link((folder + "/flightd.lock").c_str(), (folder + ".backup").c_str()), 0);
  EXPECT_TRUE(take());
}

TEST_F(Folders, ALinkIsNotFollowed) {
  std::ofstream(root_ + "/shadow") << "secret";
  ASSERT_EQ(::symlink((root_ + "/shadow").c_str(), file_.c_str()), 0);
  EXPECT_THAT(refused(), HasSubstr(file_));
  EXPECT_EQ(std::filesystem::file_size(root_ + "/shadow"), 6U);
}

TEST_F(Folders, AFileOfAThirdUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  make(0644);
  ASSERT_EQ(::chown(file_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(refused(), HasSubstr("12345"));
  EXPECT_EQ(mode_of(file_), 0644U);
}

// Other services run as nobody, too. A user of flightd's own must be able to start it without root the next time.
TEST_F(Folders, TheLockBelongsToAUserOfFlightdsOwnOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  identity_ = {.uid = 12345, .gid = 12345, .user = "nobody"};
  ASSERT_TRUE(take());
  struct stat info {};
  ASSERT_EQ(::stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
  identity_.trusted_uid = 12345;
  ASSERT_TRUE(take());
  ASSERT_EQ(::stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 12345U);
}

TEST_F(Folders, TheErrorNamesTheHolderOfTheLock) {
  make(0600);
  const Other other([this] { lock(); });
  const std::string why = refused();
  EXPECT_THAT(why, HasSubstr(fmt::format("process {} (", other.holder())));
  EXPECT_THAT(why, HasSubstr(file_));
  EXPECT_THAT(why, Not(HasSubstr("4242")));
  EXPECT_THAT(why, Not(HasSubstr("another flightd (")));
}

// /proc/locks names the process that took the lock, which has exited.
TEST_F(Folders, AnHeirOfTheLockIsNamedAndNotTheDead) {
  make(0600);
  const Other other([this] {
    lock();
    const pid_t first = ::getpid();
    if (::fork() != 0) ::_exit(0);
    while (::getppid() == first) ::usleep(1000);
  });
  ASSERT_NE(other.holder(), other.first());
  EXPECT_THAT(refused(), HasSubstr(fmt::format("process {} (", other.holder())));
}

TEST_F(Folders, TheSecondLockOfAProcessNamesTheFirst) {
  const auto first = take();
  ASSERT_TRUE(first);
  EXPECT_THAT(refused(), HasSubstr(fmt::format("process {} (", ::getpid())));
}

}  // namespace
}  // namespace flight::daemon
