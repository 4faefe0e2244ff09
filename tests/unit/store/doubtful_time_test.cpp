// SPDX-License-Identifier: Apache-2.0
// Which clocks are trusted for the age of snapshots.
#include "libcore/store/doubtful_time.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr WallTime kDay = hours(24);
constexpr WallTime kBoot = 20'000 * kDay;

// Ten days after the boot, all of which flightd has seen.
StoreClock right() {
  StoreClock clock{.now = kBoot + 10 * kDay,
                   .since_boot = 10 * kDay,
                   .synchronised = true,
                   .first_of_boot = kBoot + kDay,
                   .last_of_others = kBoot - kDay};
  clock.record.known_from = minutes(1);
  return clock;
}

std::string why(const StoreClock& clock) {
  const auto doubt = doubt_of(clock);
  return doubt ? doubt->why : "";
}
nanoseconds left(const StoreClock& clock) {
  const auto doubt = doubt_of(clock);
  return doubt ? doubt->left : nanoseconds();
}

TEST(DoubtfulTime, AClockThatAgreesWithEverythingIsBelieved) {
  StoreClock clock = right();
  EXPECT_EQ(why(clock), "");
  clock.synchronised = false;
  EXPECT_EQ(why(clock), "");
  clock.now += minutes(59);  // it drifts, or was set by an hour at most
  EXPECT_EQ(why(clock), "");
  clock = right();
  clock.first_of_boot = clock.last_of_others = std::nullopt;
  EXPECT_EQ(why(clock), "");
}

TEST(DoubtfulTime, NoClockIsBelievedInTheFirstHour) {
  StoreClock clock = right();
  clock.first_of_boot = std::nullopt;
  clock.now = kBoot + minutes(59);
  clock.since_boot = minutes(59);
  EXPECT_THAT(why(clock), HasSubstr("started 59 min ago")) << "synchronised or not";
  EXPECT_EQ(left(clock), minutes(1));
  clock.now += minutes(1);
  clock.since_boot += minutes(1);
  EXPECT_EQ(why(clock), "");
}

TEST(DoubtfulTime, ForADayAfterAJumpAhead) {
  StoreClock clock = right();
  clock.now += 40 * kDay;
  clock.first_of_boot = clock.last_of_others = std::nullopt;
  clock.record.ahead = ClockRecord::Ahead{.at = clock.since_boot - hours(1), .by = 40 * kDay};
  EXPECT_THAT(why(clock), AllOf(HasSubstr("ran ahead by 40"), HasSubstr("60 min ago"))) << "synchronised or not";
  EXPECT_EQ(left(clock), hours(23));
  clock.now -= 40 * kDay;  // it was corrected: 24 h are 24 h
  EXPECT_EQ(left(clock), hours(23));
  clock.now += hours(23);
  clock.since_boot += hours(23);
  EXPECT_EQ(why(clock), "");
}

// The jump is in no record. But the snapshots of this boot are dated before the boot.
TEST(DoubtfulTime, AJumpBeforeTheFirstLook) {
  StoreClock clock = right();
  clock.now += 40 * kDay;
  clock.last_of_others = std::nullopt;
  clock.record.known_from = clock.since_boot - hours(4);
  EXPECT_THAT(why(clock), HasSubstr("snapshot of this boot"));
  EXPECT_EQ(left(clock), hours(20));
  clock.record.known_from = clock.since_boot - hours(24);
  EXPECT_EQ(why(clock), "");
}

// The clock was wrong at boot, or the machine was off for that long: this is unknown until the clock is synchronised.
// With chrony the service never learns that it is, so the doubt ends by itself.
TEST(DoubtfulTime, ABootLongAfterTheLastSnapshot) {
  StoreClock clock = right();
  clock.now = kBoot + 2 * kDay;
  clock.since_boot = 2 * kDay;
  clock.synchronised = false;
  clock.last_of_others = kBoot - 40 * kDay;
  EXPECT_THAT(why(clock), HasSubstr("the boot"));
  EXPECT_EQ(left(clock), 5 * kDay);
  EXPECT_TRUE(doubt_of(clock)->or_synchronised);
  clock.first_of_boot = std::nullopt;
  EXPECT_THAT(why(clock), HasSubstr("the boot"));
  clock.synchronised = true;
  EXPECT_EQ(why(clock), "");
  clock.synchronised = false;
  clock.last_of_others = kBoot - 6 * kDay;
  EXPECT_EQ(why(clock), "");
  clock.last_of_others = kBoot - 40 * kDay;
  clock.now = kBoot + 7 * kDay;
  clock.since_boot = 7 * kDay;
  EXPECT_EQ(why(clock), "") << "a week after the boot";
}

TEST(DoubtfulTime, AClockThatIsBehindDeletesNothing) {
  StoreClock clock = right();
  clock.now -= 40 * kDay;
  EXPECT_EQ(why(clock), "");
}

// systemd-timesyncd's file stays if the clock jumps, and if the network is down for days.
TEST(DoubtfulTime, TimesyncdVouchesForAnHour) {
  char folder[] = "/tmp/flight-timesync-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/synchronized";
  const WallTime now = wall_now();
  EXPECT_FALSE(timesyncd_vouches(file.c_str(), now));
  ASSERT_TRUE(std::ofstream(file));
  EXPECT_TRUE(timesyncd_vouches(file.c_str(), now));
  EXPECT_TRUE(timesyncd_vouches(file.c_str(), now + minutes(50)));
  EXPECT_FALSE(timesyncd_vouches(file.c_str(), now + 40 * kDay)) << "the clock jumped after the synchronisation";
  EXPECT_FALSE(timesyncd_vouches(file.c_str(), now - 40 * kDay));
  std::filesystem::remove_all(folder);
}

TEST(DoubtfulTime, TheRealClocksAgreeWithThemselves) {
  StoreClock clock = StoreClock::read();
  EXPECT_GT(clock.boot().count(), 0);
  clock.since_boot = std::max<nanoseconds>(clock.since_boot, kFirstOfBoot);
  EXPECT_EQ(why(clock), "");
}

}  // namespace
}  // namespace flight
