// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/thread.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <thread>
#include <utility>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

TEST(Thread, HasItsName) {
  std::string name;
  auto thread = start_thread("a-name", [&] { name = read_line("/proc/thread-self/comm").value_or("?"); });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_EQ(name, "a-name");
}

// struct sched_attr: two numbers of 32 bits, the flags, nice and priority, and the slice.
std::array<std::uint64_t, 6> scheduling_attributes() {
  std::array<std::uint64_t, 6> out{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, out.data(), sizeof(out), 0U), 0);
  return out;
}

bool has_time_slices() {
  utsname kernel{};
  int major = 0, minor = 0;
  return ::uname(&kernel) == 0 && std::sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
         std::pair(major, minor) >= std::pair(6, 12);
}

TEST(Thread, TakesAndGivesBackATimeSlice) {
  constexpr std::size_t kNice = 2, kSlice = 3;
  std::array<std::uint64_t, 6> before{}, taken{}, inherited{}, given_back{};
  auto thread = start_thread("sliced", [&] {
    before = scheduling_attributes();
    set_time_slice(std::chrono::microseconds(100));
    taken = scheduling_attributes();
    auto child = start_thread("child", [&] { inherited = scheduling_attributes(); });
    if (child) child->join();
    set_time_slice(std::chrono::nanoseconds(0));
    given_back = scheduling_attributes();
  });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_EQ(taken[kNice], before[kNice]);
  EXPECT_EQ(given_back, before);
  if (!has_time_slices()) return;  // an older kernel knows none
  EXPECT_EQ(taken[kSlice], 100'000U);
  EXPECT_EQ(inherited[kSlice], 100'000U);
}

int policy_of(const std::array<std::uint64_t, 6>& attributes) { return static_cast<int>(attributes[0] >> 32U); }

TEST(UrgentWait, IsRealTimeUntilItsEnd) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: RLIMIT_RTPRIO is 0 for others";
  constexpr std::size_t kFlags = 1;
  std::array<std::uint64_t, 6> before{}, waiting{}, twice{}, inherited{}, after{};
  auto thread = start_thread("urgent", [&] {
    set_time_slice(std::chrono::microseconds(100));
    before = scheduling_attributes();
    UrgentWait wait;
    wait.begin();
    waiting = scheduling_attributes();
    wait.begin();
    twice = scheduling_attributes();
    auto child = start_thread("child", [&] { inherited = scheduling_attributes(); });
    if (child) child->join();
    wait.end();
    after = scheduling_attributes();
  });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_EQ(policy_of(before), SCHED_OTHER);
  EXPECT_EQ(policy_of(waiting), SCHED_FIFO);
  EXPECT_EQ(twice, waiting);
  EXPECT_EQ(policy_of(inherited), SCHED_OTHER);
  before[kFlags] = after[kFlags];
  EXPECT_EQ(after, before);
}

std::chrono::nanoseconds clock_value(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Works as long as a slow answer, again and again. Only what was real-time counts: what begin() does before the policy
// changes, and end() after it, is an ordinary thread's work.
TEST(UrgentWait, UsesNoMoreThanItsShareHoweverOftenItIsWoken) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: RLIMIT_RTPRIO is 0 for others";
  constexpr std::chrono::nanoseconds kAnswer = std::chrono::milliseconds(2);
  std::chrono::nanoseconds urgent{}, ordinary{}, longest{}, took{};
  int urgent_later = 0;
  bool still_urgent = false;
  auto thread = start_thread("urgent", [&] {
    const std::chrono::nanoseconds begun = clock_value(CLOCK_MONOTONIC);
    UrgentWait wait;
    while (urgent_later < 2 && took < std::chrono::minutes(1)) {
      wait.begin();
      const std::chrono::nanoseconds before = clock_value(CLOCK_THREAD_CPUTIME_ID);
      const bool is_urgent = policy_of(scheduling_attributes()) == SCHED_FIFO;
      while (clock_value(CLOCK_THREAD_CPUTIME_ID) - before < kAnswer) {
      }
      const std::chrono::nanoseconds used = clock_value(CLOCK_THREAD_CPUTIME_ID) - before;
      wait.end();
      (is_urgent ? urgent : ordinary) += used;
      longest = std::max(longest, used);
      if (is_urgent && ordinary.count() > 0) ++urgent_later;
      still_urgent = still_urgent || policy_of(scheduling_attributes()) != SCHED_OTHER;
      took = clock_value(CLOCK_MONOTONIC) - begun;
    }
  });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_EQ(urgent_later, 2);
  EXPECT_FALSE(still_urgent);
  EXPECT_GT(urgent, UrgentWait::kAtOnce);
  EXPECT_LE(urgent, UrgentWait::kAtOnce + longest + took / UrgentWait::kShare);
  EXPECT_GT(ordinary, urgent);
}

TEST(UrgentWait, SaysAfterWhichTimeItIsUrgentAgain) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: RLIMIT_RTPRIO is 0 for others";
  std::chrono::nanoseconds after{};
  bool said_nothing = false, urgent_again = false;
  auto thread = start_thread("urgent", [&] {
    UrgentWait wait;
    said_nothing = !wait.begin();
    const std::chrono::nanoseconds until = clock_value(CLOCK_THREAD_CPUTIME_ID) + UrgentWait::kAtOnce * 2;
    while (clock_value(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
    wait.end();
    after = wait.begin().value_or(std::chrono::nanoseconds(0));
    std::this_thread::sleep_for(after);
    urgent_again = !wait.begin() && policy_of(scheduling_attributes()) == SCHED_FIFO;
    wait.end();
  });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_TRUE(said_nothing);
  EXPECT_GT(after.count(), 0);
  EXPECT_TRUE(urgent_again);
}

// renice(1) also reaches a thread that waits, and only a privileged one may lower its nice level again.
TEST(UrgentWait, EndsAlsoIfTheNiceLevelWasRaised) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root for a real-time priority";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_NICE, &none) != 0) ::_exit(2);
    UrgentWait wait;
    wait.begin();
    if (policy_of(scheduling_attributes()) != SCHED_FIFO) ::_exit(3);
    if (::setpriority(PRIO_PROCESS, 0, 5) != 0) ::_exit(4);
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(5);
    wait.end();
    if (policy_of(scheduling_attributes()) != SCHED_OTHER) ::_exit(6);
    ::_exit(::getpriority(PRIO_PROCESS, 0) == 5 ? 0 : 7);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(UrgentWait, LeavesAnotherPolicyAlone) {
  int policy = -1;
  auto thread = start_thread("batch", [&] {
    const sched_param none{};
    if (::sched_setscheduler(0, SCHED_BATCH, &none) != 0) return;
    UrgentWait wait;
    wait.begin();
    policy = ::sched_getscheduler(0);
    wait.end();
  });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_EQ(policy, SCHED_BATCH);
}

TEST(UrgentWait, ARefusalChangesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_RTPRIO, &none) != 0) ::_exit(2);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
    UrgentWait wait;
    wait.begin();
    if (::sched_getscheduler(0) != SCHED_OTHER) ::_exit(4);
    wait.end();
    ::_exit(::sched_getscheduler(0) == SCHED_OTHER ? 0 : 5);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The sanitizers' own memory counts for RLIMIT_AS.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// std::thread's constructor would end the process.
TEST(Thread, OneThatCannotBeMadeIsAnError) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_memory{.rlim_cur = 1, .rlim_max = 1};
    if (::setrlimit(RLIMIT_AS, &no_memory) != 0) ::_exit(2);
    // The C library may keep some stacks of threads that ended.
    for (int i = 0; i < 100; ++i) {
      auto thread = start_thread("x", [] { ::pause(); });
      if (!thread) ::_exit(thread.error().errno_value() == EAGAIN ? 0 : 1);
      thread->detach();
    }
    ::_exit(3);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace flight
