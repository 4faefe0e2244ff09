// SPDX-License-Identifier: Apache-2.0
// From a reader's pieces to a round: the intake, the filters, the blocks, and the holes between them.
#include "libcore/stream/round.hpp"

#include <gtest/gtest.h>

#include "libcore/stream/ring_intake.hpp"
#include "libcore/stream/round_builder.hpp"
#include "tests/unit/perf/copied_sample.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::counted_from;
using test::kMadeId;
using test::made_sample;
using test::numbers_of;

constexpr std::size_t kRoundPoolBytes = 64U << 10U;
constexpr EventTime kBeginNs = 500;

RecordBuffer samples(EventTime begin_ns, std::uint64_t first, std::uint64_t last) {
  RecordBuffer out;
  for (std::uint64_t number = first; number <= last; ++number) {
    const RecordBuffer record = made_sample(begin_ns + number, number);
    out.insert(out.end(), record.begin(), record.end());
  }
  return out;
}

// A worker's chain for two rings, without its thread.
class RoundTest : public testing::Test {
 protected:
  RoundTest() { chunks_.begin(); }

  std::vector<RingRound> end_round() {
    chain_.first().end_of_round();
    for (std::size_t i = 0; i < 2; ++i) {
      const auto counts = (i == 0 ? intake_ : other_).take_counts();
      builder_.count(i, counts.events, counts.bytes, counts.foreign);
    }
    return builder_.take();
  }

  std::unique_ptr<BlockPool> pool_ = BlockPool::create(kRoundPoolBytes).value();
  Chunks chunks_ = Chunks::create(1).value();
  EventTable events_ = test::made_table();
  RoundBuilder builder_{chunks_, *pool_, {{.ring = 3, .cpu = 1}, {.ring = 5, .cpu = 2}}};
  FilterChain chain_{{[](StreamSink& next) { return std::make_unique<IdentityFilter>(next); }}, builder_};
  RingIntake intake_{0, events_, chain_.first(), kBeginNs, 0};
  RingIntake other_{1, events_, chain_.first(), kBeginNs, 0};
};

