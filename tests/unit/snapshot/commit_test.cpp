// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/commit.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "libcore/base/partial_name.hpp"
#include "libcore/store/leftovers.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;

// In an earlier version they stayed until flightd was restarted, and after 16 of them the broker made no more files.
TEST(PartialFilesTest, WhatCannotBeRemovedAtTheEndIsRemovedLater) {
  std::string folder = "/tmp/flight-partial-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string plain = partial_name(1), stuck = partial_name(2), kept = partial_name(3);
  for (const std::string& file : {plain, kept}) std::ofstream(folder + "/" + file) << "x";
  fs::create_directory(folder + "/" + stuck);
  std::ofstream(folder + "/" + stuck + "/other") << "x";  // so it cannot be removed
  {
    PartialFiles keeping(folder, {kept});
    keeping.keep();
    const PartialFiles files(folder, {stuck, plain});
  }
  EXPECT_FALSE(fs::exists(folder + "/" + plain));
  EXPECT_TRUE(fs::exists(folder + "/" + kept));
  EXPECT_TRUE(remove_leftovers(folder));
  fs::remove(folder + "/" + stuck + "/other");
  EXPECT_FALSE(remove_leftovers(folder));
  EXPECT_FALSE(fs::exists(folder + "/" + stuck));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace flight
