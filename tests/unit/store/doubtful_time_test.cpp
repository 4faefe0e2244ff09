// SPDX-License-Identifier: Apache-2.0
// Which clocks are trusted for the age of snapshots.
#include "libcore/store/doubtful_time.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::HasSubstr;

constexpr WallTime kDay = hours(24);
constexpr WallTime kBoot = 20'000 * kDay;

// Ten days after the boot, all of which flightd has seen.
StoreClock right() {
  return {.now = kBoot + 10 * kDay,
          .since_boot = 10 * kDay,
          .boot_at_start = kBoot,
          .first_of_boot = kBoot + kDay,
          .last_of_others = kBoot - kDay};
}

TEST(DoubtfulTime, AClockThatAgreesWithEverythingIsBelieved) {
  EXPECT_EQ(why_doubtful(right()), "");
  StoreClock first_boot = right();
  first_boot.first_of_boot = first_boot.last_of_others = std::nullopt;
  EXPECT_EQ(why_doubtful(first_boot), "");
  StoreClock slow = right();  // it drifts, or was set by an hour at most
  slow.now += minutes(59);
  EXPECT_EQ(why_doubtful(slow), "");
}

TEST(DoubtfulTime, AJumpWhileFlightdRuns) {
  StoreClock clock = right();
  clock.now += 40 * kDay;
  clock.first_of_boot = clock.last_of_others = std::nullopt;
  EXPECT_THAT(why_doubtful(clock), HasSubstr("since flightd started"));
  clock.synchronised = true;  // it was wrong before, and now it is right
  EXPECT_EQ(why_doubtful(clock), "");
}

// flightd started after the jump. The snapshots of this boot are dated before the boot.
TEST(DoubtfulTime, AJumpInThisBootBeforeFlightdStarted) {
  StoreClock clock = right();
  clock.now += 40 * kDay;
  clock.boot_at_start = clock.boot();
  clock.last_of_others = std::nullopt;
  EXPECT_THAT(why_doubtful(clock), HasSubstr("snapshot of this boot"));
  clock.synchronised = true;
  EXPECT_EQ(why_doubtful(clock), "");
}

// The clock was wrong at boot, or the machine was off for that long: this is unknown until the clock is synchronised.
TEST(DoubtfulTime, ABootLongAfterTheLastSnapshot) {
  StoreClock clock = right();
  clock.last_of_others = kBoot - 40 * kDay;
  EXPECT_THAT(why_doubtful(clock), HasSubstr("the boot"));
  clock.first_of_boot = std::nullopt;
  EXPECT_THAT(why_doubtful(clock), HasSubstr("the boot"));
  clock.last_of_others = kBoot - 6 * kDay;
  EXPECT_EQ(why_doubtful(clock), "");
}

TEST(DoubtfulTime, AClockThatIsBehindDeletesNothing) {
  StoreClock clock = right();
  clock.now -= 40 * kDay;
  EXPECT_EQ(why_doubtful(clock), "");
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
  const WallTime boot = StoreClock::read({}).boot();
  EXPECT_GT(boot.count(), 0);
  EXPECT_EQ(why_doubtful(StoreClock::read(boot)), "");
}

}  // namespace
}  // namespace flight
