// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/tracepoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/unit/perf/temp_tree.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Tracepoint, OfAFakeTree) {
  const TempTree tree;
  tree.write("events/sched/sched_switch/id", "316\n");
  tree.write("events/sched/sched_switch/format", "name: sched_switch\n");
  tree.write("events/sched/enable", "0\n");
  tree.write("events/sched/no_id/format", "x");
  tree.write("events/irq/irq_handler_entry/id", "12\n");
  EXPECT_THAT(list_tracepoints(tree.path()), ElementsAre("irq:irq_handler_entry", "sched:sched_switch"));
  EXPECT_EQ(tracepoint_id(tree.path(), "sched", "sched_switch").value_or(0), 316U);
  EXPECT_EQ(tracepoint_format(tree.path(), "sched", "sched_switch").value_or(""), "name: sched_switch\n");
  const auto missing = tracepoint_id(tree.path(), "sched", "enable");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().errno_value(), ENOENT);
  EXPECT_EQ(tracepoint_format(tree.path(), "sched", "sched_swich").error().errno_value(), ENOENT);
  for (const char* name : {"", ".", "..", "a/b", "../sched/sched_switch"}) {
    EXPECT_EQ(tracepoint_id(tree.path(), "sched", name).error().errno_value(), EINVAL) << name;
    EXPECT_EQ(tracepoint_id(tree.path(), name, "sched_switch").error().errno_value(), EINVAL) << name;
  }
}

TEST(Tracepoint, OfAnEmptyTree) {
  const TempTree tree;
  EXPECT_THAT(list_tracepoints(tree.path()), IsEmpty());
  EXPECT_THAT(tracepoint_id(tree.path(), "sched", "sched_switch").error().what, HasSubstr("no readable one"));
  EXPECT_THAT(tracepoint_id("", "sched", "sched_switch").error().what, HasSubstr("mount -t tracefs"));
}

// The real id is in the text of the format, as a reader of our files expects.
TEST(Tracepoint, OfThisKernel) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const auto tracefs = find_or_mount_tracefs();
  ASSERT_TRUE(tracefs) << tracefs.error().what;
  const auto found = find_tracefs();
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, *tracefs);
  const auto id = tracepoint_id(*tracefs, "sched", "sched_process_exec");
  ASSERT_TRUE(id) << id.error().what;
  const auto format = tracepoint_format(*tracefs, "sched", "sched_process_exec");
  ASSERT_TRUE(format) << format.error().what;
  EXPECT_THAT(*format, HasSubstr("name: sched_process_exec\nID: " + std::to_string(*id) + "\n"));
  const auto all = list_tracepoints(*tracefs);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_TRUE(std::binary_search(all.begin(), all.end(), "raw_syscalls:sys_enter"));
}

// The child's exit status says where it failed; 0 if it did not.
int in_child(int (*work)()) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

int mount_it_again() {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 1;
  for (auto found = find_tracefs(); found; found = find_tracefs())
    if (::umount2(found->c_str(), MNT_DETACH) != 0) return 2;
  const auto missing = find_tracefs();
  if (missing.error().errno_value() != ENOENT) return 3;
  if (missing.error().what.find("mount -t tracefs tracefs /sys/kernel/tracing") == std::string::npos) return 4;
  const auto mounted = find_or_mount_tracefs();
  if (!mounted || *mounted != "/sys/kernel/tracing") return 5;
  if (!tracepoint_id(*mounted, "sched", "sched_switch")) return 6;
  return find_or_mount_tracefs().value_or("") == *mounted ? 0 : 7;
}

// In a mount namespace of its own.
TEST(Tracefs, IsMountedWhereItIsNot) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child(mount_it_again), 0);
}

int look_as_nobody() {
  constexpr uid_t kNobody = 65534;
  const auto tracefs = find_tracefs();
  if (!tracefs || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return 1;
  const auto id = tracepoint_id(*tracefs, "sched", "sched_switch");
  if (id) return 2;
  if (id.error().errno_value() != EACCES) return 3;
  return id.error().what.find("CAP_DAC_READ_SEARCH") == std::string::npos ? 4 : 0;
}

TEST(Tracefs, AsNobodyTheErrorNamesTheCapability) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(find_or_mount_tracefs());
  EXPECT_EQ(in_child(look_as_nobody), 0);
}

int mount_as_nobody() {
  constexpr uid_t kNobody = 65534;
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 1;
  for (auto found = find_tracefs(); found; found = find_tracefs())
    if (::umount2(found->c_str(), MNT_DETACH) != 0) return 2;
  if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return 3;
  const auto refused = find_or_mount_tracefs();
  if (refused || refused.error().errno_value() != EPERM) return 4;
  return refused.error().what.find("mount -t tracefs") == std::string::npos ? 5 : 0;
}

TEST(Tracefs, AsNobodyMountingFails) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child(mount_as_nobody), 0);
}

}  // namespace
}  // namespace flight::test
