// SPDX-License-Identifier: Apache-2.0
// Which snapshots are deleted, why and in which order, as tables of plain values.
#include "libcore/store/retention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libcore/base/result.hpp"

namespace flight {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr WallTime kNow = hours(24 * 20'000);
constexpr std::uint64_t kEach = 100;  // bytes of each snapshot below
constexpr std::uint64_t kPlenty = 1ULL << 40U;

// Number `seq`, taken an hour after the one before it; the last one now.
StoredSnapshot one(std::uint64_t seq, const std::string& trigger = "spike") {
  return {.seq = seq, .trigger = trigger, .time = kNow - hours(1000 - seq), .disk_bytes = kEach, .freed_bytes = kEach};
}
std::vector<StoredSnapshot> row(std::uint64_t first, std::uint64_t last, const std::string& trigger = "spike") {
  std::vector<StoredSnapshot> out;
  for (std::uint64_t seq = first; seq <= last; ++seq) out.push_back(one(seq, trigger));
  return out;
}
std::vector<StoredSnapshot> operator+(std::vector<StoredSnapshot> a, const std::vector<StoredSnapshot>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
StoreNow now() { return {.free_bytes = kPlenty, .time = kNow}; }

// "3 max_use" in the order of deletion.
std::vector<std::string> deletions(const std::vector<StoredSnapshot>& snapshots, const VacuumPlan& plan) {
  std::vector<std::string> out;
  for (const VacuumVictim& victim : plan.victims)
    out.push_back(fmt::format("{} {}", snapshots.at(victim.index).seq, to_string(victim.reason)));
  return out;
}
std::vector<std::uint64_t> gone(const std::vector<StoredSnapshot>& snapshots, const VacuumPlan& plan) {
  std::vector<std::uint64_t> out;
  for (const VacuumVictim& victim : plan.victims) out.push_back(snapshots.at(victim.index).seq);
  return out;
}
std::vector<std::uint64_t> gone(const std::vector<StoredSnapshot>& snapshots, const StoreLimits& limits,
                                const StoreNow& situation) {
  return gone(snapshots, plan_vacuum(snapshots, limits, situation));
}

TEST(Retention, NothingIsDeletedWithinTheBudget) {
  const auto snapshots = row(1, 5);
  const StoreLimits limits{.max_use_bytes = 500, .keep_free_bytes = kPlenty, .max_files = 5, .max_age = hours(1000)};
  const VacuumPlan plan = plan_vacuum(snapshots, limits, now());
  EXPECT_THAT(plan.victims, IsEmpty());
  EXPECT_EQ(plan.still_over, std::nullopt);
  EXPECT_THAT(plan_vacuum({}, limits, now()).victims, IsEmpty());
  EXPECT_THAT(gone(snapshots, {}, {.free_bytes = 0, .time = kNow}), IsEmpty()) << "no limits";
}

TEST(Retention, EachLimitTakesTheOldestAndIsNamed) {
  const auto snapshots = row(1, 5);
  const auto plan = [&](const StoreLimits& limits, const StoreNow& situation) {
    return deletions(snapshots, plan_vacuum(snapshots, limits, situation));
  };
  EXPECT_THAT(plan({.max_files = 3}, now()), ElementsAre("1 max_files", "2 max_files"));
  EXPECT_THAT(plan({.max_use_bytes = 499}, now()), ElementsAre("1 max_use"));
  EXPECT_THAT(plan({.max_use_bytes = 300}, now()), ElementsAre("1 max_use", "2 max_use"));
  EXPECT_THAT(plan({.keep_free_bytes = 1150}, {.free_bytes = 1000, .time = kNow}),
              ElementsAre("1 keep_free", "2 keep_free"));
  EXPECT_THAT(plan({.max_age = hours(997)}, now()), ElementsAre("1 max_age", "2 max_age"));
  // All limits at once: each victim has the limit that it exceeded.
  EXPECT_THAT(plan({.max_use_bytes = 300, .max_files = 4, .max_age = hours(998)}, now()),
              ElementsAre("1 max_age", "2 max_use"));
}

TEST(Retention, APartOfARunningRecordingIsNeverDeleted) {
  auto snapshots = row(1, 5, "record");
  snapshots[0].in_use = snapshots[1].in_use = true;
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 2 * kEach}, now()), ElementsAre(3, 4));
  EXPECT_THAT(gone(snapshots, {.max_age = hours(1)}, now()), ElementsAre(3, 4));
  StoreNow full = now();
  full.free_bytes = 0;
  full.incoming = IncomingSnapshot{.trigger = "record", .disk_bytes = 3 * kEach};
  EXPECT_THAT(gone(snapshots, {}, full), IsEmpty()) << "the rest is not enough";
  full.incoming->disk_bytes = 2 * kEach;
  EXPECT_THAT(gone(snapshots, {}, full), ElementsAre(3, 4));
}

