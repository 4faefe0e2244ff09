// SPDX-License-Identifier: Apache-2.0
// File systems that count links otherwise: this program has its own fstat(2) and flock(2), which answer as they do, or
// as the kernel.
#include "ctl/new_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "libcore/base/files.hpp"

namespace {

int reported_links = -1;            // -1: the kernel's
std::function<void()> before_lock;  // called once

}  // namespace

extern "C" int fstat(int fd, struct stat* status) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_fstat, fd, status));
  if (result == 0 && reported_links >= 0) status->st_nlink = static_cast<nlink_t>(reported_links);
  return result;
}

// Under another name in C++: fcntl.h has a struct flock, which a function of that name would hide.
extern "C" int own_flock(int fd, int operation) noexcept __asm__("flock");
int own_flock(int fd, int operation) noexcept {
  if (const auto other = std::exchange(before_lock, nullptr)) other();
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace flight::ctl {
namespace {

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() {
    std::string name = "/tmp/flight-new-file-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~NewFileTest() override {
    reported_links = -1;
    before_lock = nullptr;
    std::filesystem::remove_all(folder_);
  }
  void expect_kept(NewFile& file) const {
    ASSERT_TRUE(write_all(file.fd(), "content"));
    const auto kept = file.keep();
    ASSERT_TRUE(kept) << kept.error().what;
    EXPECT_EQ(read_file(target()).value_or("nothing"), "content");
  }
  [[nodiscard]] std::string target() const { return folder_ + "/x"; }
  std::string folder_;
};

TEST_F(NewFileTest, IsMadeWhereFilesHaveNoLinks) {
  reported_links = 0;
  auto file = NewFile::create(target());
  ASSERT_TRUE(file) << file.error().what;
  expect_kept(*file);
}

// Another flightctl took it for that of a dead one. On NFS and FUSE it then has another name, and still one link.
TEST_F(NewFileTest, IsMadeAgainIfItWasRemovedBeforeItsLock) {
  const std::string partial = target() + ".partial";
  for (const int links : {0, 1}) {
    reported_links = links;
    before_lock = [&] { EXPECT_TRUE(std::filesystem::remove(partial)); };
    auto file = NewFile::create(target());
    ASSERT_TRUE(file) << file.error().what;
    ASSERT_FALSE(before_lock);
    expect_kept(*file);
    std::filesystem::remove(target());
  }
}

TEST_F(NewFileTest, LeavesTheFileOfAnotherFlightctlAlone) {
  const std::string partial = target() + ".partial";
  std::optional<NewFile> other;
  before_lock = [&] {
    EXPECT_TRUE(std::filesystem::remove(partial));
    auto made = NewFile::create(target());
    ASSERT_TRUE(made) << made.error().what;
    other.emplace(std::move(*made));
  };
  reported_links = 1;
  const auto file = NewFile::create(target());
  ASSERT_FALSE(file) << "both would write it";
  EXPECT_EQ(file.error().errno_value(), EBUSY);
  ASSERT_TRUE(other);
  expect_kept(*other);
}

}  // namespace
}  // namespace flight::ctl
