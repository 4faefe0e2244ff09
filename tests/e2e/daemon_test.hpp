// SPDX-License-Identifier: Apache-2.0
// A test with a running flightd.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"

namespace flight {

class DaemonTest : public testing::Test {
 protected:
  explicit DaemonTest(Json config) : config_(std::move(config)) {}
  void SetUp() override { ASSERT_TRUE(daemon_.start(config_)); }

  // The names of the store's files that contain `part`.
  [[nodiscard]] std::vector<std::string> files(std::string_view part) const;
  // flightctl as nobody, which is flightd's own user in stacks_config() and may call all methods.
  [[nodiscard]] Arguments own_user_command(const Arguments& arguments) const;

  Json config_;
  TempFolder folder_;
  TestDaemon daemon_{folder_};
};

// Checks at the end that flightd survived the test.
class SurvivesTest : public DaemonTest {
 protected:
  using DaemonTest::DaemonTest;
  void TearDown() override {
    EXPECT_TRUE(daemon_.goes_on());
    EXPECT_TRUE(daemon_.stop());
  }
};

}  // namespace flight
