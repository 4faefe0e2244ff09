// SPDX-License-Identifier: Apache-2.0
// A separate flightd-broker, and a flightd without any privilege, as the units of a service manager start them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/unit/daemon/broker/service_manager.hpp"

namespace flight {

// Uid and gid of flightd: nobody.
inline constexpr unsigned kClientId = 65534;

class OwnBroker : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  // Also again, after the previous one was killed; with the descriptors that `manager` stored.
  void start_broker(const test::ServiceManager* manager = nullptr);
  // kill -9, then a new flightd.
  void replace(TestDaemon& daemon) const;
  // The process tracker's.
  [[nodiscard]] std::string checkpoint() const { return folder_ / "run/tracker.checkpoint"; }
  // Creates a directory of the client; returns its path.
  std::string make_own(std::string_view name);

  TempFolder folder_;
  Json config_ = stacks_config(499, "4M");
  std::string socket_ = folder_ / "broker/socket";
  StartOptions options_;  // for TestDaemon::start
  Arguments broker_prefix_;
  std::string program_ = required_env("FLIGHTD_BROKER");
  std::optional<Child> broker_;
};

}  // namespace flight
