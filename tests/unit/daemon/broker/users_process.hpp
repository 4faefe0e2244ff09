// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

#include "libcore/base/unique_fd.hpp"

namespace flight::test {

// Another user's process; in a user namespace of his with another uid as well.
class UsersProcess {
 public:
  static constexpr uid_t kUser = 60001, kMapped = 160001;
  explicit UsersProcess(bool in_namespace) {
    std::array<int, 2> ready{}, mapped{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    EXPECT_EQ(::pipe(mapped.data()), 0);
    UniqueFd is_ready(ready[0]), says_ready(ready[1]), is_mapped(mapped[0]), says_mapped(mapped[1]);
    // Not fork(2): under ThreadSanitizer its child has a second thread, and unshare(2) refuses a process with threads
    // another user namespace. The C library would look for that thread in setresuid(3).
    pid_ = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (pid_ == 0) {
      const bool good = become(kUser) && (!in_namespace || ::unshare(CLONE_NEWUSER) == 0) && write_to(says_ready) &&
                        read_from(is_mapped) && (!in_namespace || become(0)) && write_to(says_ready);
      if (good) ::pause();
      ::_exit(1);
    }
    // Their end is seen as an end of file.
    says_ready.reset();
    is_mapped.reset();
    const bool is_his = read_from(is_ready);
    EXPECT_TRUE(is_his) << "this process is not another user's; in a user namespace: " << in_namespace;
    if (!is_his) return;  // a write would be SIGPIPE
    if (in_namespace) {
      const UniqueFd map(::open(fmt::format("/proc/{}/uid_map", pid_).c_str(), O_WRONLY | O_CLOEXEC));
      const std::string text = fmt::format("0 {} 1", kMapped);
      EXPECT_EQ(::write(map.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    EXPECT_TRUE(write_to(says_mapped));
    EXPECT_TRUE(read_from(is_ready));
    struct stat status {};
    EXPECT_EQ(::stat(fmt::format("/proc/{}", pid_).c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, in_namespace ? kMapped : kUser);
  }
  UsersProcess(const UsersProcess&) = delete;
  UsersProcess& operator=(const UsersProcess&) = delete;
  ~UsersProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  static bool write_to(const UniqueFd& fd) { return ::write(fd.get(), "x", 1) == 1; }
  static bool read_from(const UniqueFd& fd) {
    char byte = 0;
    return ::read(fd.get(), &byte, 1) == 1;
  }
  static bool become(uid_t user) { return ::syscall(SYS_setresuid, user, user, user) == 0; }
  pid_t pid_ = -1;
};

}  // namespace flight::test
