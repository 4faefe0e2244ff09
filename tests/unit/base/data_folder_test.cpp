// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/data_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;

class DataFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-data-folder-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  void TearDown() override { fs::remove_all(path_); }
  void put(const std::string& name, std::string_view text) const { std::ofstream(path_ + "/" + name) << text; }
  [[nodiscard]] Result<DataFolder> open() const { return DataFolder::open_at(AT_FDCWD, path_, path_); }
  std::string path_;
};

TEST_F(DataFolderTest, ItsFilesAreInTheOrderOfTheirNumbers) {
  put("data.10", "ten");
  put("data.9", "nine!");
  put("data", "d");
  put("data.0", "");
  const auto folder = open();
  ASSERT_TRUE(folder) << folder.error().what;
  std::vector<std::string> names;
  for (const DataFolderFile& file : folder->files()) names.push_back(file.name);
  EXPECT_THAT(names, testing::ElementsAre("data", "data.0", "data.9", "data.10"));
  EXPECT_EQ(folder->bytes(), 9U);
  EXPECT_EQ(folder->files()[2].bytes, 5U);
  EXPECT_EQ(folder->files()[2].links, 1U);
  EXPECT_EQ(folder->other(), "");
  const auto file = folder->open_file("data.9");
  ASSERT_TRUE(file) << file.error().what;
  EXPECT_EQ(read_all(file->get()).value_or(""), "nine!");
}

TEST_F(DataFolderTest, WhatIsNotItsOwnIsAnother) {
  put("data", "d");
  for (const char* name : {"data.01", "data.x", "data.", "notes"}) {
    put(name, "x");
    const auto folder = open();
    ASSERT_TRUE(folder) << folder.error().what;
    EXPECT_EQ(folder->files().size(), 1U) << name;
    EXPECT_EQ(folder->other(), name);
    fs::remove(path_ + "/" + name);
  }
  fs::create_directory(path_ + "/data.1");
  EXPECT_EQ(open()->other(), "data.1");
  fs::remove(path_ + "/data.1");
  fs::create_symlink("data", path_ + "/data.2");
  EXPECT_EQ(open()->other(), "data.2") << "a link is not followed";
}

TEST_F(DataFolderTest, WithoutDataItIsNone) {
  put("data.0", "x");
  const auto folder = open();
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().errno_value(), EBADMSG) << folder.error().what;
  EXPECT_EQ(DataFolder::open_at(AT_FDCWD, path_ + "/data.0", "a file").error().errno_value(), ENOTDIR);
  EXPECT_EQ(DataFolder::open_at(AT_FDCWD, path_ + "/none", "nothing").error().errno_value(), ENOENT);
  put("data", "d");
  const std::string link = path_ + "-link";
  fs::create_directory_symlink(path_, link);
  EXPECT_FALSE(DataFolder::open_at(AT_FDCWD, link, link));
  fs::remove(link);
}

}  // namespace
}  // namespace flight
