// SPDX-License-Identifier: Apache-2.0
// The last snapshot of a lost broker becomes root's by a copy, if there is space for it.
#include "daemon/store/spare_files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace flight::daemon {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SpareFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
    std::string name = "/tmp/flight-spare-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
    std::ofstream(last_of_lost()) << std::string(6U << 20U, 'x');
    ASSERT_EQ(::chmod(last_of_lost().c_str(), 0660), 0);
  }
  void TearDown() override {
    if (folder_.empty()) return;
    ::umount2(folder_.c_str(), MNT_DETACH);
    fs::remove_all(folder_);
  }
  [[nodiscard]] std::string last_of_lost() const {
    return folder_ + "/flight-box-20261120T031204.123Z-broker-lost-7.perf.data";
  }
  // As the broker makes them.
  Result<PartialFile> make() {
    const std::string name = ".flightd-0123456789abcdef.partial";
    UniqueFd fd(::open((folder_ + "/" + name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
    if (!fd) return sys_error(errno, "create {}", name);
    ++made_;
    return PartialFile{.fd = std::move(fd), .name = name};
  }
  [[nodiscard]] bool is_final() const {
    struct stat info {};
    return ::stat(last_of_lost().c_str(), &info) == 0 && (info.st_mode & S_IWGRP) == 0 && info.st_size == 6U << 20U;
  }

  std::string folder_;
  int made_ = 0;
};

TEST_F(SpareFilesTest, ACopyReplacesIt) {
  const auto done = make_final(folder_, [this] { return make(); });
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_EQ(made_, 1);
  EXPECT_TRUE(is_final());
  EXPECT_TRUE(make_final(folder_, [this] { return make(); }));
  EXPECT_EQ(made_, 1) << "it is final";
}

// In an earlier version a disk with less space was filled every five seconds, and everybody's writes failed.
TEST_F(SpareFilesTest, ACopyThatDoesNotFitIsNotBegun) {
  std::ofstream(folder_ + "/others") << std::string(5U << 20U, 'x');
  const auto done = make_final(folder_, [this] { return make(); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value(), ENOSPC);
  EXPECT_THAT(done.error().what, HasSubstr("broker-lost-7.perf.data: copy 6.0M: "));
  EXPECT_EQ(made_, 0);
  EXPECT_FALSE(is_final());
  fs::remove(folder_ + "/others");
  EXPECT_TRUE(make_final(folder_, [this] { return make(); }));
  EXPECT_TRUE(is_final());
}

}  // namespace
}  // namespace flight::daemon
