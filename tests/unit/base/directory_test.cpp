// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>

#include "libcore/base/unique_fd.hpp"
#include "tests/unit/base/failing_listings.hpp"

namespace flight {
namespace {

class DirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-directory-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::string path_;
};

TEST_F(DirectoryTest, EveryEntryWithItsTypeAndAgain) {
  std::ofstream(path_ + "/file") << "x";
  std::filesystem::create_directory(path_ + "/folder");
  auto directory = Directory::open(path_);
  ASSERT_TRUE(directory);
  for (int again = 0; again < 2; ++again) {
    std::map<std::string, unsigned> found;
    ASSERT_TRUE(directory->each([&](const Directory::Entry& entry) {
      found[std::string(entry.name)] = entry.type;
      return true;
    }));
    EXPECT_EQ(found, (std::map<std::string, unsigned>{{"file", DT_REG}, {"folder", DT_DIR}}));
  }
  int seen = 0;
  ASSERT_TRUE(directory->each([&](const Directory::Entry&) { return ++seen < 1; }));
  EXPECT_EQ(seen, 1);
}

TEST_F(DirectoryTest, WhatIsNoFolderIsAnError) {
  EXPECT_EQ(Directory::open(path_ + "/none").error().errno_value(), ENOENT);
  std::filesystem::create_directory_symlink("/proc", path_ + "/link");
  const UniqueFd folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_FALSE(Directory::open_at(folder.get(), "link", path_ + "/link"));
  EXPECT_TRUE(Directory::open_at(folder.get(), ".", path_));
}

// readdir(3) distinguishes an error from the end only by errno.
TEST_F(DirectoryTest, AnErrorIsNoEnd) {
  auto directory = Directory::open(path_);
  ASSERT_TRUE(directory);
  const UniqueFd no_folder(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_GE(::dup2(no_folder.get(), directory->fd()), 0);
  const auto read = directory->each([](const Directory::Entry&) { return true; });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().errno_value(), ENOTDIR);
}

class FailingListings : public DirectoryTest {};

TEST_F(FailingListings, AnErrorAtTheBeginning) {
  std::ofstream(path_ + "/file") << "x";
  auto directory = Directory::open(path_);
  ASSERT_TRUE(directory);
  int seen = 0;
  const auto count = [&seen](const Directory::Entry&) { return ++seen > 0; };
  const auto read = test::with_failing_listings([&] { return directory->each(count); });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().errno_value(), EIO);
  EXPECT_THAT(read.error().what, testing::HasSubstr(path_));
  EXPECT_EQ(seen, 0);
  EXPECT_TRUE(directory->each(count)) << "on another thread";
  EXPECT_EQ(seen, 1);
}

TEST_F(FailingListings, AnErrorInTheMiddle) {
  std::ofstream(path_ + "/file") << "x";
  auto directory = Directory::open(path_);
  ASSERT_TRUE(directory);
  int seen = 0;
  const auto read = std::async(std::launch::async, [&] {
                      return directory->each([&seen](const Directory::Entry&) {
                        test::fail_listings();
                        return ++seen > 0;
                      });
                    }).get();
  EXPECT_EQ(seen, 1);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().errno_value(), EIO);
}

}  // namespace
}  // namespace flight
