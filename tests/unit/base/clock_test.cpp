// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/clock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

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

// Whatever time the clock can be set to.
TEST(Clock, CompactTimesOfAllYearsParseBack) {
  for (const char* text :
       {"19700101T000000.000Z", "22000101T000000.000Z", "22320115T235959.999Z", "22611231T235959.999Z"}) {
    const auto parsed = parse_compact_utc(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(to_compact_utc(*parsed), text);
  }
  EXPECT_FALSE(parse_compact_utc("22620101T000000.000Z"));
  EXPECT_EQ(parse_time("2261-12-31T23:59:59Z", kMoment).value(), parse_compact_utc("22611231T235959.000Z").value());
}

TEST(Clock, EventTimesTurnIntoWallTimesAndBack) {
  const ClockPair pair{.wall = kMoment, .monotonic_ns = 5'000'000'000};
  EXPECT_EQ(pair.wall_at(4'000'000'000), kMoment - seconds(1));
  EXPECT_EQ(pair.wall_at(6'000'000'000), kMoment + seconds(1));
  EXPECT_EQ(pair.event_at(kMoment - seconds(2)), 3'000'000'000U);
  EXPECT_EQ(pair.event_at(kMoment - seconds(60)), 0U) << "before the clock began";
}

TEST(Clock, TheOffsetOfATimeNamespace) {
  EXPECT_EQ(monotonic_offset_ns("monotonic           0         0\nboottime            0         0\n"), 0);
  EXPECT_EQ(monotonic_offset_ns("monotonic       86400         5\nboottime           -1         0\n"),
            86'400'000'000'005);
  EXPECT_EQ(monotonic_offset_ns("boottime           -1         0\nmonotonic       -10 500000000\n"), -9'500'000'000);
  EXPECT_EQ(monotonic_offset_ns(""), 0);
  EXPECT_EQ(monotonic_offset_ns("monotonic"), 0);
  EXPECT_EQ(monotonic_offset_ns("monotonic 9223372036854775807 0"), 0);
}

TEST(Clock, AgoIsAnIntervalAndNotATime) {
  EXPECT_EQ(parse_ago("now"), nanoseconds(0));
  EXPECT_EQ(parse_ago("-1h30min"), seconds(5400));
  EXPECT_EQ(parse_ago("2 hours ago"), seconds(7200));
  for (const char* time : {"03:10", "yesterday", "2026-11-20", "@17", "-", "ago", " ago", "-03:10", "soon ago", ""})
    EXPECT_FALSE(parse_ago(time)) << time;
}

// A sidecar can have any number; UndefinedBehaviorSanitizer reports an overflow.
TEST(Clock, AnyEventTimeIsConverted) {
  constexpr auto kMost = std::numeric_limits<EventTime>::max();
  const ClockPair pair{.wall = kMoment, .monotonic_ns = 5};
  EXPECT_EQ(pair.wall_at(kMost), kMoment - nanoseconds(6));
  EXPECT_EQ(pair.wall_at(kMost / 2 + 5).count(), std::numeric_limits<std::int64_t>::min() + kMoment.count() - 1);
  EXPECT_EQ(pair.event_at(WallTime::min()), kMost / 2 + 6 - static_cast<EventTime>(kMoment.count()));
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

// Times as journalctl --since accepts them.
TEST_F(LocalTime, ParsesWhatJournalctlTakes) {
  const auto at = [](const char* text, WallTime now = kMoment) {
    auto time = parse_time(text, now);
    EXPECT_TRUE(time) << text << ": " << (time ? "" : time.error().what);
    return time ? to_rfc3339(*time) : "";
  };
  EXPECT_EQ(at("1 hour ago"), "2026-11-20T02:12:04.123Z");
  EXPECT_EQ(at("2 hours 30 minutes ago"), "2026-11-20T00:42:04.123Z");
  EXPECT_EQ(at("1h30min ago"), "2026-11-20T01:42:04.123Z");
  EXPECT_EQ(at("-30min"), "2026-11-20T02:42:04.123Z");
  EXPECT_EQ(at("-2h 5s"), "2026-11-20T01:11:59.123Z");
  EXPECT_EQ(at("1 day ago"), "2026-11-19T03:12:04.123Z");
  EXPECT_EQ(at("2weeks ago"), "2026-11-06T03:12:04.123Z");
  EXPECT_EQ(at("yesterday 03:00"), "2026-11-19T02:00:00.000Z");
  EXPECT_EQ(at("yesterday  03:00:30.5"), "2026-11-19T02:00:30.500Z");
  EXPECT_EQ(at("today 03:00"), "2026-11-20T02:00:00.000Z");
  EXPECT_EQ(at("tomorrow"), "2026-11-20T23:00:00.000Z");
  EXPECT_EQ(at("2026-11-20 03:10 UTC"), "2026-11-20T03:10:00.000Z");
  EXPECT_EQ(at("2026-11-20 UTC"), "2026-11-20T00:00:00.000Z");
  // The day before the first of a month, and over the end of summer time (25 October 2026).
  EXPECT_EQ(at("yesterday 12:00", kMoment - std::chrono::hours(24 * 19)), "2026-10-31T11:00:00.000Z");
  EXPECT_EQ(at("yesterday", kMoment - std::chrono::hours(24 * 25)), "2026-10-24T22:00:00.000Z");
}

TEST_F(LocalTime, ParsesAnHourOfOneDigitFractionsAndWeekdays) {
  const auto at = [](const char* text) {
    auto time = parse_time(text, kMoment);
    EXPECT_TRUE(time) << text << ": " << (time ? "" : time.error().what);
    return time ? to_rfc3339(*time) : "";
  };
  EXPECT_EQ(at("3:10"), "2026-11-20T02:10:00.000Z");
  EXPECT_EQ(at("3:10:07.5"), "2026-11-20T02:10:07.500Z");
  EXPECT_EQ(at("yesterday 3:00"), "2026-11-19T02:00:00.000Z");
  EXPECT_EQ(at("2026-11-20 3:10"), "2026-11-20T02:10:00.000Z");
  EXPECT_EQ(at("@1795144324.123"), "2026-11-20T03:12:04.123Z");
  EXPECT_EQ(at("@1795144324.1239999999999"), "2026-11-20T03:12:04.123Z");
  EXPECT_EQ(at("Mon 2026-11-30 12:00"), "2026-11-30T11:00:00.000Z");
  EXPECT_EQ(at("monday 2026-11-30"), "2026-11-29T23:00:00.000Z");
  EXPECT_EQ(at("Fri 2026-11-20 03:10:00 UTC"), "2026-11-20T03:10:00.000Z") << "as date(1) and systemctl print it";
}

// Summer time begins on 29 March 2026 at 02:00 and ends on 25 October at 03:00.
TEST_F(LocalTime, DaysOfAClockChangeFollowTheCalendar) {
  const auto at = [](const char* text, const char* now) {
    const auto then = parse_time(now, kMoment);
    auto time = parse_time(text, *then);
    EXPECT_TRUE(time) << text << ": " << (time ? "" : time.error().what);
    return time ? to_rfc3339(*time) : "";
  };
  EXPECT_EQ(at("23:50", "2026-10-25T11:00:00Z"), "2026-10-24T21:50:00.000Z") << "yesterday was summer";
  EXPECT_EQ(at("23:50", "2026-03-29T10:00:00Z"), "2026-03-28T22:50:00.000Z") << "yesterday was winter";
  EXPECT_EQ(at("23:50", "2026-10-24T22:10:00Z"), "2026-10-24T21:50:00.000Z") << "20 minutes ago";
  EXPECT_EQ(at("2026-10-25 02:30", "now"), "2026-10-25T01:30:00.000Z") << "it was twice: the later one";
  EXPECT_EQ(at("02:30", "2026-10-25T01:40:00Z"), "2026-10-25T01:30:00.000Z");
  EXPECT_EQ(at("02:30", "2026-10-25T00:40:00Z"), "2026-10-25T00:30:00.000Z") << "the later one is still to come";
  EXPECT_EQ(at("today 02:30", "2026-10-25T00:40:00Z"), "2026-10-25T00:30:00.000Z");
  EXPECT_EQ(at("2026-10-25 02:30", "2026-10-25T00:40:00Z"), "2026-10-25T00:30:00.000Z");
  EXPECT_EQ(at("2026-10-25 02:30", "2026-10-25T01:40:00Z"), "2026-10-25T01:30:00.000Z");
  EXPECT_EQ(at("2026-03-29 02:30", "now"), "2026-03-29T01:00:00.000Z") << "it never was: the moment of the step";
  EXPECT_EQ(at("2026-03-29 03:00", "now"), "2026-03-29T01:00:00.000Z");
  EXPECT_EQ(at("yesterday 02:30", "2026-03-30T10:00:00Z"), "2026-03-29T01:00:00.000Z");
  EXPECT_EQ(at("yesterday", "2026-03-30T10:00:00Z"), "2026-03-28T23:00:00.000Z");
}

// A file as zic(8) writes it, of version 1: from each time on the offset from UTC, without summer time.
std::string zone_file(long first_offset, const std::vector<std::pair<std::int32_t, std::int32_t>>& changes) {
  std::string out("TZif");
  out += std::string(16, '\0');
  const auto add = [&out](std::int64_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
  };
  const auto count = static_cast<std::int64_t>(changes.size());
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{0}, std::int64_t{0}, count, count + 1, std::int64_t{4}})
    add(number);
  for (const auto& change : changes) add(change.first);
  for (std::int64_t i = 1; i <= count; ++i) out += static_cast<char>(i);
  add(first_offset);
  out += std::string(2, '\0');
  for (const auto& change : changes) {
    add(change.second);
    out += std::string(2, '\0');
  }
  return out + std::string("XST\0", 4);
}

// Countries change their offset for good, too. As in Pyongyang: to 08:30 in 2015, and back to 09:00 on
// 2018-05-04T15:00Z, when the clock went from 23:30 to 00:00.
TEST_F(LocalTime, AStepThatIsNoSummerTime) {
  const std::string file = "/tmp/flight-zone-" + std::to_string(::getpid());
  std::ofstream(file) << zone_file(9 * 3600, {{1439564400, 8 * 3600 + 1800}, {1525446000, 9 * 3600}});
  ::setenv("TZ", (":" + file).c_str(), 1);
  ::tzset();
  std::filesystem::remove(file);
  const auto at = [](const std::string& text) { return to_rfc3339(parse_time(text, kMoment).value()); };
  EXPECT_EQ(at("2018-05-04 23:29"), "2018-05-04T14:59:00.000Z");
  EXPECT_EQ(at("2018-05-04 23:45"), "2018-05-04T15:00:00.000Z") << "it never was: the moment of the step";
  EXPECT_EQ(at("2018-05-05 00:00"), "2018-05-04T15:00:00.000Z");
  EXPECT_EQ(at("2015-08-14 23:15"), "2015-08-14T14:15:00.000Z");
  EXPECT_EQ(at("2015-08-14 23:45"), "2015-08-14T15:15:00.000Z") << "it was twice: the later one";
  EXPECT_EQ(at("2015-08-15 00:10"), "2015-08-14T15:40:00.000Z");
  EXPECT_EQ(at("2026-11-20 12:00"), "2026-11-20T03:00:00.000Z");
}

TEST_F(LocalTime, RefusesWhatIsNoTime) {
  // Found by a fuzzer: this number of seconds overflows as nanoseconds.
  for (const char* bad :
       {"1012-11-20T03:10:00Z", "0000-01-01", "2300-01-01", "@78162980460", "-100000d", "90000d ago"}) {
    const auto time = parse_time(bad, kMoment);
    ASSERT_FALSE(time) << bad;
    EXPECT_THAT(time.error().what, testing::HasSubstr("1970 to 2261")) << bad;
  }
  for (const char* bad : {"",
                          "soon",
                          "25:00",
                          "03:61",
                          "3:1",
                          "123:10",
                          ":10",
                          "3:10:",
                          "2026-13-01",
                          "2026-02-30",
                          "2026-02-30T00:00:00Z",
                          "2026-11-31T00:00:00+02:00",
                          "2026-11-20T03:10Q",
                          "03:10Z",
                          "-10",
                          "10 ago",
                          "@",
                          "@x",
                          "@.5",
                          "@17.",
                          "@17.5x",
                          "@17.5.5",
                          "Tue 2026-11-30 12:00",
                          "Mon",
                          "Mon 12:00",
                          "Mon2026-11-30",
                          "Mond 2026-11-30",
                          "Mon now",
                          "2026-11-20_03:10",
                          "1 hour",
                          "1 hour agoo",
                          "hour ago",
                          "1 hours30 ago",
                          "1 fortnight ago",
                          "yesterday3:00",
                          "yesterday 03:00Z",
                          "yesterdays",
                          "todayago",
                          "today 24:00",
                          " ago",
                          "-",
                          "- ",
                          "1 min 2 ago",
                          "03:10 UTC",
                          "2026-11-20T03:10:00+01:00 UTC"}) {
    const auto time = parse_time(bad, kMoment);
    EXPECT_FALSE(time) << bad;
  }
}

}  // namespace
}  // namespace flight
