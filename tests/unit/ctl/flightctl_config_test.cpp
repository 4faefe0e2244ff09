// SPDX-License-Identifier: Apache-2.0
// flightctl reload and flightctl config: what people and scripts are shown.
#include "tests/unit/ctl/flightctl_bench.hpp"

namespace flight {
namespace {

using namespace test;
using testing::HasSubstr;

TEST_F(FlightctlTest, ReloadTellsWhatHolds) {
  run();
  const Outcome text = ctl({"reload"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("configuration 0123456789abcdef is in force"));
  EXPECT_THAT(text.out, HasSubstr("warning: careful\n"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "reload"}).out)["warnings"][0], "careful");
}

TEST_F(FlightctlTest, ARefusedReloadIsToldOnStderr) {
  bench.backend.refuse_reload = bad_config("/etc/x.json", 7, "channels.a", "/etc/x.json:7: channels.a: no");
  run();
  const Outcome text = ctl({"reload"});
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.out, "");
  EXPECT_THAT(text.err, HasSubstr("/etc/x.json:7: channels.a: no"));
  const Outcome json = ctl({"--json", "reload"});
  EXPECT_EQ(nlohmann::json::parse(json.err)["error"], "io.flightd.Recorder.BadConfig");
}

TEST_F(FlightctlTest, ConfigIsATableWithItsMemory) {
  bench.backend.config_to_report.values.push_back({"user", "a\x1b[31mb", "built-in", 0});
  bench.backend.config_to_report.memory = {
      .ring_bytes = 4U << 20U, .sum_bytes = 10U << 20U, .max_bytes = 20U << 20U, .ram_bytes = 1000U << 20U};
  run();
  const Outcome text = ctl({"config"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("store.max_files  7"));
  EXPECT_THAT(text.out, HasSubstr("/etc/flightd/flightd.json:3\n"));
  EXPECT_THAT(text.out, HasSubstr("built-in\n"));
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(text.out, HasSubstr("10.0M, 1.00 % of RAM; memory.max is 20.0M (2.00 % of RAM)"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "config"}).out)["memory"]["sum_bytes"], 10U << 20U);
}

}  // namespace
}  // namespace flight
