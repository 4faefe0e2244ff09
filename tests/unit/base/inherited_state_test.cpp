// SPDX-License-Identifier: Apache-2.0
// Each case in a process of its own, started as by a careless parent.
#include "libcore/base/inherited_state.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

constexpr rlim_t kSmall = 4096, kLarge = 8192;
constexpr rlim_t kFew = 64, kMore = 128;  // descriptors
constexpr rlim_t kSoon = 600, kLater = 1200;
constexpr rlim_t kSmallStack = 128U << 10U;  // also the hard limit
constexpr std::size_t kLargeArray = 1U << 20U;

int in_careless_child(const std::function<int()>& look) {
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(std::signal(SIGCHLD, SIG_IGN));
    static_cast<void>(std::signal(SIGXFSZ, SIG_DFL));
    static_cast<void>(std::signal(SIGPIPE, SIG_DFL));
    for (const int number : {SIGTERM, SIGINT}) static_cast<void>(std::signal(number, SIG_IGN));
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    ::umask(0777);
    const rlimit size{kSmall, kLarge};
    ::setrlimit(RLIMIT_FSIZE, &size);
    const rlimit files{kFew, kMore};
    ::setrlimit(RLIMIT_NOFILE, &files);
    const rlimit cpu_time{kSoon, kLater};
    ::setrlimit(RLIMIT_CPU, &cpu_time);
    const rlimit real_time{kSoon, kLater};
    ::setrlimit(RLIMIT_RTTIME, &real_time);
    const rlimit stack{kSmallStack, kSmallStack};
    ::setrlimit(RLIMIT_STACK, &stack);
    pthread_attr_t small;
    ::pthread_attr_init(&small);
    ::pthread_attr_setstacksize(&small, kSmallStack);  // as glibc does at a start with this limit
    ::pthread_setattr_default_np(&small);
    ::alarm(kSoon);
    ::_exit(look());
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// 0: the status of a child is known, and a file has its limit without the end of the process; a thread has a stack of
// the usual size.
int look_at_both() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(7);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) return 1;
  bool used = false;
  std::thread([&used] {
    std::array<char, kLargeArray> large;
    for (std::size_t i = 0; i < large.size(); i += 1024) large.at(i) = 1;
    volatile char* const last = &large.back();
    *last = 1;
    used = *last == 1;
  }).join();
  if (!used) return 10;
  const int file = ::memfd_create("file", MFD_CLOEXEC);
  if (::pwrite(file, "x", 1, kLarge + 1) != -1 || errno != EFBIG) return 2;
  return 0;
}

TEST(InheritedState, OfAService) {
  EXPECT_EQ(in_careless_child([] {
              rlimit tasks{};
              ::getrlimit(RLIMIT_NPROC, &tasks);
              tasks.rlim_cur = std::min(tasks.rlim_max, kMore) - 1;
              ::setrlimit(RLIMIT_NPROC, &tasks);
              settle_inherited_state(ProgramKind::service);
              if (const int wrong = look_at_both(); wrong != 0) return wrong;
              if (::alarm(0) != 0) return 9;
              rlimit size{};
              ::getrlimit(RLIMIT_FSIZE, &size);
              if (size.rlim_cur != kLarge) return 3;
              rlimit files{};
              ::getrlimit(RLIMIT_NOFILE, &files);
              if (files.rlim_cur != kMore) return 7;
              rlimit cpu_time{};
              ::getrlimit(RLIMIT_CPU, &cpu_time);
              if (cpu_time.rlim_cur != kLater) return 8;
              rlimit real_time{};
              ::getrlimit(RLIMIT_RTTIME, &real_time);
              if (real_time.rlim_cur != kLater) return 11;
              ::getrlimit(RLIMIT_NPROC, &tasks);
              if (tasks.rlim_cur != tasks.rlim_max) return 12;
              if (::umask(0) != 077) return 4;
              for (const int number : {SIGTERM, SIGINT})
                if (std::signal(number, SIG_DFL) != SIG_DFL) return 13;
              if (std::signal(SIGUSR1, SIG_DFL) != SIG_IGN) return 14;
              int ends[2];
              if (::pipe(ends) != 0 || ::close(ends[0]) != 0) return 5;
              sigset_t none;
              ::sigemptyset(&none);
              ::sigprocmask(SIG_SETMASK, &none, nullptr);
              return ::write(ends[1], "x", 1) == -1 && errno == EPIPE ? 0 : 6;
            }),
            0);
}

// As below `setarch linux32 --uname-2.6`, where the architecture in each file was i686.
TEST(InheritedState, AServiceIsOnTheRealMachine) {
  utsname real{};
  ASSERT_EQ(::uname(&real), 0);
  EXPECT_EQ(in_careless_child([&real] {
              ::personality(static_cast<unsigned long>(PER_LINUX32) | static_cast<unsigned long>(UNAME26));
              settle_inherited_state(ProgramKind::service);
              utsname seen{};
              if (::uname(&seen) != 0) return 1;
              if (std::strcmp(seen.machine, real.machine) != 0) return 2;
              return std::strcmp(seen.release, real.release) == 0 ? 0 : 3;
            }),
            0);
}

