// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/units.hpp"

#include <gtest/gtest.h>

namespace flight {
namespace {

using std::chrono::milliseconds;

TEST(Units, ParsesSizes) {
  EXPECT_EQ(parse_bytes("4096").value(), 4096U);
  EXPECT_EQ(parse_bytes("64K").value(), 65536U);
  EXPECT_EQ(parse_bytes("2M").value(), 2U << 20U);
  EXPECT_EQ(parse_bytes("1G").value(), 1U << 30U);
  for (const char* bad : {"", "M", "2MB", "2m", "-1", "1.5M", "2 M", "99999999999999999999", "17179869184G"})
    EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Units, ParsesDurations) {
  EXPECT_EQ(parse_duration("100ms").value(), milliseconds(100));
  EXPECT_EQ(parse_duration("1.5s").value(), milliseconds(1500));
  EXPECT_EQ(parse_duration("5min").value(), std::chrono::minutes(5));
  EXPECT_EQ(parse_duration("2h").value(), std::chrono::hours(2));
  EXPECT_EQ(parse_duration("30d").value(), std::chrono::hours(24 * 30));
  for (const char* bad : {"", "10", "s", "10m", "10 s", "1..5s", "-1s", "1e3s", "99999999999d"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Units, ParsesPercentages) {
  EXPECT_DOUBLE_EQ(parse_percent("30%").value(), 30);
  EXPECT_DOUBLE_EQ(parse_percent("0.5%").value(), 0.5);
  for (const char* bad : {"", "%", "30", "101%", "-1%", "30 %"}) EXPECT_FALSE(parse_percent(bad)) << bad;
}

TEST(Units, FormatsForPeople) {
  EXPECT_EQ(format_bytes(512), "512");
  EXPECT_EQ(format_bytes(2U << 20U), "2.0M");
  EXPECT_EQ(format_bytes(1536), "1.5K");
  EXPECT_EQ(format_bytes((1U << 20U) - 1), "1.0M") << "never 1024.0K";
  EXPECT_EQ(format_duration(milliseconds(350)), "350 ms");
  EXPECT_EQ(format_duration(std::chrono::seconds(34)), "34 s");
  EXPECT_EQ(format_duration(std::chrono::minutes(12)), "12 min");
  EXPECT_EQ(counted(1, "process"), "1 process");
  EXPECT_EQ(counted(0, "log line"), "0 log lines");
  EXPECT_EQ(was_or_were(1), "was");
  EXPECT_EQ(was_or_were(2), "were");
}

TEST(Units, AnErrorSaysWhatWouldBeRight) {
  EXPECT_NE(parse_duration("10").error().what.find("ms, s, min, h or d"), std::string::npos);
  EXPECT_NE(parse_bytes("2MB").error().what.find("K, M or G"), std::string::npos);
}

TEST(Units, SpansAreWhatPeopleType) {
  using namespace std::chrono_literals;
  for (const auto& [text, value] : {std::pair<const char*, std::chrono::nanoseconds>("500ms", 500ms),
                                    {"10s", 10s},
                                    {"1 hour", 1h},
                                    {"2h 30min", 150min},
                                    {"1d1h", 25h},
                                    {"1.5 hours", 90min},
                                    {"90 seconds", 90s},
                                    {"5m", 5min},
                                    {" 1 week ", 168h},
                                    {"0s", 0s}}) {
    const auto span = parse_span(text);
    ASSERT_TRUE(span) << text << ": " << span.error().what;
    EXPECT_EQ(span->count(), value.count()) << text;
  }
  for (const char* bad :
       {"", " ", "1", "h", "1 hour 2", "1 Hour", "-1h", "1h,2min", "1e99d", "99999999999d", "1..5s", "1 month"})
    EXPECT_FALSE(parse_span(bad)) << bad;
}

}  // namespace
}  // namespace flight