// It is on the disk already, and needs no space there.
TEST(Retention, WhatIsWrittenBesideCountsForMaxUseOnly) {
  const auto snapshots = row(1, 5);
  StoreNow situation = now();
  situation.free_bytes = 250;
  situation.incoming = IncomingSnapshot{.trigger = "record", .disk_bytes = kEach, .beside_bytes = 10 * kEach};
  EXPECT_THAT(gone(snapshots, {.keep_free_bytes = 150}, situation), IsEmpty());
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 14 * kEach}, situation), ElementsAre(1, 2));
}

// Two boots: 1 to 3 and 4 to 6.
TEST(Retention, KernelSymbolsCountOnceAndGoWithTheirLastSnapshot) {
  auto snapshots = row(1, 6);
  for (std::size_t i = 0; i < snapshots.size(); ++i) snapshots[i].symbols = i / 3;
  StoreNow situation = now();
  situation.symbols_bytes = {250, 250};
  const auto left_of = [&](std::uint64_t max_use_bytes) {
    return gone(snapshots, {.max_use_bytes = max_use_bytes}, situation);
  };
  EXPECT_THAT(left_of(6 * kEach + 500), IsEmpty());
  EXPECT_THAT(left_of(6 * kEach + 499), ElementsAre(1));
  EXPECT_THAT(left_of(4 * kEach + 500), ElementsAre(1, 2));
  EXPECT_THAT(left_of(4 * kEach + 499), ElementsAre(1, 2, 3)) << "with the third, the symbols of its boot go";
  EXPECT_THAT(left_of(3 * kEach + 250), ElementsAre(1, 2, 3));
  EXPECT_THAT(left_of(3 * kEach + 249), ElementsAre(1, 2, 3, 4));
  snapshots[0].pinned = true;
  EXPECT_THAT(left_of(4 * kEach + 499), ElementsAre(2, 3, 4)) << "the pinned one needs them";
}

TEST(Retention, KernelSymbolsThatStayAnywayDeleteNothing) {
  auto snapshots = row(1, 4);
  StoreNow situation = now();
  situation.symbols_bytes = {1000};
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 500}, situation), IsEmpty()) << "nobody knows whose they are";
  EXPECT_EQ(plan_vacuum(snapshots, {.max_use_bytes = 500}, situation).still_over, VacuumReason::max_use);
  for (StoredSnapshot& snapshot : snapshots) snapshot.symbols = 0;
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 500}, situation), IsEmpty()) << "the newest one needs them";
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 399}, situation), ElementsAre(1)) << "the other limits apply";
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 1200}, situation), ElementsAre(1, 2));
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = kEach};
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 1200}, situation), ElementsAre(1, 2, 3));
}

TEST(Retention, TheOrderOfTheListDoesNotMatter) {
  auto snapshots = row(1, 9) + row(10, 12, "oom");
  const StoreLimits limits{.max_files = 6, .keep_first = 1, .keep_last = 1};
  const auto first = gone(snapshots, limits, now());
  for (int turn = 0; turn < 12; ++turn) {
    std::rotate(snapshots.begin(), snapshots.begin() + 1, snapshots.end());
    if (turn == 5) std::reverse(snapshots.begin(), snapshots.end());
    EXPECT_EQ(gone(snapshots, limits, now()), first);
  }
}

