// SPDX-License-Identifier: Apache-2.0
// What a snapshot says about changes of the wall clock in its window.
#include "libcore/snapshot/clock_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr EventTime kOneSecond = 1'000'000'000;

// Looks each second until 2026-11-20T12:00:00Z, which is 1000 s.
struct Past {
  Past() { until(800); }
  void until(EventTime second) {
    for (; at < second * kOneSecond; at += kOneSecond)
      clock.look({.monotonic_ns = at, .boottime_ns = at + slept, .wall = wall + nanoseconds(at), .took_ns = 0});
  }
  void set(nanoseconds by) { wall += by; }
  void suspend(nanoseconds time) {
    wall += time;
    slept += static_cast<EventTime>(time.count());
  }
  [[nodiscard]] Sidecar described() {
    until(1000);
    Sidecar out;
    out.window = SidecarWindow::of(900 * kOneSecond, 1000 * kOneSecond, clock);
    describe_clock(out, clock);
    return out;
  }
  EventTime at = kOneSecond, slept = 0;
  WallTime wall = seconds(1795176000 - 1000);
  ClockHistory clock;
};

TEST(ClockSteps, AClockThatWasNotSetInTheWindowIsNotMentioned) {
  Past past;
  past.set(hours(1));  // before the window
  const Sidecar sidecar = past.described();
  EXPECT_THAT(sidecar.clock_steps, IsEmpty());
  EXPECT_THAT(sidecar.warnings, IsEmpty());
}

TEST(ClockSteps, AStepIsListedAndSaysWhatPerfShows) {
  Past past;
  past.until(951);
  past.set(hours(3));
  const Sidecar sidecar = past.described();
  ASSERT_EQ(sidecar.clock_steps.size(), 1U);
  EXPECT_EQ(sidecar.clock_steps[0].ns, 951 * kOneSecond);
  EXPECT_EQ(sidecar.clock_steps[0].before, "2026-11-20T11:59:11.000Z");
  EXPECT_EQ(sidecar.clock_steps[0].after, "2026-11-20T14:59:11.000Z");
  EXPECT_THAT(sidecar.warnings,
              ElementsAre(AllOf(HasSubstr("wall clock was set: 2026-11-20T11:59:11.000Z"),
                                HasSubstr("became 2026-11-20T14:59:11.000Z;"), HasSubstr("`perf script -F +tod`"),
                                EndsWith("before 3.0 h too late"), Not(HasSubstr("suspended")))));
  EXPECT_EQ(sidecar.window.begin, "2026-11-20T11:58:20.000Z");
  EXPECT_EQ(sidecar.window.end, "2026-11-20T15:00:00.000Z");
}

TEST(ClockSteps, ASuspendIsNotASetClock) {
  Past past;
  past.until(951);
  past.suspend(hours(8));
  EXPECT_THAT(past.described().warnings, ElementsAre(AllOf(HasSubstr("suspended for 8.0 h: "),
                                                           HasSubstr("8.0 h too late"), Not(HasSubstr("set")))));
  past = Past();
  past.until(951);
  past.suspend(hours(8));
  past.set(hours(-9));
  EXPECT_THAT(past.described().warnings, ElementsAre(AllOf(HasSubstr("suspended for 8.0 h, and its wall clock was set"),
                                                           HasSubstr("60 min too early"))));
}

TEST(ClockSteps, SeveralAreCountedAndTheLargestIsNamed) {
  Past past;
  past.until(951);
  past.set(hours(24 * 40));
  past.until(961);
  past.set(hours(-24 * 40 - 3));
  const Sidecar sidecar = past.described();
  EXPECT_EQ(sidecar.clock_steps.size(), 2U);
  EXPECT_THAT(sidecar.warnings, ElementsAre(AllOf(HasSubstr("changed 2 times"), HasSubstr("up to 40.1 d too early"))));
  past = Past();
  past.until(951);
  past.set(hours(1));
  past.until(961);
  past.set(hours(-1));
  EXPECT_THAT(past.described().warnings,
              ElementsAre(AllOf(HasSubstr("changed 2 times"), HasSubstr("60 min too early"))))
      << "what was recorded in between";
}

TEST(ClockSteps, AStepWhileNobodyLookedSaysWhenItWas) {
  Past past;
  past.until(931);
  past.set(hours(1));
  past.at += 20 * kOneSecond;
  EXPECT_THAT(past.described().warnings, ElementsAre(HasSubstr("(within the 21 s before)")));
}

TEST(ClockSteps, WhatIsNotKnownIsSaid) {
  Past past;
  past.clock = ClockHistory();
  past.until(905);
  past.clock = ClockHistory();
  past.at = 905 * kOneSecond;
  EXPECT_THAT(past.described().warnings, IsEmpty()) << "a flightd that had just started";
  past.clock = ClockHistory();
  past.at = 950 * kOneSecond;
  EXPECT_THAT(past.described().warnings,
              ElementsAre(HasSubstr("if it was set before 2026-11-20T11:59:10.000Z, earlier times here are off")));
}

TEST(ClockSteps, ForgottenOnesAreCounted) {
  Past past;
  for (int i = 0; i < 6000; ++i) {
    past.set(seconds(i % 2 == 0 ? 10 : -10));
    past.clock.look({.monotonic_ns = 800 * kOneSecond + static_cast<EventTime>(i) * kOneSecond / 40,
                     .boottime_ns = 800 * kOneSecond + static_cast<EventTime>(i) * kOneSecond / 40,
                     .wall = past.wall + nanoseconds(800 * kOneSecond + static_cast<EventTime>(i) * kOneSecond / 40)});
  }
  past.at = 960 * kOneSecond;
  past.until(1000);
  Sidecar sidecar;
  sidecar.window = SidecarWindow::of(800 * kOneSecond, 1000 * kOneSecond, past.clock);
  describe_clock(sidecar, past.clock);
  EXPECT_EQ(sidecar.clock_steps.size(), kMaxListedSteps);
  ASSERT_EQ(sidecar.warnings.size(), 2U);
  EXPECT_THAT(sidecar.warnings[1], AllOf(HasSubstr("changes of the wall clock before"), HasSubstr("were forgotten")));
}

}  // namespace
}  // namespace flight