TEST_F(RoundTest, RecordsOfEachRingComeOutInOrderAndCounted) {
  intake_.records(samples(1'000, 1, 2'000));
  other_.records(samples(1'000, 1, 10));
  intake_.records(samples(1'000, 2'001, 2'010));
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 2U);
  EXPECT_EQ(rings[0].ring, 3U);
  EXPECT_EQ(rings[0].cpu, 1);
  EXPECT_EQ(rings[1].ring, 5U);
  EXPECT_EQ(numbers_of(rings[0]), counted_from(1, 2'010));
  EXPECT_EQ(numbers_of(rings[1]), counted_from(1, 10));
  EXPECT_EQ(rings[0].events, 2'010U);
  EXPECT_EQ(rings[0].bytes, 2'010U * 48);
  EXPECT_EQ(rings[0].blocks.front().oldest_ns, 1'001U);
  EXPECT_EQ(rings[0].blocks.back().newest_ns, 3'010U);
  EXPECT_TRUE(rings[0].holes.empty());
  EXPECT_TRUE(end_round().empty()) << "a round without news has no ring";
}

TEST_F(RoundTest, WhatPerfCouldNotReadIsDroppedAndCounted) {
  RecordBuffer records = samples(1'000, 1, 5);
  const RecordBuffer foreign = made_sample(1'006, 6, 0, kMadeId + 8);  // the same place of the intake's cache
  records.insert(records.end(), foreign.begin(), foreign.end());
  RecordBuffer newer = made_sample(1'007, 7);
  const std::uint32_t type = PERF_RECORD_AUX_OUTPUT_HW_ID + 1;
  std::memcpy(newer.data(), &type, sizeof type);
  records.insert(records.end(), newer.begin(), newer.end());
  append_lost(records, {.id = kMadeId, .lost = 9}, {.time_ns = 1'008, .id = kMadeId});
  const RecordBuffer rest = samples(1'000, 9, 12);
  records.insert(records.end(), rest.begin(), rest.end());
  intake_.records(records);
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(numbers_of(rings[0]), (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 9, 10, 11, 12}));
  EXPECT_EQ(rings[0].events, 9U) << "a LOST record is no sample";
  EXPECT_EQ(rings[0].foreign, 2U);
  ASSERT_EQ(rings[0].blocks.size(), 2U) << "a hole is between them";
  EXPECT_EQ(rings[0].blocks[0].expanded_bytes, 5 * 48U + 56) << "a LOST record is never dropped";
  EXPECT_EQ(rings[0].blocks[1].expanded_bytes, 4 * 48U);
}

// As when a CPU returns: its new events write into the ring before anybody knows them.
TEST_F(RoundTest, RecordsOfANewerEventAreLeftForSomeTime) {
  constexpr EventTime kNowNs = 100'000'000'000, kRecordsNs = 99'000'000'000;
  RecordBuffer records = samples(kRecordsNs, 1, 5);
  const RecordBuffer newer = made_sample(kRecordsNs + 6, 6, 0, kMadeId + 8);
  const RecordBuffer rest = samples(kRecordsNs, 7, 9);
  records.insert(records.end(), newer.begin(), newer.end());
  records.insert(records.end(), rest.begin(), rest.end());
  const auto left = std::span<const std::byte>(records).last(4 * 48);
  intake_.begin(0, kNowNs);
  intake_.records(records);
  EXPECT_EQ(intake_.left(), left.size());
  EXPECT_EQ(intake_.left_from_ns(), kRecordsNs + 5 - kSettleNs);
  auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(numbers_of(rings[0]), counted_from(1, 5));
  EXPECT_EQ(rings[0].foreign, 0U);

  intake_.begin(0, kNowNs + RingIntake::kKnownWithinNs - 1);
  intake_.records(left);
  EXPECT_EQ(intake_.left(), left.size());
  EXPECT_EQ(intake_.left_from_ns(), kRecordsNs + 5 - kSettleNs) << "as before";
  EXPECT_TRUE(end_round().empty());

  intake_.begin(0, kNowNs + RingIntake::kKnownWithinNs);
  intake_.records(left);
  EXPECT_EQ(intake_.left(), 0U) << "nobody will know it";
  EXPECT_EQ(intake_.left_from_ns(), UINT64_MAX);
  rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(numbers_of(rings[0]), counted_from(7, 9));
  EXPECT_EQ(rings[0].foreign, 1U);

  intake_.begin(0, kNowNs + 2 * RingIntake::kKnownWithinNs);
  intake_.records(newer);
  EXPECT_EQ(intake_.left(), 0U) << "only once";
}

// Of an event that was closed before this recording, or at its end.
TEST_F(RoundTest, OtherRecordsWithAnUnknownIdAreDroppedAtOnce) {
  intake_.begin(0, 1'000);
  intake_.records(made_sample(1'001, 1, 0, kMadeId - 1));
  EXPECT_EQ(intake_.left(), 0U);
  intake_.begin(0);
  intake_.records(made_sample(1'002, 2, 0, kMadeId + 1));
  EXPECT_EQ(intake_.left(), 0U);
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(rings[0].foreign, 2U);
  EXPECT_TRUE(rings[0].blocks.empty());
}

// As after a snapshot that paused the ring: the first record behind it, and then LOST.
TEST_F(RoundTest, APauseLiesBeforeTheRecordThatLostFollows) {
  RecordBuffer records = samples(1'000, 1, 5);
  const RecordBuffer first = made_sample(1'009, 9);
  records.insert(records.end(), first.begin(), first.end());
  append_lost(records, {.id = kMadeId, .lost = 3}, {.time_ns = 1'009, .id = kMadeId});
  const RecordBuffer rest = samples(1'000, 10, 12);
  records.insert(records.end(), rest.begin(), rest.end());
  intake_.records(records);
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(numbers_of(rings[0]), (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 9, 10, 11, 12}));
  ASSERT_EQ(rings[0].holes.size(), 1U);
  const Hole& hole = rings[0].holes[0];
  EXPECT_EQ(hole.cause, HoleCause::paused);
  EXPECT_EQ(hole.events, 3U);
  EXPECT_FALSE(hole.estimated);
  EXPECT_EQ(hole.from_ns, 1'005U);
  EXPECT_EQ(hole.until_ns, 1'009U);
}

TEST_F(RoundTest, WhatWasOverwrittenLiesBetweenTheRecordsBesideIt) {
  intake_.records(samples(1'000, 1, 100));
  intake_.hole(48 * 50);
  intake_.hole(48 * 10);
  intake_.records(samples(1'000, 161, 170));
  intake_.hole(480);
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  ASSERT_EQ(rings[0].holes.size(), 1U) << "the second one is known with the next record";
  const Hole& hole = rings[0].holes[0];
  EXPECT_EQ(hole.cause, HoleCause::overwritten);
  EXPECT_EQ(hole.bytes, 48U * 60);
  EXPECT_EQ(hole.events, 60U);
  EXPECT_TRUE(hole.estimated);
  EXPECT_EQ(hole.from_ns, 1'100U);
  EXPECT_EQ(hole.until_ns, 1'161U);
  EXPECT_EQ(rings[0].blocks.size(), 2U);

  intake_.end(9'000);
  const auto last = end_round();
  ASSERT_EQ(last.size(), 1U);
  ASSERT_EQ(last[0].holes.size(), 1U);
  EXPECT_EQ(last[0].holes[0].events, 10U);
  EXPECT_EQ(last[0].holes[0].from_ns, 1'170U);
  EXPECT_EQ(last[0].holes[0].until_ns, 9'000U);
}

TEST_F(RoundTest, AHoleBeforeTheFirstRecordBeginsWithTheRecording) {
  intake_.hole(4'800);
  intake_.records(samples(1'000, 1, 10));
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  ASSERT_EQ(rings[0].holes.size(), 1U);
  EXPECT_EQ(rings[0].holes[0].from_ns, kBeginNs);
  EXPECT_EQ(rings[0].holes[0].until_ns, 1'001U);
  EXPECT_EQ(rings[0].holes[0].events, 100U);
}

TEST_F(RoundTest, RecordsBelowTheFloorAreAHole) {
  intake_.begin(1'051);
  intake_.records(samples(1'000, 1, 100));
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(numbers_of(rings[0]), counted_from(51, 100));
  ASSERT_EQ(rings[0].holes.size(), 1U);
  EXPECT_EQ(rings[0].holes[0].cause, HoleCause::late);
  EXPECT_EQ(rings[0].holes[0].events, 50U);
  EXPECT_EQ(rings[0].holes[0].bytes, 50U * 48);
  EXPECT_FALSE(rings[0].holes[0].estimated);
  EXPECT_EQ(rings[0].holes[0].from_ns, 1'001U);
  EXPECT_EQ(rings[0].holes[0].until_ns, 1'050U);
  EXPECT_EQ(rings[0].events, 100U) << "read, and not in the file";
}

// The first record behind what was overwritten is a late one, alone or with others.
TEST_F(RoundTest, WhatWasOverwrittenBeforeLateRecordsEndsThere) {
  for (const bool others : {false, true}) {
    RingIntake intake(0, events_, chain_.first(), kBeginNs, 0);
    intake.records(samples(1'000, 1, 100));
    intake.begin(1'121);
    intake.hole(480);
    intake.records(samples(1'000, 111, others ? 130 : 120));
    intake.begin(0);
    intake.records(samples(1'000, 131, 140));
    const auto rings = end_round();
    ASSERT_EQ(rings.size(), 1U);
    EXPECT_EQ(numbers_of(rings[0]).size(), others ? 120U : 110U);
    ASSERT_EQ(rings[0].holes.size(), 2U);
    EXPECT_EQ(rings[0].holes[0].cause, HoleCause::overwritten);
    EXPECT_EQ(rings[0].holes[0].events, 10U);
    EXPECT_EQ(rings[0].holes[0].from_ns, 1'100U);
    EXPECT_EQ(rings[0].holes[0].until_ns, 1'111U);
    EXPECT_EQ(rings[0].holes[1].cause, HoleCause::late);
    EXPECT_EQ(rings[0].holes[1].from_ns, 1'111U);
    EXPECT_EQ(rings[0].holes[1].until_ns, 1'120U);
  }
}

TEST_F(RoundTest, WhatIsOlderThanWantedIsNoHole) {
  RingIntake wanted(0, events_, chain_.first(), kBeginNs, 1'091);
  wanted.records(samples(1'000, 1, 100));
  const auto counts = wanted.take_counts();
  EXPECT_EQ(counts.events, 10U);
  const auto rings = end_round();
  ASSERT_EQ(rings.size(), 1U);
  EXPECT_EQ(numbers_of(rings[0]), counted_from(91, 100));
  EXPECT_TRUE(rings[0].holes.empty());
}

// A rate of 100 records in 99 ns, and 201 ns before them.
TEST_F(RoundTest, WhatTheRingHadOverwrittenSinceThenIsAHoleIfAllIsWanted) {
  constexpr EventTime kSinceNs = 900;
  constexpr std::uint64_t kBytes = 100 * 48 * 201 / 99;
  for (const std::uint64_t known_bytes : {0U, 4'800U}) {
    RingIntake intake(0, events_, chain_.first(), kSinceNs, kSinceNs, true);
    intake.past_is_cut(1U << 30U);
    if (known_bytes != 0) intake.hole(known_bytes);
    intake.records(samples(1'000, 101, 200));
    intake.records(samples(1'000, 201, 300));
    const auto rings = end_round();
    ASSERT_EQ(rings.size(), 1U);
    EXPECT_EQ(numbers_of(rings[0]), counted_from(101, 300));
    ASSERT_EQ(rings[0].holes.size(), 1U);
    const Hole& hole = rings[0].holes[0];
    EXPECT_EQ(hole.cause, HoleCause::overwritten);
    EXPECT_EQ(hole.bytes, kBytes);
    EXPECT_EQ(hole.events, 203U);
    EXPECT_TRUE(hole.estimated);
    EXPECT_EQ(hole.from_ns, kSinceNs);
    EXPECT_EQ(hole.until_ns, 1'101U);
  }
  RingIntake young(0, events_, chain_.first(), kSinceNs, kSinceNs, true);
  young.past_is_cut(480);
  young.records(samples(1'000, 101, 200));
  const auto rings = end_round();
  ASSERT_EQ(rings.at(0).holes.size(), 1U);
  EXPECT_EQ(rings[0].holes[0].bytes, 480U) << "no more than was ever written";
  EXPECT_EQ(rings[0].holes[0].events, 10U);
}

TEST_F(RoundTest, WhatTheRingHadOverwrittenBeforeThatIsNoHole) {
  RingIntake reaches_back(0, events_, chain_.first(), kBeginNs, 1'101, true);
  RingIntake what_there_is(1, events_, chain_.first(), kBeginNs, 900);
  RingIntake not_cut(1, events_, chain_.first(), kBeginNs, 900, true);
  reaches_back.past_is_cut(1U << 30U);
  reaches_back.records(samples(1'000, 101, 200));
  what_there_is.past_is_cut(1U << 30U);
  what_there_is.records(samples(1'000, 101, 200));
  not_cut.records(samples(1'000, 201, 300));
  for (const RingRound& ring : end_round()) EXPECT_TRUE(ring.holes.empty()) << ring.ring;
}

// 16 pages: as many small blocks. What comes then is missing, exactly counted, until blocks are given back.
TEST_F(RoundTest, WithoutAFreeBlockRecordsAreAHole) {
  std::vector<RingRound> kept;
  std::uint64_t number = 0;
  for (int round = 0; round < 40; ++round) {
    intake_.records(samples(1'000, number + 1, number + 10));
    number += 10;
    append_rings(kept, end_round());
    EXPECT_EQ(pool_->free_bytes(), kRoundPoolBytes - kept.at(0).blocks.size() * BlockPool::kPageBytes);
  }
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].blocks.size(), kRoundPoolBytes / BlockPool::kPageBytes);
  EXPECT_EQ(numbers_of(kept[0]), counted_from(1, 160));
  ASSERT_EQ(kept[0].holes.size(), 1U) << "one hole, however many rounds it lasts";
  EXPECT_EQ(kept[0].holes[0].cause, HoleCause::disk);
  EXPECT_EQ(kept[0].holes[0].events, 240U);
  EXPECT_EQ(kept[0].holes[0].bytes, 240U * 48);
  EXPECT_EQ(kept[0].holes[0].from_ns, 1'161U);
  EXPECT_EQ(kept[0].holes[0].until_ns, 1'400U);
  EXPECT_EQ(kept[0].events, 400U);
  kept.clear();
  intake_.records(samples(1'000, 401, 410));
  const auto after = end_round();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(numbers_of(after[0]), counted_from(401, 410));
}

TEST_F(RoundTest, BlocksBelowALaterFloorAreGivenUp) {
  intake_.records(samples(1'000, 1, 10));
  auto first = end_round();
  intake_.records(samples(1'000, 11, 20));
  append_rings(first, end_round());
  intake_.records(samples(1'000, 21, 30));
  append_rings(first, end_round());
  ASSERT_EQ(first.size(), 1U);
  RingRound& ring = first[0];
  ring.drop_older(1'001);
  EXPECT_EQ(ring.blocks.size(), 3U) << "nothing is older";
  ring.drop_older(1'012);
  ASSERT_EQ(ring.blocks.size(), 1U);
  EXPECT_EQ(numbers_of(ring), counted_from(21, 30));
  ASSERT_EQ(ring.holes.size(), 1U);
  EXPECT_EQ(ring.holes[0].cause, HoleCause::late);
  EXPECT_EQ(ring.holes[0].events, 20U);
  EXPECT_EQ(ring.holes[0].from_ns, 1'001U);
  EXPECT_EQ(ring.holes[0].until_ns, 1'020U);
}

TEST(RingRoundTest, HolesAreJoinedOnlyWithoutABlockBetweenThem) {
  const auto pool = BlockPool::create(1U << 20U).value();
  RingRound ring;
  const auto hole = [](HoleCause cause, EventTime from_ns, EventTime until_ns) {
    return Hole{.cause = cause, .bytes = 8, .events = 1, .estimated = false, .from_ns = from_ns, .until_ns = until_ns};
  };
  ring.add_hole(hole(HoleCause::disk, 10, 20));
  ring.add_hole(hole(HoleCause::disk, 25, 30));
  ring.add_hole(hole(HoleCause::paused, 30, 40));
  ring.add_hole(hole(HoleCause::disk, 45, 50));
  ASSERT_EQ(ring.holes.size(), 2U);
  EXPECT_EQ(ring.holes[0].events, 3U);
  EXPECT_EQ(ring.holes[0].until_ns, 50U);
  auto bytes = pool->keep(made_sample(60, 1), {});
  ASSERT_TRUE(bytes);
  ring.blocks.push_back(
      {.bytes = std::move(*bytes), .expanded_bytes = 48, .events = 1, .oldest_ns = 60, .newest_ns = 60});
  ring.add_hole(hole(HoleCause::disk, 70, 80));
  EXPECT_EQ(ring.holes.size(), 3U);
  for (EventTime time_ns = 100; time_ns < 100'000; time_ns += 100) {
    auto more = pool->keep(made_sample(time_ns, 1), {});
    if (more)
      ring.blocks.push_back(
          {.bytes = std::move(*more), .expanded_bytes = 48, .events = 1, .oldest_ns = time_ns, .newest_ns = time_ns});
    ring.add_hole(hole(HoleCause::late, time_ns + 10, time_ns + 20));
  }
  EXPECT_LE(ring.holes.size(), RingRound::kMaxHoles + 4);
  std::uint64_t events = 0;
  for (const Hole& one : ring.holes) events += one.events;
  EXPECT_EQ(events, 3U + 1 + 1 + 999);
}

TEST(RoundOrderTest, AJoinedRoundHasTheOrderOfBoth) {
  Round first, second;
  first.rings.resize(1);
  first.rings[0].ring = 1;
  first.rings[0].cpu = 1;
  first.rings[0].events = 10;
  first.newest_ns = 100;
  second.rings.resize(2);
  second.rings[0].ring = 0;
  second.rings[1].ring = 1;
  second.rings[1].cpu = 1;
  second.rings[1].events = 5;
  second.newest_ns = 200;
  first.append(std::move(second));
  ASSERT_EQ(first.rings.size(), 2U);
  EXPECT_EQ(first.rings[0].ring, 0U);
  EXPECT_EQ(first.rings[1].events, 15U);
  EXPECT_EQ(first.newest_ns, 200U);
}

TEST(HoleCauseTest, EachHasItsWord) {
  for (const auto& [cause, word] : {std::pair{HoleCause::overwritten, "overwritten"},
                                    {HoleCause::disk, "disk"},
                                    {HoleCause::late, "late"},
                                    {HoleCause::paused, "paused"}})
    EXPECT_EQ(to_string(cause), word);
}

class NumberSink : public StreamSink {
 public:
  void records(std::size_t /*ring*/, const RecordRun& run) override { events += run.events; }
  void hole(std::size_t /*ring*/, const Hole& /*hole*/) override {}
  void end_of_round() override {}

  std::uint64_t events = 0;
};

// Files have such samples without the copies, so their sizes must be right.
TEST(RingIntakeTest, ADamagedCopyOfAStackIsForeign) {
  const EventTable events = test::copying_event();
  NumberSink last;
  RingIntake intake(0, events, last, kBeginNs, 0);
  RecordBuffer records;
  for (const std::uint64_t valid_bytes : {std::uint64_t{64}, std::uint64_t{65}, std::uint64_t{0}}) {
    const auto one = test::CopiedSample{.time_ns = 1'000, .valid_bytes = valid_bytes}.bytes();
    records.insert(records.end(), one.begin(), one.end());
  }
  intake.records(records);
  EXPECT_EQ(last.events, 2U);
  const auto counts = intake.take_counts();
  EXPECT_EQ(counts.events, 2U);
  EXPECT_EQ(counts.foreign, 1U);
}

}  // namespace
}  // namespace flight
