// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/clock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace flight {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// 2026-11-20T03:12:04.123Z
constexpr WallTime kMoment = seconds(1795144324) + milliseconds(123);

class LocalTime : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    ::tzset();
  }
  void TearDown() override {
    ::unsetenv("TZ");
    ::tzset();
  }
};

TEST(Clock, FormatsRfc3339AndFileNames) {
  EXPECT_EQ(to_rfc3339(kMoment), "2026-11-20T03:12:04.123Z");
  EXPECT_EQ(to_compact_utc(kMoment), "20261120T031204.123Z");
}

TEST(Clock, CompactTimesParseBack) {
  const auto parsed = parse_compact_utc("20261120T031204.123Z");
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(*parsed, kMoment);
  for (const char* bad : {"", "20261120T031204.123", "20261120 031204.123Z", "2026112XT031204.123Z",
                          "20261120T031204,123Z", "00001120T031204.123Z", "25001120T031204.123Z"})
    EXPECT_FALSE(parse_compact_utc(bad)) << bad;
}

TEST(Clock, EventTimesTurnIntoWallTimesAndBack) {
  const ClockPair pair{.wall = kMoment, .monotonic_ns = 5'000'000'000};
  EXPECT_EQ(pair.wall_at(4'000'000'000), kMoment - seconds(1));
  EXPECT_EQ(pair.wall_at(6'000'000'000), kMoment + seconds(1));
  EXPECT_EQ(pair.event_at(kMoment - seconds(2)), 3'000'000'000U);
  EXPECT_EQ(pair.event_at(kMoment - seconds(60)), 0U) << "before the clock began";
}

TEST(Clock, APairIsOneMoment) {
  const ClockPair pair = ClockPair::now();
  const WallTime now = wall_now();
  const EventTime event = monotonic_now();
  EXPECT_LT(std::abs((pair.wall_at(event) - now).count()), nanoseconds(milliseconds(50)).count());
}

TEST_F(LocalTime, ParsesWhatPeopleType) {
  const WallTime now = kMoment;  // 04:12:04 local
  const auto at = [&](const char* text) {
    auto time = parse_time(text, now);
    EXPECT_TRUE(time) << text << ": " << (time ? "" : time.error().what);
    return time ? to_rfc3339(*time) : "";
  };
  EXPECT_EQ(at("03:10"), "2026-11-20T02:10:00.000Z");
  EXPECT_EQ(at("04:12:04"), "2026-11-20T03:12:04.000Z");
  EXPECT_EQ(at("05:00"), "2026-11-19T04:00:00.000Z") << "the latest 05:00 that is not after now was yesterday's";
  EXPECT_EQ(at("2026-11-20 03:10"), "2026-11-20T02:10:00.000Z");
  EXPECT_EQ(at("2026-11-20 03:10:07.5"), "2026-11-20T02:10:07.500Z");
  EXPECT_EQ(at("2026-11-20T03:10:00Z"), "2026-11-20T03:10:00.000Z");
  EXPECT_EQ(at("2026-11-20T03:10:00+02:00"), "2026-11-20T01:10:00.000Z");
  EXPECT_EQ(at("2026-11-20T03:10:00-0130"), "2026-11-20T04:40:00.000Z");
  EXPECT_EQ(at("2026-11-20"), "2026-11-19T23:00:00.000Z");
  EXPECT_EQ(at("today"), "2026-11-19T23:00:00.000Z");
  EXPECT_EQ(at("yesterday"), "2026-11-18T23:00:00.000Z");
  EXPECT_EQ(at("now"), "2026-11-20T03:12:04.123Z");
  EXPECT_EQ(at("-10s"), "2026-11-20T03:11:54.123Z");
  EXPECT_EQ(at("10min ago"), "2026-11-20T03:02:04.123Z");
  EXPECT_EQ(at("@1795144324"), "2026-11-20T03:12:04.000Z");
}

TEST_F(LocalTime, RefusesWhatIsNoTime) {
  // Found by a fuzzer: seconds that overflow as nanoseconds.
  for (const char* bad :
       {"1012-11-20T03:10:00Z", "0000-01-01", "2300-01-01", "@78162980460", "-100000d", "90000d ago"}) {
    const auto time = parse_time(bad, kMoment);
    ASSERT_FALSE(time) << bad;
    EXPECT_THAT(time.error().what, testing::HasSubstr("1970 to 2199")) << bad;
  }
  for (const char* bad :
       {"", "soon", "25:00", "03:61", "3:10", "2026-13-01", "2026-02-30", "2026-02-30T00:00:00Z",
        "2026-11-31T00:00:00+02:00", "2026-11-20T03:10Q", "03:10Z", "-10", "10 ago", "@", "@x", "2026-11-20_03:10"}) {
    const auto time = parse_time(bad, kMoment);
    EXPECT_FALSE(time) << bad;
  }
}

}  // namespace
}  // namespace flight
