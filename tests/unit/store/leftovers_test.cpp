// SPDX-License-Identifier: Apache-2.0
// Unfinished files that cannot be removed. A directory with something else in it stands for one, also for root: after
// that has gone, the directory can be removed, as a file can when the disk works again.
#include "libcore/store/leftovers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "libcore/base/partial_name.hpp"
#include "libcore/store/catalogue.hpp"
#include "libcore/store/names.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class LeftoversTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-leftovers-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string at(const std::string& file) const { return folder_ + "/" + file; }
  [[nodiscard]] bool exists(const std::string& file) const { return fs::exists(at(file)); }
  void make_stuck(const std::string& file) const {
    fs::create_directory(at(file));
    std::ofstream(at(file) + "/other") << "x";
  }
  void release(const std::string& file) const { fs::remove(at(file) + "/other"); }

  std::string folder_;
};

TEST_F(LeftoversTest, WhatCannotBeRemovedIsRemovedLater) {
  const std::string plain = partial_name(1), first = partial_name(2), second = partial_name(3);
  std::ofstream(at(plain)) << "x";
  for (const std::string& file : {first, second}) make_stuck(file);
  for (const std::string& file : {plain, first, second, partial_name(4)}) remove_unfinished(folder_, file);
  EXPECT_FALSE(exists(plain));
  EXPECT_FALSE(remove_leftovers(folder_ + "-other")) << "they are in another directory";
  auto left = remove_leftovers(folder_);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->errno_value(), ENOTEMPTY);
  EXPECT_THAT(left->what, AllOf(HasSubstr("2 unfinished files"), HasSubstr(at(first)), HasSubstr("not empty")));
  release(first);
  left = remove_leftovers(folder_);
  ASSERT_TRUE(left);
  EXPECT_THAT(left->what, AllOf(HasSubstr("1 unfinished file "), HasSubstr(at(second))));
  EXPECT_FALSE(exists(first));
  release(second);
  EXPECT_FALSE(remove_leftovers(folder_));
  EXPECT_FALSE(exists(second));
}

TEST_F(LeftoversTest, PartsAndTheSidecarOfASnapshotAreUsedOnce) {
  const SnapshotName name{.host = "web3", .time = WallTime(std::chrono::hours(480'000)), .trigger = "spike", .seq = 7};
  const std::string part = part_file(PartFileKind::data, 9);
  make_stuck(part);
  make_stuck(name.sidecar_file());
  remove_unfinished(folder_, part);
  remove_unfinished(folder_, name.sidecar_file());
  ASSERT_TRUE(remove_leftovers(folder_));
  release(part);
  fs::remove_all(at(name.sidecar_file()));
  std::ofstream(at(name.sidecar_file())) << "{}";
  EXPECT_FALSE(remove_leftovers(folder_));
  EXPECT_FALSE(exists(part));
  EXPECT_FALSE(exists(name.sidecar_file()));
}

// By then the name can be that of a new file, which is needed.
TEST_F(LeftoversTest, AFixedNameIsNotRemovedLater) {
  const SnapshotName name{.host = "web3", .time = WallTime(std::chrono::hours(480'000)), .trigger = "record", .seq = 7};
  for (const std::string& file : {std::string(".flightd-snapshot.partial"), std::string(".flightd-whole-5.partial"),
                                  std::string(".flightd-spare-data"), name.sidecar_file()}) {
    make_stuck(file);
    remove_unfinished(folder_, file);
    release(file);
    EXPECT_FALSE(remove_leftovers(folder_)) << file;
    EXPECT_TRUE(exists(file)) << file;
  }
}

// Files of a flightd that was killed, on a disk that refuses to remove them at the next start.
TEST_F(LeftoversTest, WhatTheStartCannotRemoveIsRemovedLater) {
  const std::string file = partial_name(1);
  make_stuck(file);
  EXPECT_EQ(Catalogue(folder_).remove_partials(), 0U);
  EXPECT_TRUE(remove_leftovers(folder_));
  release(file);
  EXPECT_FALSE(remove_leftovers(folder_));
  EXPECT_FALSE(exists(file));
}

TEST(PartialName, IsThatOfTheBrokersFiles) {
  EXPECT_EQ(partial_name(0xab), ".flightd-00000000000000ab.partial");
  EXPECT_TRUE(is_partial_name(partial_name(UINT64_MAX)));
  for (const char* other : {".flightd-00000000000000ab", ".flightd-000000000000ab.partial", ".flightd-part-1.partial",
                            ".flightd-00000000000000aG.partial", "flight-000000000000000ab.partial", ""})
    EXPECT_FALSE(is_partial_name(other)) << other;
}

}  // namespace
}  // namespace flight
