// SPDX-License-Identifier: Apache-2.0
// Its load has more mappings than any scan of this machine reads, so no other test runs at the same time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/units.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/memory_group.hpp"
#include "tests/e2e/own_broker.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

// The broker's MemoryMax= is a net: nothing that other processes do comes near it.
class BrokerMemoryLong : public OwnBroker {
 protected:
  void SetUp() override {
    ASSERT_TRUE(group_) << "no memory cgroup";
    broker_prefix_ = group_->enter();
    config_["memory"] = {{"max", "4G"}};  // the largest share for a scan
    OwnBroker::SetUp();
  }
  void TearDown() override {
    OwnBroker::TearDown();
    broker_.reset();  // it is in the group
  }
  static std::uint64_t net_bytes() {
    const std::string unit = read_text(required_env("FLIGHT_SOURCE_ROOT") + "/systemd/flightd-broker.service");
    const std::string key = "\nMemoryMax=";
    const std::size_t at = unit.find(key);
    EXPECT_NE(at, std::string::npos);
    return parse_bytes(std::string_view(unit).substr(at + key.size(), unit.find('\n', at + 1) - at - key.size()))
        .value();
  }
  const std::uint64_t net_bytes_ = net_bytes();
  std::optional<MemoryGroup> group_ = MemoryGroup::create(net_bytes_);
};

TEST_F(BrokerMemoryLong, ThousandsOfLongMappingsStayFarBelowTheNet) {
  const std::uint64_t start_bytes = group_->used_bytes();
  std::vector<Child> mappers;
  for (int i = 0; i < 8; ++i) {
    const std::string own = make_own(fmt::format("mapper-{}", i)), id = std::to_string(i % 2 == 0 ? 0 : 64'900 + i);
    std::filesystem::permissions(own, std::filesystem::perms::all);
    mappers.push_back(start_load({"setpriv", "--reuid=" + id, "--clear-groups", folder_.load("mapper"), own}));
  }
  for (Child& mapper : mappers) ASSERT_TRUE(mapper.wait_for_line("started", 60s)) << mapper.err();
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(daemon.ctl({"pause"}).exit_status, 0);
    EXPECT_EQ(daemon.ctl({"resume"}).exit_status, 0);  // flightd asks for a scan
    EXPECT_TRUE(daemon.goes_on());
  }
  fmt::print("{} KiB after the start, {} KiB at most\n{}", start_bytes >> 10U, group_->most_used_bytes() >> 10U,
             mappers.front().out());
  EXPECT_THAT(daemon.status()["warnings"].dump(), HasSubstr("the scan of /proc is incomplete"));
  EXPECT_TRUE(broker_->running());
  if (!sanitized()) {  // which multiplies memory
    EXPECT_LT(group_->most_used_bytes(), net_bytes_ / 2);
  }
  EXPECT_TRUE(daemon.stop());
}

}  // namespace
}  // namespace flight