TEST(InheritedState, OfACommand) {
  EXPECT_EQ(in_careless_child([] {
              settle_inherited_state(ProgramKind::command);
              if (const int wrong = look_at_both(); wrong != 0) return wrong;
              if (::alarm(0) == 0) return 9;
              sigset_t now;
              ::sigprocmask(SIG_BLOCK, nullptr, &now);
              if (::sigisemptyset(&now) != 1) return 3;
              if (::umask(0) != 0777) return 4;
              restore_for_exec();
              return std::signal(SIGXFSZ, SIG_IGN) == SIG_DFL ? 0 : 5;
            }),
            0);
}

// Without the privilege to raise the hard limit.
[[noreturn]] void settle_with_a_stack_of(rlim_t bytes) {
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
  const rlimit stack{bytes, bytes};
  if (::setrlimit(RLIMIT_STACK, &stack) != 0) ::_exit(3);
  settle_inherited_state(ProgramKind::command);
  ::_exit(0);
}

TEST(InheritedStateDeathTest, AStackThatIsTooSmallIsAnErrorThatNamesTheLimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(settle_with_a_stack_of(64U << 10U), testing::ExitedWithCode(1),
              "the stack may have at most 64 KiB .the hard limit RLIMIT_STACK., and at least 128 are needed: raise it");
  EXPECT_EXIT(settle_with_a_stack_of(kSmallStack), testing::ExitedWithCode(0), "");
}

// A sanitizer has a heap of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// How much a thread with its stack of 8 MiB and its first allocation take of the address space, in MiB.
std::size_t address_space_of_a_thread() {
  const auto size_now = [] {
    std::size_t pages = 0;
    return std::fscanf(
               std::unique_ptr<std::FILE, int (*)(std::FILE*)>(std::fopen("/proc/self/statm", "r"), std::fclose).get(),
               "%zu", &pages) == 1
               ? pages * static_cast<std::size_t>(::getpagesize())
               : 0;
  };
  std::size_t grown = 0;
  const std::size_t before = size_now();
  std::thread([&] {
    const std::unique_ptr<char[]> memory(new char[kSmall]);
    grown = size_now() - before;
  }).join();
  return grown >> 20U;
}

// In a new process: one that had threads has heaps that a further thread gets.
[[noreturn]] void end_with_what_a_thread_takes(rlim_t limit) {
  const rlimit space{limit, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_AS, &space) != 0) ::_exit(1);
  settle_inherited_state(ProgramKind::service);
  ::_exit(address_space_of_a_thread() < 16 ? 2 : 3);
}

TEST(InheritedStateDeathTest, WithALimitOfTheAddressSpaceNoThreadTakesMuchOfIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_with_what_a_thread_takes(rlim_t{1} << 40U), testing::ExitedWithCode(2), "");
  EXPECT_EXIT(end_with_what_a_thread_takes(RLIM_INFINITY), testing::ExitedWithCode(3), "")
      << "glibc takes no 64 MiB any more: then nothing need be set";
}

// In a new process: glibc looks at these files once. A thread that hangs is ended by SIGALRM: no server has read its
// request.
[[noreturn]] void end_when_all_threads_had_memory(const char* covered) {
  constexpr unsigned kMostSeconds = 60;
  constexpr std::size_t kBlock = 65536, kBlocks = 8;  // each in a heap; together so much that it shrinks
  constexpr std::size_t kThreads = 40;  // without a limit, glibc asks for the number of CPUs at the ninth heap
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(3);
  const test::HungMount hung(covered);
  if (testing::Test::HasFailure()) ::_exit(4);
  settle_inherited_state(ProgramKind::service);
  ::alarm(kMostSeconds);
  std::vector<std::unique_ptr<char[]>> memory(kThreads);
  std::latch all_have(std::ptrdiff_t{kThreads});
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&memory, &all_have, i] {
      memory[i] = std::make_unique<char[]>(kSmall);
      all_have.arrive_and_wait();
      std::vector<std::unique_ptr<char[]>> more(kBlocks);
      for (auto& block : more) block = std::make_unique<char[]>(kBlock);
    });
  for (std::thread& thread : threads) thread.join();
  ::_exit(memory.back() ? 2 : 5);
}

TEST(InheritedStateDeathTest, ThreadsGetAndFreeMemoryWhileFilesOfTheKernelHang) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_when_all_threads_had_memory("/sys/devices/system/cpu/online"), testing::ExitedWithCode(2), "");
  EXPECT_EXIT(end_when_all_threads_had_memory("/proc/sys"), testing::ExitedWithCode(2), "");
}
#endif

}  // namespace
}  // namespace flight
