// SPDX-License-Identifier: Apache-2.0
// A cgroup in which hardly any memory is left. What flightd knows about processes grows with those that start, so no
// other test runs at the same time. The sanitizers keep freed memory and have memory of their own.
#if !defined(FLIGHT_SANITIZED)
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/memory_group.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

class MemoryLeft : public testing::Test {
 protected:
  // Starts flightd, and leaves it `bytes`.
  void start(std::uint64_t bytes) {
    ASSERT_TRUE(group_) << "no memory cgroup";
    options_.prefix = group_->enter();
    config_["memory"] = {{"max", "96M"}};  // less is kept for processes
    ASSERT_TRUE(daemon_.start(config_, options_));
    ASSERT_TRUE(group_->limit(group_->used_bytes() + bytes));
  }
  void take_five_and_stop() {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(daemon_.goes_on());
    sidecar_ = daemon_.ctl_json({"info", "latest"});
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar_));
    EXPECT_TRUE(daemon_.stop());
  }
  std::optional<MemoryGroup> group_ = MemoryGroup::create(std::uint64_t{4} << 30U);
  TempFolder folder_;
  StartOptions options_;
  Json config_ = stacks_config(99, "64K"), sidecar_;
  TestDaemon daemon_{folder_};
};
using MemoryLeftLong = MemoryLeft;

// Everything large is allocated, and locked, at the start.
TEST_F(MemoryLeft, HardlyAnySnapshotsAreTaken) {
  ASSERT_NO_FATAL_FAILURE(start(8U << 20U));
  take_five_and_stop();
}

// The same with the rings of the default configuration, when they are full.
TEST_F(MemoryLeftLong, HardlyAnyFullRingsAreWritten) {
  config_ = stacks_config(3999, "2M");
  std::vector<Child> loads;
  for (const int cpu : usable_cpus()) loads.push_back(start_load({folder_.load("burner"), std::to_string(cpu), "300"}));
  ASSERT_NO_FATAL_FAILURE(start(8U << 20U));
  const auto is_full = [&] {
    return daemon_.snapshot().value("raw_bytes", std::uint64_t{0}) > usable_cpus().size() * (2U << 20U) * 9 / 10;
  };
  ASSERT_TRUE(wait_until(is_full, 60s));
  take_five_and_stop();
  EXPECT_EQ(sidecar_["compression"], "zstd");
}

}  // namespace
}  // namespace flight
#endif
