// SPDX-License-Identifier: Apache-2.0
// Virtual time, and virtual costs.
#include "daemon/broker/files/read_share.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

#include "daemon/broker/files/process_owner.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""us;
using std::chrono_literals::operator""ns;
using Use = ReadShare::Use;
using CpuTime = ReadShare::CpuTime;

// What may be owed for fresh files.
constexpr CpuTime kUserAtOnce = CpuTime(ReadShare::kOfUser) * 3 / 4, kAllAtOnce = CpuTime(ReadShare::kCommon) * 3 / 4;
constexpr std::chrono::milliseconds kStep{100};

class ReadShares : public testing::Test {
 protected:
  // Each user uses as much as he may, in turns and in items of `cost`.
  std::map<ReadShare::Account, CpuTime> run_for(std::chrono::seconds time, const std::vector<ReadShare::Account>& users,
                                                CpuTime cost) {
    std::map<ReadShare::Account, CpuTime> used;
    for (const auto until = now_ + time; now_ < until; now_ += kStep) {
      for (std::size_t refused = 0; refused < users.size(); turn_ = (turn_ + 1) % users.size()) {
        const auto user = users[turn_ % users.size()];
        if (!share_.may(user, Use::fresh, now_)) {
          ++refused;
          continue;
        }
        refused = 0;
        share_.charge(user, cost, now_);
        used[user] += cost;
      }
    }
    return used;
  }
  static CpuTime sum(const std::map<ReadShare::Account, CpuTime>& used) {
    CpuTime all{0};
    for (const auto& [user, one] : used) all += one;
    return all;
  }
  void expect_one_percent_for_all(std::chrono::seconds time) {
    const CpuTime one_percent = CpuTime(time) / 100;
    std::vector<ReadShare::Account> users(50);
    std::iota(users.begin(), users.end(), 1000U);
    const auto used = run_for(time, users, 1ms);
    EXPECT_LE(sum(used), kAllAtOnce + 50 * ReadShare::kOwn + one_percent + 1ms) << "and one item";
    EXPECT_GE(sum(used), kAllAtOnce + one_percent);
    for (const auto& [user, one] : used) EXPECT_GE(one, one_percent / 50) << user;
  }
  ReadShare::Time now_{1000s};
  std::size_t turn_ = 0;
  ReadShare share_;
};
using ReadSharesLong = ReadShares;

TEST_F(ReadShares, AUserHasSomeAtOnceAndThenOnePercent) {
  const CpuTime used = run_for(1000s, {1000}, 2ms)[1000];
  EXPECT_LE(used, kUserAtOnce + 10s + 2ms) << "and one item";
  EXPECT_GE(used, kUserAtOnce + 10s - 2ms);
}

TEST_F(ReadShares, RootIsAUserLikeOthers) {
  const CpuTime used = run_for(1000s, {0}, 2ms)[0];
  EXPECT_LE(used, kUserAtOnce + 10s + 2ms);
  EXPECT_GE(used, kUserAtOnce + 10s - 2ms);
}

TEST_F(ReadShares, AllTogetherHaveOnePercent) { expect_one_percent_for_all(500s); }
TEST_F(ReadSharesLong, AllTogetherHaveOnePercent) { expect_one_percent_for_all(1000s); }

// Whatever others have used up, he has a beginning, and then the same part as each of them.
TEST_F(ReadShares, AUserWhoComesLaterWaitsForNobody) {
  run_for(2000s, {1, 2, 3, 4}, 2ms);
  EXPECT_GE(share_.owed(1) + share_.owed(2) + share_.owed(3) + share_.owed(4), kAllAtOnce);
  EXPECT_TRUE(share_.may(5, Use::fresh, now_));
  const auto used = run_for(1000s, {1, 2, 3, 4, 5}, 2ms);
  EXPECT_LE(sum(used), 10s + ReadShare::kOwn + 2ms);
  EXPECT_GE(used.at(5), 1800ms) << "of 10 s";
  EXPECT_LE(used.at(5), 2200ms);
  EXPECT_GE(used.at(1), 1800ms);
}