// A storm of one trigger, after a snapshot of another.
TEST(Retention, FirstAndLastOfEachTriggerStayLongest) {
  const auto snapshots = row(1, 1, "oom") + row(2, 21);
  const StoreLimits limits{.max_files = 7, .keep_first = 2, .keep_last = 2};
  EXPECT_THAT(gone(snapshots, limits, now()), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
  // With smaller limits the second ones go too, and at the end the very first and last. 21 is the newest.
  EXPECT_THAT(gone(snapshots, {.max_files = 1, .keep_first = 2, .keep_last = 2}, now()).back(), 2U);
  const auto four = row(1, 1, "oom") + row(2, 5);
  EXPECT_THAT(gone(four, {.max_files = 1, .keep_first = 2, .keep_last = 2}, now()), ElementsAre(3, 4, 1, 2));
}

TEST(Retention, AStormDoesNotEvictItsBeginning) {
  // A hundred snapshots, one after the other, in a store for five, as with a running flightd.
  std::vector<StoredSnapshot> held{one(1, "oom")};
  const StoreLimits limits{.max_files = 5, .keep_first = 2, .keep_last = 2};
  for (std::uint64_t seq = 2; seq <= 100; ++seq) {
    StoreNow situation = now();
    situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = kEach};
    for (int step = 0; step < 2; ++step) {
      const VacuumPlan plan = plan_vacuum(held, limits, situation);
      auto seqs = gone(held, plan);
      std::erase_if(held, [&](const StoredSnapshot& s) { return std::count(seqs.begin(), seqs.end(), s.seq) > 0; });
      if (step == 0) held.push_back(one(seq));
      situation.incoming.reset();
    }
    ASSERT_LE(held.size(), 5U);
    ASSERT_EQ(held.back().seq, seq);
  }
  std::vector<std::uint64_t> seqs;
  for (const StoredSnapshot& snapshot : held) seqs.push_back(snapshot.seq);
  EXPECT_THAT(seqs, ElementsAre(1, 2, 3, 99, 100));
}

TEST(Retention, ManyTriggersDoNotBreakTheBudget) {
  std::vector<StoredSnapshot> snapshots;
  for (std::uint64_t seq = 1; seq <= 640; ++seq) snapshots.push_back(one(seq, fmt::format("trigger-{}", seq % 64)));
  const StoreLimits limits{.max_files = 100, .keep_first = 1000, .keep_last = 1000};
  const VacuumPlan plan = plan_vacuum(snapshots, limits, now());
  EXPECT_EQ(plan.victims.size(), 540U);
  EXPECT_EQ(plan.still_over, std::nullopt);
  // At least the first or the last of each trigger stays.
  std::vector<bool> left(64, false);
  const auto seqs = gone(snapshots, plan);
  for (const StoredSnapshot& snapshot : snapshots)
    if (std::count(seqs.begin(), seqs.end(), snapshot.seq) == 0) left[snapshot.seq % 64] = true;
  EXPECT_EQ(std::count(left.begin(), left.end(), true), 64);
}

