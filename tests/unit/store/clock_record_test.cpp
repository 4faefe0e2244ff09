// SPDX-License-Identifier: Apache-2.0
// What is recorded of the wall clock in one boot, and that its file is believed only if it can be true.
#include "libcore/store/clock_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using testing::HasSubstr;

constexpr nanoseconds kOneDay = hours(24);
constexpr WallTime kBootTime = 20'000 * kOneDay;

// A clock that is `ahead` of the right time.
bool look(ClockRecord& record, nanoseconds since_boot, nanoseconds ahead = {}) {
  return record.look("one", kBootTime + since_boot + ahead, since_boot);
}

TEST(ClockRecordTest, OfARightClockOnlyTheFirstLookAndOneADayAreSaved) {
  ClockRecord record;
  EXPECT_TRUE(look(record, minutes(5)));
  for (int i = 1; i <= 24; ++i)
    EXPECT_FALSE(look(record, minutes(5) + hours(i), milliseconds(i % 3 * 100 - 100))) << "not read at one moment";
  EXPECT_TRUE(look(record, minutes(6) + kOneDay));
  EXPECT_EQ(record.known_from, minutes(5));
  EXPECT_EQ(record.ahead, std::nullopt);
}

TEST(ClockRecordTest, AnHourAheadIsAJump) {
  ClockRecord record;
  look(record, hours(2));
  EXPECT_FALSE(look(record, hours(3), minutes(60)));
  EXPECT_EQ(record.ahead, std::nullopt);
  EXPECT_TRUE(look(record, hours(4), minutes(61)));
  EXPECT_EQ(record.ahead, (ClockRecord::Ahead{.at = hours(4), .by = minutes(61)}));
  EXPECT_FALSE(look(record, hours(5), minutes(61))) << "it is the same jump";
  EXPECT_EQ(record.ahead->at, hours(4));
}

// Many small steps are one jump, and a correction does not end what the jump began.
TEST(ClockRecordTest, SmallStepsAddUpAndACorrectionIsNoEnd) {
  ClockRecord record;
  look(record, hours(2));
  for (int i = 1; i <= 6; ++i) look(record, hours(2) + i * minutes(10), i * minutes(15));
  ASSERT_TRUE(record.ahead);
  EXPECT_EQ(record.ahead->at, hours(2) + minutes(50));
  EXPECT_TRUE(look(record, hours(4))) << "it is right again";
  EXPECT_EQ(record.ahead->at, hours(2) + minutes(50));
  EXPECT_TRUE(look(record, hours(5), 40 * kOneDay)) << "and ahead again";
  EXPECT_EQ(record.ahead, (ClockRecord::Ahead{.at = hours(5), .by = 40 * kOneDay}));
}

// It ran ahead before the first look; after the correction it is measured from the right time.
TEST(ClockRecordTest, AClockThatWasAheadAtFirstIsMeasuredFromItsCorrection) {
  ClockRecord record;
  look(record, hours(2), 40 * kOneDay);
  EXPECT_TRUE(look(record, hours(3)));
  EXPECT_TRUE(look(record, hours(4), 2 * kOneDay));
  EXPECT_EQ(record.ahead, (ClockRecord::Ahead{.at = hours(4), .by = 2 * kOneDay}));
}

TEST(ClockRecordTest, AnotherBootBeginsANewRecord) {
  ClockRecord record;
  look(record, hours(2));
  look(record, hours(3), 40 * kOneDay);
  ASSERT_TRUE(record.ahead);
  EXPECT_TRUE(record.look("two", kBootTime + 50 * kOneDay, minutes(1)));
  EXPECT_EQ(record.ahead, std::nullopt);
  EXPECT_EQ(record.known_from, minutes(1));
  EXPECT_TRUE(record.look("two", kBootTime + 50 * kOneDay, minutes(0))) << "CLOCK_BOOTTIME never goes back";
  EXPECT_EQ(record.known_from, minutes(0));
}

TEST(ClockRecordTest, TheFileHasAllOfIt) {
  ClockRecord record;
  look(record, hours(2));
  for (int round = 0; round < 2; ++round) {
    const auto read = parse_clock_record(to_json(record));
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(*read, record);
    look(record, hours(3), 40 * kOneDay);
  }
  record.boot = -hours(1);  // the clock began in 1970
  EXPECT_EQ(parse_clock_record(to_json(record))->boot, record.boot);
}

TEST(ClockRecordTest, AnImpossibleFileIsRefused) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"boot_id":"a","known_from_ns":-1})",
        R"({"boot_id":"a","boot_ns":9000000000000000000})", R"({"boot_id":"a","boot_ns":-9000000000000000000})",
        R"({"boot_id":"a","boot_at_ns":1e30})", R"({"boot_id":"a","ahead_at_ns":18446744073709551615})",
        R"({"boot_id":"a","ahead_by_ns":"40d"})"}) {
    const auto read = parse_clock_record(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().what, HasSubstr("the record of the clock"));
  }
}

}  // namespace
}  // namespace flight