TEST_F(ReadShares, OneItemThatIsMuchTooLongIsItsUsersAlone) {
  share_.charge(1, 100s, now_);
  EXPECT_FALSE(share_.may(1, Use::asked, now_));
  EXPECT_TRUE(share_.any_held(now_));
  const auto others = run_for(1000s, {2}, 2ms);
  EXPECT_GE(others.at(2), kAllAtOnce - ReadShare::kOfUser + 4900ms)
      << "what is left at once, and half of what is paid back";
  EXPECT_LE(others.at(2), kUserAtOnce + 5100ms);
  EXPECT_LE(share_.owed(1), 95100ms);
  EXPECT_GE(share_.owed(1), 94900ms);
}

TEST_F(ReadShares, WhatComesLateIsPaidBack) {
  share_.charge(1, 5s, now_);
  share_.charge(2, 1s, now_);
  EXPECT_FALSE(share_.may(1, Use::fresh, now_));
  now_ += 200s;
  EXPECT_FALSE(share_.may(1, Use::fresh, now_));
  EXPECT_EQ(share_.owed(1), 4s);
  EXPECT_EQ(share_.owed(2), 0s);
  now_ += 99s;
  EXPECT_FALSE(share_.may(1, Use::fresh, now_));
  now_ += 2s;
  EXPECT_TRUE(share_.may(1, Use::fresh, now_));
  EXPECT_FALSE(share_.any_held(now_));
}

TEST_F(ReadShares, IdleTimeIsNotSaved) {
  run_for(10s, {1000}, 2ms);
  now_ += 100'000s;
  EXPECT_LE(run_for(10s, {1000}, 2ms)[1000], kUserAtOnce + 100ms + 2ms);
}

TEST_F(ReadShares, EachUseLeavesSomeForTheNext) {
  EXPECT_TRUE(share_.may(1, Use::again, now_));
  share_.charge(1, 2s, now_);
  EXPECT_FALSE(share_.may(1, Use::again, now_)) << "known files can wait for a snapshot";
  EXPECT_TRUE(share_.may(1, Use::fresh, now_));
  share_.charge(1, 1s, now_);
  EXPECT_FALSE(share_.may(1, Use::fresh, now_));
  EXPECT_TRUE(share_.may(1, Use::asked, now_)) << "a snapshot waits";
  share_.charge(1, 1s, now_);
  EXPECT_FALSE(share_.may(1, Use::asked, now_));
}

// As of who starts thousands of programs a second, whose files are all known.
TEST_F(ReadShares, WhatCannotWaitKeepsNobodyWaitingWhoHasNothingRead) {
  share_.charge_notice(1, 1s, now_);
  EXPECT_EQ(share_.owed(1), 1s);
  share_.charge_notice(1, 100s, now_);
  EXPECT_EQ(share_.owed(1), ReadShare::kNoticed);
  EXPECT_TRUE(share_.may(1, Use::again, now_));
  EXPECT_TRUE(share_.may(1, Use::fresh, now_));
  EXPECT_FALSE(share_.any_held(now_));
  // What is read comes on top.
  share_.charge(1, 1500ms, now_);
  EXPECT_FALSE(share_.may(1, Use::fresh, now_));
  EXPECT_TRUE(share_.may(1, Use::asked, now_));
  EXPECT_TRUE(share_.any_held(now_));
  share_.charge(1, 1s, now_);
  EXPECT_FALSE(share_.may(1, Use::asked, now_));
  share_.charge_notice(1, 100s, now_);
  EXPECT_EQ(share_.owed(1), ReadShare::kNoticed + 2500ms) << "nothing more counts";
  // It is paid back like the rest.
  now_ += 50s;
  EXPECT_FALSE(share_.may(1, Use::fresh, now_));
  EXPECT_TRUE(share_.may(1, Use::asked, now_));
  EXPECT_EQ(share_.owed(1), ReadShare::kNoticed + 2s);
  now_ += 300s;
  EXPECT_TRUE(share_.may(1, Use::fresh, now_));
  EXPECT_EQ(share_.owed(1), ReadShare::kNoticed - 1s);
}