TEST(Retention, RoomIsMadeOnlyIfThatIsEnough) {
  const auto snapshots = row(1, 9);
  StoreNow situation = now();
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = 250};
  situation.free_bytes = 60;
  EXPECT_THAT(deletions(snapshots, plan_vacuum(snapshots, {.keep_first = 2, .keep_last = 2}, situation)),
              ElementsAre("1 room", "2 room"))
      << "the oldest, also the first of a trigger";
  auto other = snapshots;
  other[0].pinned = true;
  other[2].data = false;
  EXPECT_THAT(deletions(other, plan_vacuum(other, {.keep_first = 2, .keep_last = 2}, situation)),
              ElementsAre("2 room", "3 room"));
  // What keep_free then lacks comes from those between.
  EXPECT_THAT(deletions(snapshots,
                        plan_vacuum(snapshots, {.keep_free_bytes = 150, .keep_first = 4, .keep_last = 2}, situation)),
              ElementsAre("1 room", "2 room", "5 keep_free", "6 keep_free"));
  situation.room_in_vain = true;
  EXPECT_THAT(gone(snapshots, {.keep_first = 2, .keep_last = 2}, situation), IsEmpty()) << "it did not help";
  EXPECT_THAT(gone(snapshots, {.max_files = 9}, situation), ElementsAre(1)) << "the other limits hold";
  situation.room_in_vain = false;
  situation.free_bytes = 0;
  situation.incoming->disk_bytes = 750;  // all but the newest
  EXPECT_EQ(gone(snapshots, {.keep_first = 2, .keep_last = 2}, situation).size(), 8U);
  situation.incoming->disk_bytes = 850;
  const VacuumPlan plan = plan_vacuum(snapshots, {}, situation);
  EXPECT_THAT(plan.victims, IsEmpty()) << "it would still not fit";
  EXPECT_EQ(plan.still_over, VacuumReason::room);
  situation.incoming.reset();
  EXPECT_THAT(gone(snapshots, {}, situation), IsEmpty()) << "nothing is about to be written";
}

TEST(Retention, WithoutInodesThereIsNoRoomHoweverManyBytesAreFree) {
  auto snapshots = row(1, 9);
  for (StoredSnapshot& snapshot : snapshots) snapshot.inodes = 2;
  StoreNow situation = now();
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = kEach};
  situation.free_inodes = 3;  // three snapshots make nine free inodes
  EXPECT_THAT(deletions(snapshots, plan_vacuum(snapshots, {}, situation)), ElementsAre("1 room", "2 room", "3 room"));
  situation.free_inodes = kNeededInodes;
  EXPECT_THAT(gone(snapshots, {}, situation), IsEmpty());
  situation.free_inodes = std::nullopt;
  EXPECT_THAT(gone(snapshots, {}, situation), IsEmpty());
}

// The newest evidence is not lost for want of inodes to spare.
TEST(Retention, FewSnapshotsMakeRoomForWhatTheNextOneNeeds) {
  auto snapshots = row(1, 3);
  for (StoredSnapshot& snapshot : snapshots) snapshot.inodes = 2;
  StoreNow situation = now();
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = kEach};
  situation.free_inodes = 0;
  VacuumPlan plan = plan_vacuum(snapshots, {}, situation);
  EXPECT_THAT(deletions(snapshots, plan), ElementsAre("1 room"));
  EXPECT_EQ(plan.still_over, std::nullopt);
  situation.incoming->least_inodes = 3;
  EXPECT_THAT(gone(snapshots, {}, situation), ElementsAre(1, 2));
  situation.free_inodes = 3;
  EXPECT_THAT(gone(snapshots, {}, situation), IsEmpty());
  situation.free_inodes = 0;
  situation.incoming->least_inodes = 5;
  plan = plan_vacuum(snapshots, {}, situation);
  EXPECT_THAT(plan.victims, IsEmpty()) << "it would not be enough";
  EXPECT_EQ(plan.still_over, VacuumReason::room);
}

// Others filled the disk: what flightd could delete would not help, so it stays.
TEST(Retention, KeepFreeDeletesOnlyWhatReachesIt) {
  const auto snapshots = row(1, 1, "oom") + row(2, 10);
  const auto plan = [&](std::uint64_t keep_free_bytes) {
    return plan_vacuum(snapshots, {.keep_free_bytes = keep_free_bytes, .keep_first = 2, .keep_last = 2},
                       {.free_bytes = 1000, .time = kNow});
  };
  EXPECT_THAT(gone(snapshots, plan(1500)), ElementsAre(4, 5, 6, 7, 8)) << "all that is not kept";
  EXPECT_EQ(plan(1500).keep_free_counted_bytes, 500U);
  EXPECT_EQ(plan(1500).still_over, std::nullopt);
  EXPECT_THAT(gone(snapshots, plan(1501)), IsEmpty());
  EXPECT_EQ(plan(1501).still_over, VacuumReason::keep_free);
}

