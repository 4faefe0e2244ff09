// SPDX-License-Identifier: Apache-2.0
// A FUSE mount whose server answers nothing, as of a container's lxcfs that hangs: whoever asks it waits. Only a child
// process sees it.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "libcore/base/unique_fd.hpp"

namespace flight::test {

class HungMount {
 public:
  // Over a file or a folder. `options`: more of mount.fuse3(8).
  explicit HungMount(const std::string& path, const std::string& options = ",allow_other")
      : server_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    struct stat status {};
    const bool is_folder = ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    const std::string all =
        fmt::format("fd={},rootmode={},user_id=0,group_id=0{}", server_.get(), is_folder ? "40755" : "100444", options);
    EXPECT_EQ(::mount("server", path.c_str(), "fuse.hung", MS_NOSUID | MS_NODEV, all.c_str()), 0)
        << path << ": errno " << errno;
  }

 private:
  UniqueFd server_;  // nobody reads from it
};

// Runs `body` in a child with mounts of its own. If it hangs, the child is killed: no server has read its request yet.
template <typename Body>
void in_own_mounts(Body body) {
  constexpr unsigned kMostSeconds = 60;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(kMostSeconds);
    const bool is_alone =
        ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!is_alone) ::_exit(2);  // the mounts would be the machine's
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "it hung, and was killed by signal " << WTERMSIG(status);
  EXPECT_EQ(status, 0) << "see the failures above";
}

}  // namespace flight::test
