// SPDX-License-Identifier: Apache-2.0
// Rate limits: of one trigger, and of all triggers together.
#include "libcore/trigger/policy.hpp"

#include <gtest/gtest.h>

#include "libcore/trigger/guard.hpp"
#include "tests/unit/trigger/tape.hpp"

namespace flight {
namespace {

constexpr SignedTime kSecond = 1'000'000'000, kMinute = 60 * kSecond, kOneHour = 60 * kMinute, kDay = 24 * kOneHour;

RatePolicy policy(const std::string& keys) {
  return RatePolicy(test::config_of("\"t\": {\"external\": true" + keys + "}").triggers.at(0));
}
// The number of admitted firings in `span`, if one fires each `step`.
int passed(RatePolicy& rates, SignedTime begin, SignedTime span, SignedTime step) {
  int count = 0;
  for (SignedTime now = begin; now < begin + span; now += step)
    if (rates.ask(now).passes()) {
      rates.note(now);
      ++count;
    }
  return count;
}

TEST(RatePolicy, NoLimitIsNone) {
  RatePolicy rates = policy("");
  EXPECT_EQ(passed(rates, 0, kMinute, kSecond), 60);
  EXPECT_EQ(rates.firings().size(), 1U) << "nothing is remembered that no limit needs";
}

TEST(RatePolicy, Cooldown) {
  RatePolicy rates = policy(R"(, "cooldown": "5min")");
  EXPECT_TRUE(rates.ask(0).passes());
  rates.note(0);
  const Verdict held = rates.ask(5 * kMinute - 1);
  EXPECT_EQ(held.by, SuppressedBy::cooldown);
  EXPECT_EQ(held.until_ns, 5 * kMinute);
  EXPECT_TRUE(rates.ask(5 * kMinute).passes());
}

TEST(RatePolicy, SoManyInAnyHourAndAnyDay) {
  RatePolicy rates = policy(R"(, "max_per_hour": 3, "max_per_day": 10)");
  EXPECT_EQ(passed(rates, 0, kOneHour, kMinute), 3);
  EXPECT_EQ(rates.ask(kOneHour - 1).by, SuppressedBy::max_per_hour);
  EXPECT_EQ(rates.ask(kOneHour - 1).until_ns, kOneHour);
  EXPECT_EQ(passed(rates, kOneHour, 3 * kOneHour, kMinute), 7) << "9 in three hours, and the tenth";
  EXPECT_EQ(rates.ask(5 * kOneHour).by, SuppressedBy::max_per_day);
  EXPECT_EQ(rates.ask(5 * kOneHour).until_ns, kDay);
  EXPECT_EQ(passed(rates, 4 * kOneHour, 20 * kOneHour, kMinute), 0);
  // Any 24 hours, not only those between two midnights.
  EXPECT_EQ(passed(rates, kDay, 3 * kMinute, kMinute), 3);
}

TEST(RatePolicy, TheLastFiringOfTheDayIsKnown) {
  RatePolicy rates = policy(R"(, "max_per_day": 2)");
  EXPECT_EQ(rates.day_used_until(0), std::nullopt);
  rates.note(0);
  EXPECT_EQ(rates.day_used_until(0), std::nullopt);
  rates.note(kOneHour);
  EXPECT_EQ(rates.day_used_until(kOneHour), kDay);
  EXPECT_EQ(rates.ask(kOneHour).until_ns, kDay);
  rates.take_back();
  EXPECT_EQ(rates.day_used_until(2 * kOneHour), std::nullopt);
  rates.note(kDay + kOneHour);
  EXPECT_EQ(rates.day_used_until(kDay + kOneHour), std::nullopt) << "the first one is older than a day";
  RatePolicy unlimited = policy("");
  unlimited.note(0);
  EXPECT_EQ(unlimited.day_used_until(0), std::nullopt);
}

TEST(RatePolicy, TheLongestLimitIsReported) {
  RatePolicy rates = policy(R"(, "cooldown": "2h", "max_per_hour": 1)");
  rates.note(0);
  EXPECT_EQ(rates.ask(kMinute).by, SuppressedBy::cooldown);
  RatePolicy others = policy(R"(, "cooldown": "1min", "max_per_day": 1)");
  others.note(0);
  EXPECT_EQ(others.ask(kSecond).by, SuppressedBy::max_per_day);
}

TEST(RatePolicy, WhatFiredBeforeThisBootCounts) {
  RatePolicy rates = policy(R"(, "max_per_hour": 2)");
  rates.restore({-50 * kMinute, -10 * kMinute}, kMinute);
  EXPECT_EQ(rates.ask(kMinute).until_ns, 10 * kMinute);
  rates.restore({kOneHour, 2 * kOneHour}, kMinute);
  EXPECT_EQ(rates.ask(kMinute).until_ns, kMinute + kOneHour) << "nothing fired in the future";
}

TEST(StormGuard, ABucket) {
  StormGuard guard({.burst = 3, .per_hour = 6});
  SignedTime now = 77 * kOneHour;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(guard.ask(now).passes());
    guard.take(now);
  }
  EXPECT_EQ(guard.ask(now).by, SuppressedBy::storm_guard);
  EXPECT_NEAR(static_cast<double>(guard.ask(now).until_ns - now), static_cast<double>(10 * kMinute), 1000);
  now = guard.ask(now).until_ns;
  EXPECT_TRUE(guard.ask(now).passes()) << "until means until";
  guard.take(now);
  EXPECT_FALSE(guard.ask(now + 9 * kMinute).passes());
  EXPECT_DOUBLE_EQ(guard.tokens(now + 10 * kOneHour), 3) << "no more than it holds";
}

TEST(StormGuard, ManySmallRefillsAddUp) {
  StormGuard guard({.burst = 1, .per_hour = 12});
  int count = 0;
  for (SignedTime now = 0; now < kOneHour; now += 100'000'000)
    if (guard.ask(now).passes()) {
      guard.take(now);
      ++count;
    }
  EXPECT_EQ(count, 12);
}

TEST(StormGuard, AClockThatStopsOrStepsBackAddsNothing) {
  StormGuard guard({.burst = 1, .per_hour = 60});
  guard.take(kOneHour);
  EXPECT_FALSE(guard.ask(kOneHour).passes());
  EXPECT_FALSE(guard.ask(0).passes());
  EXPECT_TRUE(guard.ask(kOneHour + kMinute).passes());
}

TEST(StormGuard, AReloadKeepsTheTokens) {
  StormGuard guard({.burst = 4, .per_hour = 4});
  guard.take(0);
  guard.take(0);
  guard.change({.burst = 8, .per_hour = 4}, 0);
  EXPECT_DOUBLE_EQ(guard.tokens(0), 2);
  guard.change({.burst = 1, .per_hour = 4}, 0);
  EXPECT_DOUBLE_EQ(guard.tokens(0), 1);
  guard.change({.burst = 5, .per_hour = 4}, 0);
  EXPECT_DOUBLE_EQ(guard.tokens(0), 5) << "one that was full is full";
}

}  // namespace
}  // namespace flight
