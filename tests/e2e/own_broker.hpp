// SPDX-License-Identifier: Apache-2.0
// A flightd-broker that stands by itself, and a flightd without any privilege beside it: what the units of a service
// manager make of them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/unit/broker/service_manager.hpp"

namespace flight {

// Uid and gid of flightd: nobody.
inline constexpr unsigned kClientId = 65534;

class OwnBroker : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  // Also again, after the one before was killed; with what `manager` has kept of that.
  void start_broker(const test::ServiceManager* manager = nullptr);
  // A folder of the client's; its path.
  std::string make_own(std::string_view name);

  TempFolder folder_;
  Json config_ = stacks_config(499, "256K");
  std::string socket_ = folder_ / "wall/broker";
  StartOptions options_;  // for TestDaemon::start
  std::string program_ = required_env("FLIGHTD_BROKER");
  std::optional<Child> broker_;
};

}  // namespace flight
