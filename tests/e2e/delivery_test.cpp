// SPDX-License-Identifier: Apache-2.0
// A machine whose PMU can be opened and delivers nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SilentPmuLong : public testing::Test {
 protected:
  void SetUp() override {
    config_ = stacks_config(199, "256K");
    config_["channels"]["stacks"]["events"][0]["event"] = "cycles";
    ASSERT_TRUE(daemon_.start(config_, {.prefix = preloading(folder_.load("libsilent_pmu.so"))}));
  }
  [[nodiscard]] std::string warnings() const { return daemon_.status().value("warnings", Json::array()).dump(); }
  // With samples of the load, and as every perf reads it.
  void expect_samples(const Child& load, const std::string& event) {
    const Json sidecar = daemon_.snapshot();
    EXPECT_EQ(sidecar["recording"], "on");
    EXPECT_THAT(sidecar["warnings"].dump(), AllOf(HasSubstr("cycles can be opened"), HasSubstr(event)));
    EXPECT_TRUE(all_count_all(folder_, sidecar));
    std::size_t found = 0;
    for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) found += sample.pid == load.pid() ? 1 : 0;
    EXPECT_GT(found, 0U);
  }
  Json config_;
  TempFolder folder_;
  TestDaemon daemon_{folder_};
};

TEST_F(SilentPmuLong, CpuClockIsRecordedInstead) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "300"}, -10);
  ASSERT_TRUE(burner.wait_for_line("started"));
  const auto on_again = [&] {
    return warnings().find("cpu-clock is recorded instead") != std::string::npos &&
           daemon_.status()["recording"] == "on";
  };
  ASSERT_TRUE(wait_until(on_again, 60s)) << daemon_.status();
  EXPECT_THAT(warnings(), HasSubstr("cycles can be opened but delivered no sample while"));
  const Json found = daemon_.ctl_json({"doctor"});
  EXPECT_THAT(found.dump(), AllOf(HasSubstr("cpu-clock is recorded instead"), Not(HasSubstr("silent"))));
  const auto full = [&] { return daemon_.snapshot({"--last", "1s"})["samples"] > 150; };
  ASSERT_TRUE(wait_until(full, 60s));
  expect_samples(burner, "cpu-clock");

  // A reload tries cycles again; what cpu-clock wrote stays in the rings, and in the file.
  const std::uint64_t reloaded_ns = now_ns();
  EXPECT_EQ(daemon_.ctl_json({"reload"})["changed"], true);
  EXPECT_THAT(warnings(), Not(HasSubstr("instead")));
  const Json both = daemon_.snapshot();
  EXPECT_LT(both["window"]["begin_ns"].get<std::uint64_t>(), reloaded_ns) << "the history goes on";
  EXPECT_GT(both["samples"], 150);
  EXPECT_EQ(both["rings"][0]["unknown_ids"], 0);
  EXPECT_TRUE(all_count_all(folder_, both));
  ASSERT_TRUE(wait_until(on_again, 60s)) << daemon_.status();
  expect_samples(burner, "cpu-clock");
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
