// SPDX-License-Identifier: Apache-2.0
// A culprit that has just begun is named by the sidecar, by `info` and by Monitor, with its earlier share of the CPU.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Culprit : public DaemonTest {
 protected:
  Culprit() : DaemonTest(stacks_config(199, "1M")) {}
  static Json row_of(const Json& sidecar, pid_t pid) {
    const Json& top = sidecar["top"];
    const auto row = std::find_if(top.begin(), top.end(), [&](const Json& one) { return one["pid"] == pid; });
    return row == top.end() ? Json() : *row;
  }
};

TEST_F(Culprit, IsNamedWithBeforeAndNow) {
  Child monitor = Child::start(daemon_.ctl_command({"monitor"}));
  ASSERT_TRUE(monitor.wait_for_line("2"));
  // The time before. "Now" is the last second of a recording that is shorter than three (selection.cpp).
  std::this_thread::sleep_for(2200ms);
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "200"}, -10);
  ASSERT_TRUE(burner.wait_for_line("started"));
  Json sidecar, row;
  ASSERT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        row = row_of(sidecar, burner.pid());
        return row.is_object() && row["cpus_now"].is_number() && row["cpus_now"] >= 0.3;
      },
      60s))
      << row;
  const Json& compared = sidecar["compared"];
  EXPECT_LT(compared["before_begin_ns"], compared["now_begin_ns"]);
  EXPECT_LT(row["cpus_before"].get<double>(), row["cpus_now"].get<double>() / 2) << row;
  EXPECT_LT(row["share_before"].get<double>(), row["share_now"].get<double>()) << row;
  // It can use one CPU at most, plus the rounding of the clock's ticks.
  EXPECT_LT(row["cpus_now"].get<double>(), 1.2) << row;
  const std::string name = fmt::format("burner[{}]", burner.pid());
  const Outcome info = daemon_.ctl({"info", sidecar["id"]});
  EXPECT_THAT(info.out, AllOf(HasSubstr(":\n  now: the "), HasSubstr("in percent of"), HasSubstr("\ntop processes:\n"),
                              HasSubstr("  burner "), HasSubstr(fmt::format(" {} ", burner.pid()))));
  // The headline names the first three. This machine may be busy with something else, too.
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        return monitor.out().find(name) != std::string::npos;
      },
      60s))
      << monitor.out();
  EXPECT_THAT(daemon_.log(), HasSubstr(name)) << "where there is no journal the log says it";
  const Outcome status = daemon_.ctl({"status"});
  EXPECT_THAT(status.out, AllOf(HasSubstr(" ago (manual); took "), HasSubstr("queued ")));
  EXPECT_EQ(daemon_.status()["last_snapshot_timings_us"]["total"], sidecar["timings_us"]["total"]);
}

}  // namespace
}  // namespace flight
