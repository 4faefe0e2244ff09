// SPDX-License-Identifier: Apache-2.0
// Locked memory: the code that a snapshot runs is locked, and code of libraries that never runs is not. And who can
// look into flightd.
#include "daemon/privileges.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/unit/base/failing_listings.hpp"

namespace flight::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// If it is unknown how the child ended, what it found out is unknown, too.
TEST(LookAs, AChildOfUnknownEndIsNoGoodOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user takes root";
  Identity nobody;
  nobody.uid = nobody.gid = 65534;
  nobody.user = "nobody";
  const auto seen = look_as(nobody, [] { return std::to_string(::geteuid()); });
  ASSERT_TRUE(seen) << seen.error().what;
  EXPECT_EQ(*seen, "65534");
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const auto unknown = look_as(nobody, []() -> std::string { ::_exit(1); });
  static_cast<void>(std::signal(SIGCHLD, before));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().errno_value(), ECHILD) << unknown.error().what;
  const auto ended = look_as(nobody, []() -> std::string { ::_exit(1); });
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().what, HasSubstr("looks as user nobody ended without an answer (status 1)"));
}

TEST(LookAs, AnErrorSaysWhatWasTriedAndWhy) {
  Identity nobody;
  nobody.uid = nobody.gid = 65534;
  nobody.user = "nobody";
  const auto look = [&nobody] { return look_as(nobody, [] { return std::string("seen"); }); };
  const auto refused = test::without_tasks(look);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EAGAIN);
  EXPECT_THAT(refused.error().what, AllOf(HasSubstr("start the process that looks as user nobody"),
                                          HasSubstr("Resource temporarily unavailable"), HasSubstr("raise TasksMax=")));
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user takes root";
  const auto kept = test::with_failing_calls(SYS_setresuid, look, EPERM);
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().what, AllOf(HasSubstr("looks as user nobody could not take that user's rights"),
                                       HasSubstr("become user nobody: Operation not permitted")));
}

// In a process of its own. A change of the user changes it, too, to what fs.suid_dumpable says; without one it is 1.
int dumpable_after_the_drop(uid_t uid) {
  Identity identity;
  identity.uid = identity.gid = uid;
  identity.user = std::to_string(uid);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool dropped = ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 && drop_privileges(identity);
    ::_exit(dropped ? ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) : 99);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(DropPrivileges, NobodyOfTheSameUserCanLookIntoIt) {
  EXPECT_EQ(dumpable_after_the_drop(::geteuid()), 0);
  if (::geteuid() == 0) {
    EXPECT_EQ(dumpable_after_the_drop(65534), 0);
  }
}

// Without a descriptor /etc/passwd and /etc/group cannot be opened. In an earlier version these names did not exist
// then.
TEST(FindIdentity, AFailedLookupIsNoMissingName) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) ::_exit(2);
    const auto identity = find_identity("flightd");
    const std::string text = identity ? identity->note : identity.error().what;
    const bool good =
        text.find(::geteuid() == 0 ? "look up the user flightd: Too many open files"
                                   : "look up the group flightd-trigger: Too many open files") != std::string::npos;
    if (!good) std::fprintf(stderr, "%s\n", text.c_str());
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace flight::daemon

// AddressSanitizer ignores mlock(2).
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace flight::daemon {
namespace {

struct Code {
  std::string path;
  long size_kib = 0, rss_kib = 0;
  bool locked = false;
};

// The executable mappings of files (proc_pid_smaps(5)).
std::vector<Code> executable_mappings() {
  std::vector<Code> out;
  bool executable = false;
  std::ifstream smaps("/proc/self/smaps");
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string first, mode, offset, device, inode, path;
    words >> first >> mode;
    if (!first.ends_with(":")) {
      words >> offset >> device >> inode >> path;
      executable = mode.find('x') != std::string::npos && path.starts_with("/");
      if (executable) out.push_back({.path = path});
    } else if (executable && (first == "Size:" || first == "Rss:")) {
      (first == "Size:" ? out.back().size_kib : out.back().rss_kib) = std::stol(mode);
    } else if (executable && first == "VmFlags:") {
      out.back().locked = line.find(" lo ") != std::string::npos;
    }
  }
  return out;
}

// In a process of its own, which exits with everything locked.
TEST(LockMemory, LocksTheCodeThatRuns) {
  const pid_t child = ::fork();
  if (child == 0) {
    raise_limits();
    if (const auto locked = lock_memory(); !locked) {
      std::fprintf(stderr, "%s\n", locked.error().what.c_str());
      ::_exit(2);
    }
    bool good = false;
    for (const Code& code : executable_mappings()) {
      const bool idle = code.path.find("/libgcrypt") != std::string::npos;
      // What compresses is locked when it is used for the first time.
      const bool own = code.path.ends_with("/unit-daemon"), zstd = code.path.find("/libzstd") != std::string::npos;
      const bool all = own || code.path.find("/libstdc++") != std::string::npos;
      good = good || own;
      if ((idle && code.locked) || ((all || zstd) && !code.locked) || (all && code.rss_kib < code.size_kib)) {
        std::fprintf(stderr, "%s: %slocked, %ld of %ld KiB are in memory\n", code.path.c_str(),
                     code.locked ? "" : "not ", code.rss_kib, code.size_kib);
        ::_exit(1);
      }
    }
    ::_exit(good ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "memory cannot be locked here: it takes root";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The cause before the advice. In a process of its own, which has no privilege.
TEST(LockMemory, AFailureEndsWithTheAdvice) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0))
      ::_exit(2);
    const auto locked = lock_memory();
    const std::string text = locked ? "locked" : locked.error().what;
    const bool good = text.starts_with("flightd's own memory is not locked: Operation not permitted; ") &&
                      text.ends_with("set LimitMEMLOCK=infinity");
    if (!good) std::fprintf(stderr, "%s\n", text.c_str());
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
}  // namespace
}  // namespace flight::daemon
#endif
