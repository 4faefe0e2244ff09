// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/close_inherited.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/base/failing_listings.hpp"

namespace flight {
namespace {

constexpr int kFirst = 3, kKept = 40, kLast = 80;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// In a process of its own. 0: only `kept` is left; else the descriptor that is wrong.
int wrong_after(int kept, bool refused) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int fd : {kFirst, 10, kKept, kLast})
      if (::dup2(STDERR_FILENO, fd) != fd) ::_exit(255);
    if (refused) test::fail_calls(SYS_close_range, EPERM);
    close_inherited(kFirst, kept);
    for (int fd = kFirst; fd <= kLast; ++fd)
      if (is_open(fd) != (fd == kept)) ::_exit(fd);
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A sandbox of an older systemd or container does not know the call.
TEST(CloseInherited, AlsoWhereCloseRangeIsRefused) {
  for (const bool refused : {false, true})
    for (const int kept : {-1, kFirst, kKept, kLast}) EXPECT_EQ(wrong_after(kept, refused), 0) << kept << refused;
}

}  // namespace
}  // namespace flight