TEST_F(ReadShares, WhatCannotWaitTakesNothingOfWhatIsCommon) {
  for (const ReadShare::Account user : {1, 2, 3, 4}) share_.charge_notice(user, 100s, now_);
  EXPECT_TRUE(share_.may(1, Use::asked, now_));
  EXPECT_TRUE(share_.may(5, Use::fresh, now_));
  share_.charge(5, 1s, now_);
  EXPECT_TRUE(share_.may(5, Use::fresh, now_)) << "more than is his own";
  // But what they have read is common, also beside that.
  for (const ReadShare::Account user : {1, 2, 3, 4}) share_.charge(user, 2s, now_);
  EXPECT_FALSE(share_.may(5, Use::fresh, now_));
  // It is paid back before what they have noticed: 1 s by each of the five.
  now_ += 500s;
  EXPECT_TRUE(share_.may(5, Use::fresh, now_));
  share_.charge(5, 1s, now_);
  EXPECT_TRUE(share_.may(5, Use::fresh, now_));
}

// Together they have used up what is common.
TEST_F(ReadShares, TwoWhoAreHeldLeaveAThirdWhatIsHisOwn) {
  share_.charge(1, 100s, now_);
  share_.charge(2, 100s, now_);
  for (const ReadShare::Account user : {1, 2}) EXPECT_FALSE(share_.may(user, Use::asked, now_)) << user;
  const CpuTime used = run_for(10s, {3}, 1ms)[3];
  EXPECT_GE(used, 30ms + 33ms - 2ms) << "three quarters of what is his own, and a third of what is paid back";
  EXPECT_LE(used, 30ms + 34ms + 2ms);
  share_.charge(3, 50ms, now_);
  EXPECT_TRUE(share_.may(3, Use::asked, now_)) << "a snapshot has a part of what is common";
  EXPECT_LE(share_.owed(1), 100s - 33ms + 1ms);
}

TEST_F(ReadShares, WhenItGoesOn) {
  EXPECT_FALSE(share_.goes_on(1, Use::fresh, now_)) << "now";
  share_.charge(1, 5s, now_);
  const auto goes_on = share_.goes_on(1, Use::fresh, now_);
  ASSERT_TRUE(goes_on);
  EXPECT_GE(*goes_on, now_ + 200s);
  EXPECT_LE(*goes_on, now_ + 201s);
  EXPECT_FALSE(share_.may(1, Use::fresh, *goes_on - 10ms));
  EXPECT_TRUE(share_.may(1, Use::fresh, *goes_on));
}

TEST_F(ReadShares, SmallStepsAndStepsBackLoseNothing) {
  share_.charge(1, 1s, now_);
  for (int i = 0; i < 100'000; ++i) {
    now_ += 10us;
    EXPECT_TRUE(share_.may(1, Use::fresh, now_));
    EXPECT_TRUE(share_.may(1, Use::fresh, now_ - 5s));
  }
  EXPECT_LE(share_.owed(1), 1s - 9990us);
  EXPECT_GE(share_.owed(1), 1s - 10ms);
  share_.charge(1, -1s, now_);
  share_.charge(1, 0ns, now_);
  EXPECT_GE(share_.owed(1), 1s - 10ms);
}

// A bounded table: those above the limit are one, and the scans are none of them.
TEST_F(ReadShares, BeyondANumberOfUsersTheOthersAreOne) {
  for (ReadShare::Account user = 1; user <= 200; ++user) share_.charge(user, 30ms, now_);
  EXPECT_EQ(share_.owed(1), 30ms);
  EXPECT_EQ(share_.owed(ReadShare::kMaxUsers), 30ms);
  EXPECT_EQ(share_.owed(200), (200 - static_cast<int>(ReadShare::kMaxUsers)) * 30ms);
  EXPECT_EQ(share_.owed(kEndedOwner), share_.owed(200));
  EXPECT_EQ(share_.owed(ReadShare::kScans), 0ms);
  share_.charge(ReadShare::kScans, 5s, now_);
  EXPECT_FALSE(share_.may(ReadShare::kScans, Use::again, now_));
  EXPECT_TRUE(share_.may(1, Use::asked, now_));
}

}  // namespace
}  // namespace flight::broker
