// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/folder_answers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "tests/unit/base/failing_listings.hpp"
#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

const std::array<std::string, 3> kFolders{"/", "/proc/self", "/no/such/folder"};

TEST(FolderAnswers, AllThatEnd) {
  EXPECT_TRUE(check_answers(kFolders));
  EXPECT_TRUE(check_answers({}));
}

// As a stat(2) on a FUSE file system whose server hangs.
TEST(FolderAnswers, NamesTheFirstThatDoesNotEnd) {
  // The first one must answer by then, also on a busy machine.
  const auto answers = check_answers(kFolders, 3s, [](const std::string& folder) {
    if (folder == "/") return;
    for (;;) ::pause();
  });
  ASSERT_FALSE(answers);
  EXPECT_EQ(answers.error().code, std::errc::timed_out);
  EXPECT_THAT(answers.error().what, HasSubstr("/proc/self does not answer"));
}

// A look that fails, or even kills its process, has not waited.
TEST(FolderAnswers, OneThatDiesDoesNotHang) {
  EXPECT_TRUE(check_answers(kFolders, 1h, [](const std::string&) { ::_exit(1); }));
}

TEST(FolderAnswers, OneOfAHungServerIsNotOpened) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  test::in_own_mounts([] {
    const test::HungMount hung("/var/tmp");
    FolderLook look;
    for (int i = 0; i < 2; ++i) {
      const auto answers = look.check("/var/tmp", 100ms);
      ASSERT_FALSE(answers);
      EXPECT_EQ(answers.error().code, std::errc::timed_out);
    }
    EXPECT_TRUE(FolderLook().check("/"));
  });
}

// The process of an earlier look was killed; one that waits for a server would remain.
TEST(FolderAnswers, ALookIsRepeatedWhenTheEarlierOneHasEnded) {
  FolderLook look;
  const auto first = look.check("/", 50ms, [](const std::string&) {
    for (;;) ::pause();
  });
  ASSERT_FALSE(first);
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (!look.check("/") && std::chrono::steady_clock::now() < until) {
  }
  EXPECT_TRUE(look.check("/"));
}

TEST(FolderAnswers, ALookEndsWhenItsProgramIsStopped) {
  std::array<int, 2> stop{-1, -1};
  ASSERT_EQ(::pipe(stop.data()), 0);
  ASSERT_EQ(::write(stop[1], "x", 1), 1);
  FolderLook look;
  const auto answers = look.check(
      "/", 1h,
      [](const std::string&) {
        for (;;) ::pause();
      },
      stop[0]);
  ASSERT_FALSE(answers);
  EXPECT_EQ(answers.error().code, std::errc::operation_canceled);
  for (const int end : stop) ::close(end);
}

TEST(FolderAnswers, WithoutATaskTheErrorSaysWhatToRaise) {
  const auto answers = test::without_tasks([] { return check_answers(kFolders); });
  ASSERT_FALSE(answers);
  EXPECT_THAT(answers.error().what,
              AllOf(HasSubstr("looks whether / and others answer"), HasSubstr("raise TasksMax=")));
}

}  // namespace
}  // namespace flight