TEST(Retention, AHardLinkFreesNothing) {
  auto snapshots = row(1, 9);
  for (const std::size_t linked : {0, 1, 2, 3}) snapshots[linked].freed_bytes = 0;
  const auto keep_free = [&](std::uint64_t bytes) {
    return gone(snapshots, {.keep_free_bytes = bytes}, {.free_bytes = 1000, .time = kNow});
  };
  EXPECT_THAT(keep_free(1100), ElementsAre(5)) << "the older ones would go in vain";
  EXPECT_THAT(keep_free(1400), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(keep_free(1401), IsEmpty()) << "500 bytes belong to five files, of which one is the newest";
  // Their sidecars have no other link: a little becomes free. They go if that is needed.
  for (const std::size_t linked : {0, 1, 2, 3}) snapshots[linked].freed_bytes = 1;
  EXPECT_THAT(keep_free(1100), ElementsAre(5));
  EXPECT_THAT(keep_free(1402), ElementsAre(5, 6, 7, 8, 1, 2));
  EXPECT_THAT(keep_free(1405), IsEmpty());
}

TEST(Retention, AHardLinkMakesNoRoom) {
  auto snapshots = row(1, 9);
  for (StoredSnapshot& snapshot : snapshots) snapshot.inodes = 2;
  for (const std::size_t linked : {0, 1}) snapshots[linked].freed_bytes = snapshots[linked].inodes = 0;
  StoreNow situation = now();
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = kEach};
  situation.free_inodes = kNeededInodes - 3;
  EXPECT_THAT(gone(snapshots, {}, situation), ElementsAre(3, 4)) << "the older ones would go in vain";
  situation.free_inodes = kNeededInodes;
  situation.free_bytes = 0;
  EXPECT_THAT(gone(snapshots, {}, situation), ElementsAre(3));
  // Inodes are lacking, and 3 has files elsewhere; bytes are not.
  snapshots[2].inodes = 0;
  situation.free_inodes = kNeededInodes - 1;
  situation.free_bytes = kPlenty;
  EXPECT_THAT(gone(snapshots, {}, situation), ElementsAre(4));
}

TEST(Retention, PinnedAndNewestAreNeverDeleted) {
  auto snapshots = row(1, 5);
  snapshots[1].pinned = true;
  const StoreLimits nothing{.max_use_bytes = 1, .keep_free_bytes = kPlenty * 2, .max_files = 1, .max_age = hours(1)};
  const VacuumPlan plan = plan_vacuum(snapshots, nothing, now());
  EXPECT_THAT(gone(snapshots, plan), ElementsAre(1, 3, 4));
  EXPECT_EQ(plan.still_over, VacuumReason::max_files);
  for (StoredSnapshot& snapshot : snapshots) snapshot.pinned = true;
  EXPECT_THAT(gone(snapshots, nothing, now()), IsEmpty());
}

