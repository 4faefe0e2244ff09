// SPDX-License-Identifier: Apache-2.0
// Why a snapshot's window is incomplete: lost records, CPUs that were offline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/snapshots/cpu_gaps.hpp"
#include "daemon/snapshots/lost_counts.hpp"

namespace flight::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LostBetween, EventsAddUpInTheirRing) {
  Manifest manifest;
  manifest.events.resize(2);
  manifest.events[0].ids = {{.id = 1, .ring = 5}, {.id = 2, .ring = 6}};
  manifest.events[1].ids = {{.id = 3, .ring = 5}, {.id = 4, .ring = 9}};
  const Counts before{.events = {{.id = 1, .lost = 10}, {.id = 2, .lost = 7}}};
  const Counts after{
      .events = {{.id = 1, .lost = 13}, {.id = 2, .lost = 7}, {.id = 3, .lost = 4}, {.id = 4, .lost = 100}}};
  EXPECT_THAT(lost_between(before, after, manifest, {6, 5}), ElementsAre(0U, 7U)) << "ring 9 is no channel's";
  EXPECT_THAT(lost_between(after, after, manifest, {6, 5}), ElementsAre(0U, 0U));
}

TEST(CpuGaps, OnlyThoseThatMeetTheWindowAreNamed) {
  constexpr EventTime kSecond = 1'000'000'000;
  Manifest manifest;
  manifest.gaps = {{.cpu = 1, .begin_ns = 10 * kSecond, .end_ns = 20 * kSecond}, {.cpu = 2, .begin_ns = 30 * kSecond}};
  const auto warnings = [&](EventTime begin, EventTime end) {
    return cpu_gap_warnings(manifest, begin * kSecond, end * kSecond, ClockHistory());
  };
  EXPECT_THAT(warnings(0, 5), IsEmpty());
  EXPECT_THAT(warnings(21, 29), IsEmpty());
  EXPECT_THAT(warnings(15, 16), ElementsAre(HasSubstr("CPU 1 ")));
  EXPECT_THAT(warnings(20, 30), ElementsAre(HasSubstr("CPU 1 "), HasSubstr("CPU 2 ")));
  EXPECT_THAT(warnings(100, 101), ElementsAre(HasSubstr("CPU 2 "))) << "it is offline still";
  manifest.events.resize(1);
  manifest.events[0].channel = "stacks";
  manifest.channels = {{.name = "stacks", .cpus = {0, 2}, .recorded = {0, 2}}};
  EXPECT_THAT(warnings(20, 30), ElementsAre(HasSubstr("CPU 2 "))) << "no channel records CPU 1";
}

}  // namespace
}  // namespace flight::daemon
