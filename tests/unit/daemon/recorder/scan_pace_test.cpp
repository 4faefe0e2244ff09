// SPDX-License-Identifier: Apache-2.0
// The pace of scans over minutes, in virtual time.
#include "daemon/recorder/scan_pace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace flight::daemon {
namespace {

using testing::ElementsAre;

class ScanPaceTest : public testing::Test {
 protected:
  static constexpr EventTime kSecondNs = 1'000'000'000;
  static constexpr EventTime kBegunNs = 1000 * kSecondNs;
  static constexpr ScanPace::Need kLoss{.loss = true}, kRest{.loss = false};

  ScanPaceTest() { pace_.requested(now_ns_); }

  // For so many seconds a scan is needed all the time. The seconds since the beginning at which one was requested.
  std::vector<EventTime> requests(EventTime seconds, const ScanPace::Need& need) {
    constexpr EventTime kLookEveryNs = kSecondNs / 10;  // as the thread's tick
    std::vector<EventTime> out;
    for (const EventTime end_ns = now_ns_ + seconds * kSecondNs; now_ns_ < end_ns;) {
      now_ns_ += kLookEveryNs;
      if (!pace_.take_turn(now_ns_, need)) continue;
      pace_.requested(now_ns_);
      out.push_back((now_ns_ - kBegunNs) / kSecondNs);
    }
    return out;
  }
  void pass(EventTime ns) { now_ns_ += ns; }
  bool is_due(const ScanPace::Need& need) { return pace_.take_turn(now_ns_, need); }

  ScanPace pace_;
  EventTime now_ns_ = kBegunNs;
};

TEST_F(ScanPaceTest, TheFirstLossIsLookedUpAfterASecond) {
  pass(kSecondNs - 1);
  EXPECT_FALSE(is_due(kLoss));
  pass(1);
  EXPECT_TRUE(is_due(kLoss));
}

TEST_F(ScanPaceTest, LossesWithoutEndAreLookedUpEveryFiveSeconds) {
  EXPECT_THAT(requests(25, kLoss), ElementsAre(1, 3, 7, 12, 17, 22));
}

TEST_F(ScanPaceTest, WhatCannotBeReadIsLookedUpEveryHalfMinute) {
  EXPECT_THAT(requests(100, kRest), ElementsAre(1, 3, 7, 15, 31, 61, 91));
}

TEST_F(ScanPaceTest, AProcessThatHangsDoesNotDelayTheScanAfterALoss) {
  EXPECT_THAT(requests(15, kRest), ElementsAre(1, 3, 7, 15));
  pass(kSecondNs - 1);
  EXPECT_FALSE(is_due(kLoss));
  pass(1);
  EXPECT_FALSE(is_due(kRest));
  EXPECT_TRUE(is_due(kLoss));
}

TEST_F(ScanPaceTest, AfterAQuietMinuteTheFirstIntervalApplies) {
  EXPECT_THAT(requests(12, kLoss), ElementsAre(1, 3, 7, 12));
  pass(60 * kSecondNs);
  EXPECT_THAT(requests(3, kLoss), ElementsAre(72, 74));
}

// It was one a second for one snapshot after the other.
TEST_F(ScanPaceTest, SnapshotsThatWaitHurryOneScanInFiveSeconds) {
  EXPECT_THAT(requests(25, {.loss = true, .snapshot_waits = true}), ElementsAre(1, 2, 6, 7, 12, 13, 18, 19, 24, 25));
}

TEST_F(ScanPaceTest, ASnapshotDoesNotHurryAScanWithinASecond) {
  EXPECT_THAT(requests(1, kLoss), ElementsAre(1));
  pass(kSecondNs - 1);
  EXPECT_FALSE(is_due({.loss = true, .snapshot_waits = true}));
  pass(1);
  EXPECT_FALSE(is_due(kLoss));
  EXPECT_TRUE(is_due({.loss = true, .snapshot_waits = true}));
}

}  // namespace
}  // namespace flight::daemon
