// SPDX-License-Identifier: Apache-2.0
// A FUSE mount over /proc itself. Only a child process sees it.
#include "libcore/base/proc_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "libcore/base/unique_fd.hpp"
#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

constexpr std::chrono::milliseconds kSoonEnough(50);

class ProcCheck : public test::RootTest {};

TEST(ProcAnswers, TheKernelsDoes) { EXPECT_TRUE(proc_answers(std::chrono::milliseconds(0))); }

TEST_F(ProcCheck, AServersThatHangsDoesNot) {
  test::in_own_mounts([] {
    {
      const test::HungMount hung("/proc");
      for (int i = 0; i < 3; ++i) EXPECT_FALSE(proc_answers(kSoonEnough));
      EXPECT_EQ(::umount2("/proc", MNT_DETACH), 0);
    }
    while (!proc_answers(kSoonEnough)) {
    }
  });
}

// As in a chroot: what needs it says so.
TEST_F(ProcCheck, AFolderWithoutProcfsIsNoServers) {
  test::in_own_mounts([] {
    ASSERT_EQ(::mount("none", "/proc", "tmpfs", 0, nullptr), 0);
    EXPECT_TRUE(proc_answers(std::chrono::minutes(1)));
  });
}

// In a new process: it ends.
[[noreturn]] void wait_for_hung_proc(bool stays) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(3);
  const test::HungMount hung("/proc");
  ::alarm(60);
  await_proc(stays, kSoonEnough);
  ::_exit(2);
}

TEST_F(ProcCheck, AProgramEndsWithTheReason) {
  EXPECT_EXIT(wait_for_hung_proc(false), testing::ExitedWithCode(1), "/proc does not answer: .*umount --lazy /proc");
}

TEST_F(ProcCheck, AServiceStaysWithTheReasonInItsStatus) {
  std::string folder = "/tmp/flight-proc-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder + "/notify";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  ASSERT_EQ(::setsockopt(manager.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  const pid_t service = ::fork();
  ASSERT_GE(service, 0);
  if (service == 0) {
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    wait_for_hung_proc(true);
  }
  for (const char* words : {"READY=1\nSTATUS=recording: no (/proc does not answer", "WATCHDOG=1"}) {
    std::array<char, 1024> text{};
    EXPECT_GT(::recv(manager.get(), text.data(), text.size() - 1, 0), 0);
    EXPECT_THAT(std::string(text.data()), testing::StartsWith(words));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(service, &status, WNOHANG), 0) << "it stays";
  ::kill(service, SIGTERM);
  EXPECT_EQ(::waitpid(service, &status, 0), service);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace flight
