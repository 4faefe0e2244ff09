// SPDX-License-Identifier: Apache-2.0
// Windows that clients request, at 03:00:00.5 UTC with rings that reach back 100 s and half a millisecond.
#include "daemon/snapshots/window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flight::daemon {
namespace {

using testing::HasSubstr;

constexpr EventTime kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr EventTime kNow = 5000 * kSecond;
constexpr EventTime kOldest = kNow - 100 * kSecond - kMs / 2;

WindowNow now() {
  const WallTime wall = parse_time("2026-11-20T03:00:00Z", {}).value() + std::chrono::milliseconds(500);
  const ClockTriple present{.monotonic_ns = kNow, .boottime_ns = kNow, .wall = wall};
  return {.now = present, .clock = ClockHistory(present.pair()), .oldest_held_ns = kOldest};
}

std::string refusal(const SnapshotParameters& parameters) {
  const auto window = parse_window(parameters, now());
  return window ? "accepted" : window.error().name + " " + window.error().parameters;
}

TEST(Window, WithoutParametersItIsAllThatIsHeld) {
  const auto window = parse_window({}, now());
  ASSERT_TRUE(window);
  EXPECT_EQ(window->begin_ns, 0U);
  EXPECT_EQ(window->end_ns, UINT64_MAX);
}

TEST(Window, LastCountsBackFromNow) {
  EXPECT_EQ(parse_window({.last_usec = 2'000'000}, now())->begin_ns, kNow - 2 * kSecond);
  // Longer than the uptime, and longer than 64 bits of nanoseconds can express: the window starts at the begin, and is
  // not "all" by accident.
  EXPECT_EQ(parse_window({.last_usec = 6'000'000'000}, now())->begin_ns, 1U);
  EXPECT_EQ(parse_window({.last_usec = UINT64_MAX}, now())->begin_ns, 1U);
  EXPECT_EQ(parse_window({.last_usec = UINT64_MAX / 1000 + 3}, now())->begin_ns, 1U);
}

TEST(Window, LastAndSinceExcludeEachOther) {
  EXPECT_THAT(refusal({.last_usec = 1, .since = "now"}),
              testing::AllOf(HasSubstr("InvalidParameter"), HasSubstr("\"since\"")));
}

TEST(Window, SinceAndUntilAreTimesOfTheEvents) {
  const auto window = parse_window({.since = "2026-11-20T02:59:50Z", .until = "-1s"}, now());
  ASSERT_TRUE(window) << window.error().parameters;
  EXPECT_EQ(window->begin_ns, kNow - 10 * kSecond - 500 * kMs);
  EXPECT_EQ(window->end_ns, kNow - kSecond);
}

TEST(Window, ATextThatIsNoTimeIsRefusedByName) {
  EXPECT_THAT(refusal({.since = "teatime"}), testing::AllOf(HasSubstr("InvalidParameter"), HasSubstr("\"since\"")));
  EXPECT_THAT(refusal({.until = "teatime"}), testing::AllOf(HasSubstr("InvalidParameter"), HasSubstr("\"until\"")));
}

TEST(Window, ATimeBeforeTheRingsIsRefusedWithTheOldestOne) {
  const std::string text = refusal({.since = "2026-11-20T02:58:20Z"});
  EXPECT_THAT(text, HasSubstr("InvalidParameter"));
  // 02:58:20.4995 is rounded up: a time that is rounded down would be refused again.
  constexpr std::string_view kReported = "2026-11-20T02:58:20.500Z";
  EXPECT_THAT(text, HasSubstr(std::string(kReported)));
  EXPECT_THAT(text, HasSubstr("(100 s ago)"));
  const auto again = parse_window({.since = std::string(kReported)}, now());
  ASSERT_TRUE(again) << again.error().parameters;
  EXPECT_GE(again->begin_ns, kOldest);
}

TEST(Window, SinceMayLieWithinTheTimeToComeOnly) {
  EXPECT_THAT(refusal({.since = "2026-11-20T03:00:02Z"}), HasSubstr("future"));
  EXPECT_THAT(refusal({.since = "2026-11-20T03:00:02Z", .post_usec = 1'000'000}), HasSubstr("future"));
  EXPECT_TRUE(parse_window({.since = "2026-11-20T03:00:02Z", .post_usec = 2'000'000}, now()));
}

TEST(Window, UntilLiesAfterTheBeginAndAfterTheOldest) {
  EXPECT_THAT(refusal({.until = "2026-11-20T02:58:20Z"}), HasSubstr("\"until\""));
  EXPECT_THAT(refusal({.since = "-10s", .until = "-11s"}), HasSubstr("\"until\""));
  EXPECT_THAT(refusal({.since = "-10s", .until = "-10s"}), HasSubstr("\"until\""));
  EXPECT_THAT(refusal({.since = "2026-11-20T02:59:50Z", .until = "2026-11-20T03:59:49+01:00"}),
              testing::AllOf(HasSubstr("\"until\""), HasSubstr("did not come after 2026-11-20T02:59:50Z: a window")));
  EXPECT_TRUE(parse_window({.since = "-10s", .until = "-9s"}, now()));
  EXPECT_TRUE(parse_window({.until = "2026-11-20T02:58:21Z"}, now()));
}

// The clock was set back by an hour 40 s ago, and the machine was suspended for two hours 20 s ago.
WindowNow after_two_changes() {
  WindowNow out = now();
  out.clock = ClockHistory();
  out.now.boottime_ns += static_cast<EventTime>(std::chrono::nanoseconds(std::chrono::hours(2)).count());
  const auto back = [&](EventTime seconds, std::chrono::nanoseconds boottime, std::chrono::nanoseconds wall) {
    out.clock.look({.monotonic_ns = kNow - seconds * kSecond,
                    .boottime_ns = out.now.boottime_ns - seconds * kSecond - static_cast<EventTime>(boottime.count()),
                    .wall = out.now.wall - std::chrono::seconds(seconds) - wall});
  };
  using std::chrono::hours;
  back(100, hours(2), hours(1));  // 01:58:20.5
  back(41, hours(2), hours(1));
  back(40, hours(2), hours(2));  // 00:59:20.5
  back(21, hours(2), hours(2));
  back(20, {}, {});
  return out;
}

TEST(Window, AfterTheClockWasSetATimeIsTheOneThatTheClockShowed) {
  const WindowNow present = after_two_changes();
  const auto window = [&](std::string since, std::string until) {
    const auto out = parse_window({.since = std::move(since), .until = std::move(until)}, present);
    EXPECT_TRUE(out) << out.error().parameters;
    return out.value_or(WindowRequest{});
  };
  const WindowRequest before = window("2026-11-20T01:58:50.500Z", "2026-11-20T01:59:00.500Z");
  EXPECT_EQ(before.begin_ns, kNow - 70 * kSecond);
  EXPECT_EQ(before.end_ns, kNow - 60 * kSecond);
  const WindowRequest between = window("2026-11-20T00:59:30.500Z", "2026-11-20T02:00:00Z");
  EXPECT_EQ(between.begin_ns, kNow - 30 * kSecond);
  EXPECT_EQ(between.end_ns, kNow - 20 * kSecond) << "the clock did not show this: it is the moment of the change";
  const WindowRequest across = window("2026-11-20T01:58:50.500Z", "2026-11-20T00:59:30.500Z");
  EXPECT_EQ(across.begin_ns, kNow - 70 * kSecond);
  EXPECT_EQ(across.end_ns, kNow - 30 * kSecond) << "an earlier time that came later";
  const auto earlier =
      parse_window({.since = "2026-11-20T00:59:30.500Z", .until = "2026-11-20T01:58:50.500Z"}, present);
  ASSERT_FALSE(earlier);
  EXPECT_THAT(earlier.error().parameters, HasSubstr("the clock was set"));
  const auto left_out = parse_window({.since = "2026-11-20T02:10:00Z", .until = "2026-11-20T02:50:00Z"}, present);
  ASSERT_FALSE(left_out) << "the clock showed neither";
  EXPECT_THAT(left_out.error().parameters, HasSubstr("the clock was set"));
  EXPECT_THAT(parse_window({.since = "2026-11-20T01:00:00Z"}, present).error().parameters,
              HasSubstr("reach back to 2026-11-20T01:58:20.500Z"))
      << "the oldest time as the clock showed it then";
}

TEST(Window, AgoIsThatLongAgoWhateverTheClockShowed) {
  const auto begin = [](std::string since) {
    return parse_window({.since = std::move(since)}, after_two_changes()).value().begin_ns;
  };
  EXPECT_EQ(begin("10 s ago"), kNow - 10 * kSecond);
  EXPECT_EQ(begin("-1h"), kNow - 20 * kSecond) << "in the suspend";
  EXPECT_EQ(begin("2 hours 1 min ago"), kNow - 60 * kSecond) << "not 1 h later, as the clock would say";
}

}  // namespace
}  // namespace flight::daemon