// In an earlier version all others but the newest went, too, although that reached nothing.
TEST(Retention, PinnedOnesAboveALimitDoNotCostTheFirstAndLastOfATrigger) {
  auto snapshots = row(1, 6, "oom") + row(7, 16);
  for (std::size_t i = 0; i < 6; ++i) snapshots[i].pinned = true;
  const StoreLimits use{.max_use_bytes = 600, .keep_first = 2, .keep_last = 2};
  const VacuumPlan by_use = plan_vacuum(snapshots, use, now());
  EXPECT_THAT(gone(snapshots, by_use), ElementsAre(9, 10, 11, 12, 13, 14)) << "those between go first, as always";
  EXPECT_EQ(by_use.still_over, VacuumReason::max_use);
  EXPECT_EQ(by_use.over_by_pinned, VacuumReason::max_use);
  const StoreLimits files{.max_files = 6, .keep_first = 2, .keep_last = 2};
  EXPECT_THAT(gone(snapshots, files, now()), ElementsAre(9, 10, 11, 12, 13, 14));
  EXPECT_EQ(plan_vacuum(snapshots, files, now()).over_by_pinned, VacuumReason::max_files);
  // One more is allowed: only the newest stays beside them, and that reaches it.
  const VacuumPlan reached = plan_vacuum(snapshots, {.max_use_bytes = 700, .keep_first = 2, .keep_last = 2}, now());
  EXPECT_EQ(gone(snapshots, reached).size(), 9U);
  EXPECT_EQ(reached.still_over, std::nullopt);
  EXPECT_EQ(reached.over_by_pinned, std::nullopt);
  // Not without a bound: all others together keep the limit.
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 300, .keep_first = 5, .keep_last = 5}, now()),
              ElementsAre(11, 12, 10, 13, 9, 14, 8));
  EXPECT_THAT(gone(snapshots, {.max_files = 3, .keep_first = 5, .keep_last = 5}, now()),
              ElementsAre(11, 12, 10, 13, 9, 14, 8));
  // The same with a snapshot that is about to be written: it is the last of its trigger then.
  StoreNow situation = now();
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = kEach};
  EXPECT_THAT(gone(snapshots, use, situation), ElementsAre(9, 10, 11, 12, 13, 14, 15));
  // Without pinned ones the limit is the store's own: it is kept.
  for (StoredSnapshot& snapshot : snapshots) snapshot.pinned = false;
  situation.incoming->disk_bytes = 600;
  EXPECT_EQ(gone(snapshots, use, situation).size(), 15U);
  EXPECT_EQ(plan_vacuum(snapshots, use, situation).over_by_pinned, std::nullopt);
}

// In an earlier version it emptied the store, and so did the estimates for the next eight snapshots.
TEST(Retention, OneThatIsLargerThanTheLimitCostsNoOtherOne) {
  auto snapshots = row(1, 5);
  snapshots[4].disk_bytes = snapshots[4].freed_bytes = 700;
  const StoreLimits limits{.max_use_bytes = 600, .keep_first = 1, .keep_last = 1};
  const VacuumPlan plan = plan_vacuum(snapshots, limits, now());
  EXPECT_THAT(plan.victims, IsEmpty()) << "it is the newest";
  EXPECT_EQ(plan.still_over, VacuumReason::max_use);
  EXPECT_EQ(plan.over_by_pinned, std::nullopt);
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 300, .keep_first = 1, .keep_last = 1}, now()), ElementsAre(2))
      << "the others keep the limit";
  // The next one is estimated to be as large.
  StoreNow situation = now();
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = 875};
  const VacuumPlan next = plan_vacuum(snapshots, limits, situation);
  EXPECT_THAT(deletions(snapshots, next), ElementsAre("5 max_use"));
  EXPECT_EQ(next.still_over, VacuumReason::max_use);
  snapshots = snapshots + std::vector{one(6)};
  EXPECT_THAT(gone(snapshots, limits, now()), ElementsAre(5)) << "it was not deleted before";
  snapshots[4].pinned = true;
  EXPECT_THAT(gone(snapshots, limits, now()), ElementsAre(2, 3, 4)) << "as when several pinned ones exceed the limit";
  // Nothing else is there: the incoming one may fail.
  std::vector<StoredSnapshot> alone{one(1)};
  alone[0].disk_bytes = 700;
  EXPECT_THAT(gone(alone, limits, situation), IsEmpty());
}

TEST(Retention, APinnedFirstIsStillTheFirst) {
  auto snapshots = row(1, 4);
  snapshots[0].pinned = true;
  EXPECT_THAT(gone(snapshots, {.max_files = 3, .keep_first = 1, .keep_last = 1}, now()), ElementsAre(2));
}

TEST(Retention, AgeTakesFirstAndLastToo) {
  EXPECT_THAT(gone(row(1, 4), {.max_age = hours(997), .keep_first = 9, .keep_last = 9}, now()), ElementsAre(1, 2));
  auto snapshots = row(1, 4);
  for (StoredSnapshot& snapshot : snapshots) snapshot.time -= hours(9000);
  EXPECT_THAT(gone(snapshots, {.max_age = hours(997)}, now()), ElementsAre(1, 2, 3)) << "the newest stays";
}

