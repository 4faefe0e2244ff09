// SPDX-License-Identifier: Apache-2.0
// Readers of perf.data other than perf: a simple one (naive_reader.py).
#include <gtest/gtest.h>

#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

class Readers : public SurvivesTest {
 protected:
  Readers() : SurvivesTest(stacks_config(997, "1M")) {}
  [[nodiscard]] std::string plain_copy_of(const Json& sidecar) const {
    const std::string copy = folder_ / "scratch/plain.perf.data";
    const Outcome got = daemon_.ctl({"get", sidecar["id"], "--plain", "-o", copy});
    EXPECT_EQ(got.exit_status, 0) << got.text();
    return copy;
  }
  const std::string cpu_ = std::to_string(load_cpu());
};

// What runs from before the window, threads of it, and what starts and ends within it.
TEST_F(Readers, ASimpleOneKnowsEveryTaskAndMappingBeforeItsSamples) {
  Child burner = start_load({folder_.load("burner"), cpu_, "60"});
  Child threader = start_load({folder_.load("threader"), cpu_, "60"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_TRUE(threader.wait_for_line("started"));
  const Outcome short_ones = run({"sh", "-c", "for i in $(seq 100); do sed -n 's/a/b/p' /etc/passwd; done"}, 60s);
  ASSERT_EQ(short_ones.exit_status, 0) << short_ones.text();
  const Json sidecar = daemon_.snapshot({"--post", "1s"});
  const Outcome read =
      run({"python3", required_env("FLIGHT_SOURCE_ROOT") + "/tests/e2e/naive_reader.py", plain_copy_of(sidecar)}, 60s);
  ASSERT_EQ(read.exit_status, 0) << read.text();
  const Json seen = Json::parse(read.out);
  EXPECT_EQ(seen["samples"], sidecar["samples"]) << read.out;
  EXPECT_GT(seen["user_samples"], 500U) << read.out;
  EXPECT_EQ(seen["nameless"], 0) << read.out;
  EXPECT_EQ(seen["unmapped"], 0) << read.out;
  EXPECT_EQ(seen["forks_at_zero"], 0) << read.out;
}

}  // namespace
}  // namespace flight
