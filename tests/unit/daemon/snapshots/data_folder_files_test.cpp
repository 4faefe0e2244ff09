// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/data_folder_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight::daemon {
namespace {

// In an earlier version the message was that the directory exists.
TEST(DataFolderFilesTest, ALeftoverThatCannotBeRemovedIsNamed) {
  const TempTree store;
  const std::string name = ".flightd-snapshot.partial";
  store.write("/" + name + "/other", "not flightd's");
  const auto made = make_data_folder(store.root(), name, 1, []() -> Result<PartialFile> {
    return fail(std::errc::operation_not_supported, "it needs no file");
  });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().errno_value(), ENOTEMPTY);
  EXPECT_THAT(made.error().what, testing::HasSubstr("remove " + store.root() + "/" + name));
}

}  // namespace
}  // namespace flight::daemon
