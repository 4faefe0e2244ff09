// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
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
    pid_ = ::fork();
    if (pid_ == 0) {
      char byte = 'x';
      bool good = ::setresuid(kUser, kUser, kUser) == 0 && (!in_namespace || ::unshare(CLONE_NEWUSER) == 0);
      good = good && ::write(ready[1], &byte, 1) == 1 && ::read(mapped[0], &byte, 1) == 1;
      good = good && (!in_namespace || ::setresuid(0, 0, 0) == 0) && ::write(ready[1], &byte, 1) == 1;
      if (good) ::pause();
      ::_exit(1);
    }
    char byte = 'x';
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    if (in_namespace) {
      const UniqueFd map(::open(fmt::format("/proc/{}/uid_map", pid_).c_str(), O_WRONLY | O_CLOEXEC));
      const std::string text = fmt::format("0 {} 1", kMapped);
      EXPECT_EQ(::write(map.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    EXPECT_EQ(::write(mapped[1], &byte, 1), 1);
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    for (const int end : {ready[0], ready[1], mapped[0], mapped[1]}) ::close(end);
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
  pid_t pid_ = -1;
};

}  // namespace flight::test
