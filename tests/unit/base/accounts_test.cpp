// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/accounts.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>

#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

TEST(Accounts, AMissingNameIsAResult) {
  const auto root = user_named("root");
  ASSERT_TRUE(root && *root);
  EXPECT_EQ((*root)->uid, 0U);
  EXPECT_EQ((*root)->name, "root");
  EXPECT_EQ(group_named("root").value(), std::optional<gid_t>(0));
  const auto no_user = user_named("no-such-user");
  ASSERT_TRUE(no_user) << no_user.error().what;
  EXPECT_FALSE(*no_user);
  EXPECT_FALSE(group_named("no-such-group").value());
}

// Without a descriptor /etc/passwd and /etc/group cannot be opened. In a process of its own, whose C library has read
// nsswitch.conf and knows other sources as well: these do not have the name. (Of root, systemd has one.)
TEST(Accounts, AFailedLookupIsAnError) {
  EXPECT_FALSE(user_named("no-such-user").value());
  EXPECT_FALSE(group_named("no-such-group").value());
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) ::_exit(2);
    const auto user = user_named("daemon");
    const auto group = group_named("daemon");
    const bool failed =
        !user && !group && user.error().errno_value() == EMFILE && group.error().errno_value() == EMFILE;
    const bool named = failed && user.error().what == "look up the user daemon: Too many open files" &&
                       group.error().what == "look up the group daemon: Too many open files";
    ::_exit(named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// As on a server that hangs: neither a signal nor a limit of the C library ends that.
TEST(Accounts, ADatabaseThatHangsIsAnErrorThatNamesIt) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  test::in_own_mounts([] {
    constexpr std::chrono::milliseconds kPatience(100);
    const test::HungMount hung("/etc/passwd");
    for (int i = 0; i < 3; ++i) {
      const auto user = user_named("daemon", kPatience);
      ASSERT_FALSE(user);
      EXPECT_EQ(user.error().errno_value(), ETIMEDOUT);
      EXPECT_EQ(user.error().what,
                "look up the user daemon: no answer within 0.1 s: a source of passwd in /etc/nsswitch.conf hangs");
    }
    const auto numbered = user_numbered(2, kPatience);
    ASSERT_FALSE(numbered);
    EXPECT_EQ(numbered.error().errno_value(), ETIMEDOUT);
    EXPECT_EQ(group_named("root").value(), std::optional<gid_t>(0)) << "another database";
    EXPECT_EQ(group_with_user("root", 0, kPatience).error().errno_value(), ETIMEDOUT) << "it asks both";
  });
}

TEST(Accounts, AGroupListsItsUsers) {
  const auto own = group_with_user("root", 0);
  ASSERT_TRUE(own && *own);
  EXPECT_EQ((*own)->gid, 0U);
  EXPECT_TRUE((*own)->lists_user) << "it is that user's own group";
  const auto another = group_with_user("root", 4'000'000'000U);
  ASSERT_TRUE(another && *another);
  EXPECT_FALSE((*another)->lists_user);
  EXPECT_FALSE(group_with_user("no-such-group", 0).value());
}

TEST(Accounts, AUserIsFoundByNumberToo) {
  const auto root = user_numbered(0);
  ASSERT_TRUE(root && *root);
  EXPECT_EQ((*root)->name, "root");
  EXPECT_FALSE(user_numbered(4'000'000'000U).value());
}

}  // namespace
}  // namespace flight
