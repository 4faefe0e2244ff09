// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/output_relay.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

// The kind of file that `number` is then: S_IFIFO, S_IFREG.
mode_t kind_of(int number) {
  struct stat status {};
  return ::fstat(number, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

class OutputRelay : public test::RootTest {
 protected:
  void SetUp() override {
    path_ = "/tmp/flight-relay-XXXXXX";
    const int file = ::mkstemp(path_.data());
    ASSERT_GE(file, 0);
    ::close(file);
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  std::string path_;
};

TEST_F(OutputRelay, AFileThatWaitsForNobodyStays) {
  test::in_own_mounts([this] {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(::dup2(file, STDERR_FILENO), 0);
    relay_output();
    EXPECT_EQ(kind_of(STDERR_FILENO), static_cast<mode_t>(S_IFREG));
  });
}

// O_PATH: to open it would wait for the server.
TEST_F(OutputRelay, AFileOfAServerIsWrittenByAnotherProcess) {
  test::in_own_mounts([this] {
    const test::HungMount hung(path_);
    const int file = ::open(path_.c_str(), O_PATH | O_CLOEXEC);
    ASSERT_GE(file, 0);
    for (const int number : {STDIN_FILENO, STDERR_FILENO}) ASSERT_GE(::dup2(file, number), 0);
    relay_output();
    EXPECT_EQ(kind_of(STDERR_FILENO), static_cast<mode_t>(S_IFIFO));
    EXPECT_EQ(kind_of(STDIN_FILENO), static_cast<mode_t>(S_IFCHR)) << "/dev/null";
    EXPECT_EQ(::write(STDERR_FILENO, "x", 1), 1);
  });
}

}  // namespace
}  // namespace flight