TEST(Retention, ClockSteps) {
  // 3 was taken while the clock was years ahead, 5 while it was years behind.
  auto snapshots = row(1, 6);
  snapshots[2].time = kNow + hours(90'000);
  snapshots[4].time = kNow - hours(90'000);
  EXPECT_THAT(gone(snapshots, {.max_age = hours(996)}, now()), ElementsAre(1, 2, 3)) << "3 is as old as 2, 5 as 4";
  EXPECT_THAT(gone(snapshots, {.max_files = 2}, now()), ElementsAre(1, 2, 3, 4)) << "by number";
  // The clock is now behind all of them: their ages are unknown, and none is deleted.
  StoreNow early = now();
  early.time = hours(1);
  EXPECT_THAT(gone(snapshots, {.max_age = hours(1)}, early), IsEmpty());
  EXPECT_THAT(gone(snapshots, {.max_files = 4, .max_age = hours(1)}, early), ElementsAre(1, 2));
  // The first one is from the future: it counts as old as the next.
  snapshots[0].time = kNow + hours(1);
  EXPECT_THAT(gone(snapshots, {.max_age = hours(998)}, now()), IsEmpty());
  EXPECT_THAT(gone(snapshots, {.max_age = hours(997)}, now()), ElementsAre(1, 2, 3));
}

TEST(Retention, SpaceForAnIncomingSnapshot) {
  StoreNow situation = now();
  situation.incoming = IncomingSnapshot{.trigger = "spike", .disk_bytes = 250};
  const auto snapshots = row(1, 5);
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 500}, situation), ElementsAre(1, 2, 3));
  EXPECT_THAT(gone(snapshots, {.max_files = 5}, situation), ElementsAre(1));
  situation.free_bytes = 300;
  EXPECT_THAT(gone(snapshots, {.keep_free_bytes = 200}, situation), ElementsAre(1, 2));
  // The new snapshot may fail: the last existing one is not deleted before it is written.
  situation.incoming->disk_bytes = 500;
  EXPECT_THAT(gone(snapshots, {.max_use_bytes = 500}, situation), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(plan_vacuum(snapshots, {.max_use_bytes = 500}, situation).still_over, VacuumReason::max_use);
  // With space for two, the first and the new one are better than the last two.
  situation.incoming->disk_bytes = kEach;
  EXPECT_THAT(gone(row(1, 2), {.max_files = 2, .keep_first = 1, .keep_last = 1}, situation), ElementsAre(2));
}

TEST(Retention, MissingOnesGoFirstAndOnlyACleanerTakesThemAll) {
  auto snapshots = row(1, 5);
  snapshots[2].data = snapshots[4].data = false;
  snapshots[2].disk_bytes = snapshots[4].disk_bytes = 1;
  EXPECT_THAT(gone(snapshots, {.max_files = 4, .keep_first = 1, .keep_last = 1}, now()), ElementsAre(2));
  EXPECT_THAT(gone(snapshots, {.max_files = 3, .keep_first = 2, .keep_last = 2}, now()), ElementsAre(3, 5));
  EXPECT_THAT(gone(snapshots, {.max_files = 9}, now()), IsEmpty());
  StoreNow cleaner = now();
  cleaner.drop_missing = true;
  EXPECT_THAT(deletions(snapshots, plan_vacuum(snapshots, {.max_files = 9}, cleaner)),
              ElementsAre("3 missing", "5 missing"));
  // Its data file may be about to get its final name.
  cleaner.writing = true;
  EXPECT_THAT(gone(snapshots, {.max_files = 9}, cleaner), ElementsAre(3));
  snapshots[2].pinned = true;
  EXPECT_THAT(gone(snapshots, {.max_files = 9}, cleaner), IsEmpty());
  // 4 is the newest complete one.
  EXPECT_THAT(gone(snapshots, {.max_files = 1}, now()), ElementsAre(1, 2, 5));
}

}  // namespace
}  // namespace flight
