// SPDX-License-Identifier: Apache-2.0
// The interval between passes follows their cost.
#include <gtest/gtest.h>

#include "libcore/trigger/pass_interval.hpp"

namespace flight {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

void note(PassInterval& interval, int times, microseconds cost) {
  for (int i = 0; i < times; ++i) interval.note(cost);
}

TEST(PassInterval, StaysWhereAPassCostsLittle) {
  PassInterval interval;
  note(interval, 1000, microseconds(199));
  EXPECT_EQ(interval.interval(), milliseconds(100));
}

TEST(PassInterval, DoublesWhereAPassCostsMoreThanAFifthOfAPercent) {
  PassInterval interval;
  note(interval, 14, microseconds(201));
  EXPECT_EQ(interval.interval(), milliseconds(100)) << "not on a few";
  note(interval, 1, microseconds(201));
  EXPECT_EQ(interval.interval(), milliseconds(200));
  note(interval, 1000, microseconds(201));
  EXPECT_EQ(interval.interval(), milliseconds(200)) << "for that one it is enough";
  note(interval, 1000, microseconds(1500));
  EXPECT_EQ(interval.interval(), milliseconds(800));
}

TEST(PassInterval, IsBounded) {
  PassInterval interval;
  note(interval, 1000, std::chrono::seconds(1));
  EXPECT_EQ(interval.interval(), milliseconds(3200));
  note(interval, 1000, microseconds(0));
  EXPECT_EQ(interval.interval(), milliseconds(100)) << "and comes back";
}

TEST(PassInterval, ASlowPassNowAndThenChangesNothing) {
  PassInterval interval;
  for (int i = 0; i < 1000; ++i) note(interval, 1, i % 3 == 0 ? microseconds(50'000) : microseconds(100));
  EXPECT_EQ(interval.interval(), milliseconds(100));
}

TEST(PassInterval, DoesNotGoToAndFro) {
  PassInterval interval;
  note(interval, 15, microseconds(205));
  int changes = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto before = interval.interval();
    note(interval, 1, microseconds(i / 30 % 2 == 0 ? 205 : 195));
    changes += interval.interval() != before ? 1 : 0;
  }
  EXPECT_EQ(changes, 0);
}

}  // namespace
}  // namespace flight
