// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/partial_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "libcore/base/partial_name.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight::broker {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A directory takes the place of a file that cannot be removed, also by root.
TEST(PartialFile, ALeftoverOfTheBrokerIsRemovedBeforeAFileIsRefused) {
  const TempTree state;
  const std::string stuck = partial_name(UINT64_MAX);
  const std::string path = state.root() + "/snapshots/" + stuck;
  for (std::uint64_t i = 1; i < kMaxPartialFiles; ++i) state.write("/snapshots/" + partial_name(i), "");
  fs::create_directory(path);
  remove_partial_file(state.root(), stuck);
  const auto refused = create_partial_file(state.root(), std::nullopt, FileKind::final);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EBUSY) << "ENOSPC would delete snapshots";
  EXPECT_THAT(refused.error().what, AllOf(HasSubstr("16 unfinished files"), HasSubstr("could not remove " + path),
                                          HasSubstr("Is a directory")));
  fs::remove(path);
  state.write("/snapshots/" + stuck, "");
  const auto made = create_partial_file(state.root(), std::nullopt, FileKind::final);
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace flight::broker
