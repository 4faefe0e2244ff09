// SPDX-License-Identifier: Apache-2.0
// Workers on rings in memory, with a clock of the test's: what belongs to which round, and when one begins. The rings
// are written only while no worker looks at them.
#include "libcore/stream/stream_workers.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/files.hpp"
#include "libcore/stream/chunks.hpp"
#include "libcore/stream/ring_reader.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::begin_round;
using test::counted_from;
using test::Delivered;
using test::MadeRing;
using test::numbers_of;

constexpr EventTime kSecondNs = 1'000'000'000;
constexpr std::size_t kTestRingBytes = 1U << 18U;

// A door in a worker's chain: closed, the worker waits in its look.
class Door {
 public:
  void close() { open_ = false; }
  void open() {
    open_ = true;
    open_.notify_all();
  }
  void pass() {
    waiting_ = true;
    waiting_.notify_all();
    open_.wait(false);
    waiting_ = false;
    waiting_.notify_all();
  }
  void wait_until_used() const { waiting_.wait(false); }
  // The one that waits passes; the next one waits again.
  void let_one_pass() {
    open();
    waiting_.wait(true);
    close();
  }

 private:
  std::atomic<bool> open_ = true, waiting_ = false;
};

class DoorFilter : public StreamSink {
 public:
  DoorFilter(StreamSink& next, Door& door) : next_(next), door_(door) {}
  void records(std::size_t ring, const RecordRun& run) override {
    door_.pass();
    next_.records(ring, run);
  }
  void hole(std::size_t ring, const Hole& hole) override { next_.hole(ring, hole); }
  void end_of_round() override { next_.end_of_round(); }

 private:
  StreamSink& next_;
  Door& door_;
};

// Two rings on CPU 0 and 1, and a worker for each, or one for both.
class StreamWorkersTest : public testing::Test {
 protected:
  void start(std::vector<PlannedWorker> plan, std::size_t pool_bytes = 4U << 20U,
             std::vector<MakeFilter> filters = {}) {
    pool_ = BlockPool::create(pool_bytes).value();
    StreamSettings settings;
    settings.plan = std::move(plan);
    settings.filters = std::move(filters);
    settings.clock = [this] { return now_.load(); };
    auto workers = StreamWorkers::start({one_.ring(), two_.ring()}, test::made_table(), std::move(settings), *pool_,
                                        delivered_.receive());
    ASSERT_TRUE(workers) << workers.error().what;
    workers_ = std::move(*workers);
  }
  static std::vector<PlannedWorker> one_each() {
    return {{.serves = {0}, .runs_on = {}}, {.serves = {1}, .runs_on = {}}};
  }
  // Takes the rounds that have come, after so many have.
  std::vector<Round> take(std::size_t count) {
    EXPECT_TRUE(delivered_.wait_for(count));
    return delivered_.take();
  }
  // One round with what is in the rings now, 1.1 s after the last one.
  std::vector<Round> next_round() {
    now_ += kSecondNs + kSecondNs / 10;
    EXPECT_TRUE(begin_round(*workers_, now_));
    return take(1);
  }

  // Until only the worker at the door has not finished its round.
  void wait_for_the_other() const {
    door_.wait_until_used();
    const auto end = std::chrono::steady_clock::now() + test::kPatience;
    while (workers_->waiting() != 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    ASSERT_EQ(workers_->waiting(), 1U);
  }
  // Worker 1 has the door.
  std::vector<MakeFilter> with_door() {
    return {[this](StreamSink& next) -> std::unique_ptr<StreamSink> {
      if (chains_++ == 0) return std::make_unique<IdentityFilter>(next);
      return std::make_unique<DoorFilter>(next, door_);
    }};
  }

  MadeRing one_{0, kTestRingBytes}, two_{1, kTestRingBytes};
  std::atomic<EventTime> now_ = 100 * kSecondNs;
  Door door_;
  std::size_t chains_ = 0;
  std::unique_ptr<BlockPool> pool_;  // outlives the rounds
  Delivered delivered_;
  std::unique_ptr<StreamWorkers> workers_;
};

// As at a reload: the workers end, and others read the same rings.
TEST_F(StreamWorkersTest, TheNextWorkersGoOnWhereTheFirstOnesEnded) {
  start(one_each());
  one_.write_some(now_, 300);
  two_.write_some(now_, 40);
  std::vector<Round> rounds = next_round();
  one_.write_some(now_, 7);
  workers_->finish();
  for (Round& round : delivered_.take()) rounds.push_back(std::move(round));
  const std::vector<std::uint64_t> read_to = workers_->read_to();
  ASSERT_EQ(read_to.size(), 2U);
  workers_.reset();
  one_.write_some(now_, 50);

  StreamSettings settings;
  settings.clock = [this] { return now_.load(); };
  std::vector<StreamRing> rings{one_.ring(), two_.ring()};
  for (std::size_t i = 0; i < rings.size(); ++i) rings[i].read_to = read_to[i];
  auto next =
      StreamWorkers::start(std::move(rings), test::made_table(), std::move(settings), *pool_, delivered_.receive());
  ASSERT_TRUE(next) << next.error().what;
  workers_ = std::move(*next);
  two_.write_some(now_, 5);
  for (Round& round : next_round()) rounds.push_back(std::move(round));
  workers_->finish();
  auto numbers = numbers_of(rounds);
  EXPECT_EQ(numbers[0], counted_from(1, 357));
  EXPECT_EQ(numbers[1], counted_from(1, 45));
}

// As when a CPU returns: its new events write into the ring that the workers read, and only the next ones know them.
TEST_F(StreamWorkersTest, RecordsOfNewerEventsAreForTheNextWorkers) {
  constexpr std::uint64_t kNewerId = test::kMadeId + 1;
  start(one_each());
  one_.write_some(now_, 100);
  two_.write_some(now_, 40);
  std::vector<Round> rounds = next_round();
  const EventTime newer_ns = now_;
  one_.write_some(newer_ns, 50, kNewerId);
  two_.write_some(newer_ns, 10);
  for (Round& round : next_round()) rounds.push_back(std::move(round));
  EXPECT_EQ(numbers_of(rounds)[0], counted_from(1, 100));
  workers_->finish(/*others_follow=*/true);
  for (Round& round : delivered_.take()) rounds.push_back(std::move(round));
  EXPECT_EQ(workers_->totals().foreign, 0U);
  EXPECT_LE(workers_->left_from_ns(), newer_ns);
  EXPECT_GT(workers_->left_from_ns(), newer_ns - kSecondNs);
  const std::vector<std::uint64_t> read_to = workers_->read_to();
  ASSERT_EQ(read_to.size(), 2U);
  workers_.reset();

  EventTable both = test::made_table();
  both.add_id(kNewerId, 0);
  StreamSettings settings;
  settings.clock = [this] { return now_.load(); };
  std::vector<StreamRing> rings{one_.ring(), two_.ring()};
  for (std::size_t i = 0; i < rings.size(); ++i) rings[i].read_to = read_to[i];
  auto next = StreamWorkers::start(std::move(rings), both, std::move(settings), *pool_, delivered_.receive());
  ASSERT_TRUE(next) << next.error().what;
  workers_ = std::move(*next);
  one_.write_some(now_, 5, kNewerId);
  for (Round& round : next_round()) rounds.push_back(std::move(round));
  workers_->finish();
  auto numbers = numbers_of(rounds);
  EXPECT_EQ(numbers[0], counted_from(1, 155));
  EXPECT_EQ(numbers[1], counted_from(1, 50));
  EXPECT_EQ(workers_->left_from_ns(), UINT64_MAX);
}

TEST_F(StreamWorkersTest, AtTheEndRecordsOfNewerEventsAreCounted) {
  start(one_each());
  one_.write_some(now_, 5, test::kMadeId + 1);
  workers_->finish();
  EXPECT_EQ(workers_->totals().foreign, 5U);
  EXPECT_EQ(workers_->totals().events, 0U);
  EXPECT_EQ(workers_->left_from_ns(), UINT64_MAX);
}

TEST_F(StreamWorkersTest, EachRecordIsInOneRound) {
  for (const std::size_t count : {1U, 2U, 3U}) {
    start(std::vector<PlannedWorker>(count));
    const std::uint64_t before_one = one_.number(), before_two = two_.number();
    std::vector<Round> rounds;
    for (int i = 0; i < 20; ++i) {
      one_.write_some(now_, 300);
      if (i % 3 == 0) two_.write_some(now_, 40);
      for (Round& round : next_round()) rounds.push_back(std::move(round));
    }
    workers_->finish();
    ASSERT_EQ(rounds.size(), 20U);
    for (std::size_t i = 0; i < rounds.size(); ++i) EXPECT_EQ(rounds[i].number, i);
    const auto numbers = numbers_of(rounds);
    // The first one of a next recording has what the ring still holds of the last one.
    EXPECT_EQ(numbers.at(0), counted_from(count == 1 ? before_one + 1 : numbers.at(0).front(), one_.number()));
    EXPECT_EQ(numbers.at(1), counted_from(count == 1 ? before_two + 1 : numbers.at(1).front(), two_.number()));
    const StreamTotals totals = workers_->totals();
    EXPECT_EQ(totals.events, numbers.at(0).size() + numbers.at(1).size());
    EXPECT_EQ(totals.rounds, 20U);
    EXPECT_EQ(totals.lost_events, 0U);
    EXPECT_EQ(totals.left, 0U);
    rounds.clear();
    workers_.reset();
    static_cast<void>(delivered_.take());
  }
}

TEST_F(StreamWorkersTest, ARoundBeginsWhenItIsDue) {
  start(one_each());
  const auto warm = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < warm) ASSERT_FALSE(workers_->tick(now_)) << "nothing was written";
  one_.write_some(now_, 10);
  ASSERT_TRUE(begin_round(*workers_, now_)) << "the first one at once";
  EXPECT_EQ(take(1).at(0).rings.size(), 1U);
  const EventTime closed_ns = now_;
  now_ = closed_ns + 5 * kSecondNs;
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(workers_->tick(now_)) << "nothing is new";

  now_ = closed_ns + kSecondNs / 2;
  two_.write_some(now_, 10);
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(workers_->tick(now_)) << "news, and no second has passed";
  now_ = closed_ns + kSecondNs - 1'000'000;
  ASSERT_TRUE(begin_round(*workers_, now_)) << "a tick of one second, a little early";
  EXPECT_EQ(take(1).at(0).rings.at(0).cpu, 1);

  const EventTime again_ns = now_;
  one_.write_some(now_, kTestRingBytes / 48 / 4 + 1);
  now_ = again_ns + StreamWorkers::kRoundGap - 1;
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(workers_->tick(now_)) << "records may be late by 50 ms";
  now_ = again_ns + StreamWorkers::kRoundGap;
  ASSERT_TRUE(begin_round(*workers_, now_)) << "a ring has turned by a quarter";
  EXPECT_EQ(take(1).at(0).rings.at(0).events, kTestRingBytes / 48 / 4 + 1);
}

// Counts how often its worker has looked at its rings.
class LookFilter : public StreamSink {
 public:
  LookFilter(StreamSink& next, std::atomic<int>& looks) : next_(next), looks_(looks) {}
  void records(std::size_t ring, const RecordRun& run) override { next_.records(ring, run); }
  void hole(std::size_t ring, const Hole& hole) override { next_.hole(ring, hole); }
  void end_of_round() override {
    ++looks_;
    next_.end_of_round();
  }

 private:
  StreamSink& next_;
  std::atomic<int>& looks_;
};

// An hour of the recorder thread's notes of the heads, one each second, on an idle machine.
TEST_F(StreamWorkersTest, NothingIsReadWhileNothingIsRecorded) {
  std::atomic<int> looks = 0;
  start(one_each(), 4U << 20U, {[&](StreamSink& next) { return std::make_unique<LookFilter>(next, looks); }});
  one_.write_some(now_, 10);
  ASSERT_EQ(next_round().size(), 1U);
  EXPECT_EQ(looks, 2) << "one of each worker";
  for (int second = 0; second < 3600; ++second) {
    now_ += kSecondNs;
    ASSERT_FALSE(workers_->tick(now_)) << "after " << second << " s";
  }
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(workers_->totals().rounds, 1U);
  EXPECT_TRUE(delivered_.take().empty());
  two_.write_some(now_, 10);
  ASSERT_TRUE(begin_round(*workers_, now_)) << "the next record is read at once";
  EXPECT_EQ(take(1).size(), 1U);
  EXPECT_EQ(looks, 4);
  workers_->finish();
  EXPECT_EQ(looks, 6) << "the last round";
}

// Worker 1 waits at the door. The rounds' numbers: 0 and 1 with both, 2 without it.
TEST_F(StreamWorkersTest, AWorkerThatIsLateLeavesTheRoundAndBringsItsBlocksToTheNext) {
  start(one_each(), 4U << 20U, with_door());
  for (const EventTime at : {EventTime{1'000}, EventTime{2'000}}) {
    one_.write_some(at, 10);
    two_.write_some(at, 10);
    const auto rounds = next_round();
    ASSERT_EQ(rounds.at(0).rings.size(), 2U);
  }
  door_.close();
  one_.write_some(3'000, 10);
  two_.write_some(3'000, 10);
  now_ += 2 * kSecondNs;
  const EventTime begun_ns = now_;
  ASSERT_TRUE(begin_round(*workers_, begun_ns));
  wait_for_the_other();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(workers_->tick(begun_ns + StreamWorkers::kLateAfter - 1));
  EXPECT_TRUE(delivered_.take().empty()) << "the others wait for it";

  now_ = begun_ns + StreamWorkers::kLateAfter;
  while (workers_->totals().rounds < 3)
    EXPECT_FALSE(workers_->tick(now_)) << "the round is closed, and 50 ms come first";
  const auto without = take(1);
  ASSERT_EQ(without.at(0).rings.size(), 1U);
  EXPECT_EQ(without.at(0).number, 2U);
  EXPECT_EQ(without.at(0).rings[0].cpu, 0);
  EXPECT_EQ(workers_->totals().left, 1U);

  door_.open();
  std::vector<std::uint64_t> numbers;
  while (numbers.empty()) {  // until the worker is idle, there is nothing new
    now_ += kSecondNs / 10;
    if (!workers_->tick(now_)) continue;
    for (const Round& round : take(1)) {
      for (const RingRound& ring : round.rings) {
        EXPECT_EQ(ring.cpu, 1);
        EXPECT_TRUE(ring.holes.empty());
        numbers = numbers_of(ring);
      }
      EXPECT_EQ(round.newest_ns, 3'009U);
    }
  }
  EXPECT_EQ(numbers, counted_from(21, 30));
  EXPECT_FALSE(delivered_.came_from_this_thread()) << "tick() would wait for the sink";
}

// All that the rings hold takes longer to read than what is new in them.
TEST_F(StreamWorkersTest, AWorkerHasMoreTimeForTheHeldPast) {
  start(one_each(), 4U << 20U, with_door());
  door_.close();
  one_.write_some(1'000, 10);
  two_.write_some(1'000, 10);
  const EventTime begun_ns = now_;
  ASSERT_TRUE(begin_round(*workers_, begun_ns));
  wait_for_the_other();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(workers_->tick(begun_ns + StreamWorkers::kFirstLateAfter - 1));
  EXPECT_TRUE(delivered_.take().empty()) << "the other one waits for it";

  now_ = begun_ns + StreamWorkers::kFirstLateAfter;
  while (workers_->totals().rounds < 1) EXPECT_FALSE(workers_->tick(now_));
  const auto past = take(1);
  EXPECT_EQ(past.at(0).number, 0U);
  ASSERT_EQ(past.at(0).rings.size(), 1U);
  EXPECT_EQ(past.at(0).rings[0].cpu, 0);
  EXPECT_EQ(workers_->totals().left, 1U);
  door_.open();
}

// Worker 1 leaves each round. Worker 0 has nothing, so a round begins only when worker 1 is idle.
TEST_F(StreamWorkersTest, AWorkerThatIsLateInEachRoundDelivers) {
  start(one_each(), 4U << 20U, with_door());
  door_.close();
  two_.write_some(1'000, 10);
  for (std::uint64_t i = 0; i < 3; ++i) {
    now_ += 2 * kSecondNs;
    ASSERT_TRUE(begin_round(*workers_, now_));
    wait_for_the_other();
    now_ += StreamWorkers::kFirstLateAfter;
    while (workers_->totals().left == i) EXPECT_FALSE(workers_->tick(now_));
    two_.write_some(2'000 + 1'000 * i, 10);
    door_.let_one_pass();
  }
  auto rounds = delivered_.take();
  EXPECT_EQ(numbers_of(rounds)[1], counted_from(1, 20)) << "each look comes with the close of the next round";
  door_.open();
  workers_->finish();
  for (Round& round : delivered_.take()) rounds.push_back(std::move(round));
  EXPECT_EQ(numbers_of(rounds)[1], counted_from(1, 40));
  EXPECT_EQ(workers_->totals().lost_events, 0U);
}

// Worker 0 has nothing, and closes a round without records. The rings of worker 1 are read one after the other, so the
// first record of the one is older than the last one that was read from the other.
TEST_F(StreamWorkersTest, ARoundWithoutRecordsDoesNotMoveTheFloor) {
  start({{.serves = {7}, .runs_on = {}}, {.serves = {0, 1}, .runs_on = {}}}, 4U << 20U, with_door());
  std::vector<Round> rounds;
  for (const EventTime at : {EventTime{1'000}, EventTime{2'000}}) {
    one_.write_some(at, 10);
    two_.write_some(at + 500, 10);
    for (Round& round : next_round()) rounds.push_back(std::move(round));
  }
  door_.close();
  one_.write_some(2'400, 10);
  now_ += 2 * kSecondNs;
  ASSERT_TRUE(begin_round(*workers_, now_));
  wait_for_the_other();
  now_ += StreamWorkers::kLateAfter;
  while (workers_->totals().left == 0) EXPECT_FALSE(workers_->tick(now_));
  EXPECT_TRUE(delivered_.take().empty());
  door_.open();
  for (Round& round : next_round()) rounds.push_back(std::move(round));
  EXPECT_EQ(numbers_of(rounds)[0], counted_from(1, 30));
  EXPECT_EQ(rounds.back().number, 3U);
  EXPECT_EQ(workers_->totals().lost_events, 0U);
}

TEST_F(StreamWorkersTest, WithoutAnotherWorkerTheRoundWaitsForTheLateOne) {
  start(std::vector<PlannedWorker>(1), 4U << 20U,
        {[this](StreamSink& next) { return std::make_unique<DoorFilter>(next, door_); }});
  door_.close();
  one_.write_some(1'000, 10);
  for (std::uint64_t i = 0; i < 3; ++i) {
    now_ += 2 * kSecondNs;
    ASSERT_TRUE(begin_round(*workers_, now_));
    door_.wait_until_used();
    now_ += StreamWorkers::kFirstLateAfter;
    for (int tick = 0; tick < 100; ++tick) EXPECT_FALSE(workers_->tick(now_));
    EXPECT_EQ(workers_->waiting(), 1U);
    one_.write_some(2'000 + 1'000 * i, 10);
    door_.let_one_pass();
    EXPECT_EQ(numbers_of(take(1))[0], counted_from(10 * i + 1, 10 * i + 10));
  }
  EXPECT_EQ(workers_->totals().left, 0U);
  EXPECT_FALSE(delivered_.came_from_this_thread());
  door_.open();
}

TEST_F(StreamWorkersTest, WhatComesTooLateForTheOrderIsAHole) {
  start(one_each(), 4U << 20U, with_door());
  one_.write_some(1'000, 10);
  two_.write_some(1'000, 10);
  EXPECT_EQ(next_round().at(0).rings.size(), 2U);
  door_.close();
  one_.write_some(2'000, 10);
  two_.write_some(2'000, 10);
  now_ += 2 * kSecondNs;
  ASSERT_TRUE(begin_round(*workers_, now_));
  wait_for_the_other();
  // Two rounds without it: what it reads is then older than the newest of the round before the last one.
  now_ += 2 * kSecondNs;
  while (workers_->totals().rounds < 2) static_cast<void>(workers_->tick(now_));
  static_cast<void>(take(1));
  one_.write_some(3'000, 10);
  EXPECT_EQ(next_round().at(0).rings.size(), 1U);
  one_.write_some(4'000, 10);
  door_.open();

  std::vector<Round> rounds;
  const auto has_two = [&] {
    for (const Round& round : rounds)
      for (const RingRound& ring : round.rings)
        if (ring.cpu == 1) return true;
    return false;
  };
  while (!has_two()) {
    now_ += kSecondNs;
    if (!workers_->tick(now_)) continue;
    for (Round& round : take(1)) rounds.push_back(std::move(round));
  }
  const RingRound& late = rounds.back().rings.back();
  EXPECT_EQ(late.cpu, 1);
  EXPECT_TRUE(late.blocks.empty());
  ASSERT_EQ(late.holes.size(), 1U);
  EXPECT_EQ(late.holes[0].cause, HoleCause::late);
  EXPECT_EQ(late.holes[0].events, 10U);
  EXPECT_EQ(late.holes[0].bytes, 480U);
  EXPECT_EQ(late.holes[0].from_ns, 2'000U);
  EXPECT_EQ(late.holes[0].until_ns, 2'009U);
  EXPECT_EQ(workers_->totals().lost_events, 10U);
}

TEST_F(StreamWorkersTest, FinishTakesALastRoundAndWhatALateWorkerHas) {
  start(one_each(), 4U << 20U, with_door());
  one_.write_some(1'000, 10);
  two_.write_some(1'000, 10);
  EXPECT_EQ(next_round().at(0).rings.size(), 2U);
  workers_->paused(1'500, 1'600);
  door_.close();
  one_.write_some(2'000, 10);
  two_.write_some(2'000, 10);
  std::thread opener([this] {
    door_.wait_until_used();
    std::this_thread::sleep_for(std::chrono::nanoseconds(StreamWorkers::kLateAfter) * 3 / 2);
    door_.open();
  });
  workers_->finish();
  opener.join();
  EXPECT_FALSE(workers_->tick(now_ + 100 * kSecondNs)) << "it has ended";
  const auto rounds = delivered_.take();
  const auto numbers = numbers_of(rounds);
  EXPECT_EQ(numbers.at(0), counted_from(11, 20));
  EXPECT_EQ(numbers.at(1), counted_from(11, 20));
  std::size_t pauses = 0;
  for (const Round& round : rounds)
    for (const RingRound& ring : round.rings)
      for (const Hole& hole : ring.holes) {
        EXPECT_EQ(hole.cause, HoleCause::paused);
        EXPECT_EQ(hole.from_ns, 1'500U);
        EXPECT_EQ(hole.until_ns, 1'600U);
        ++pauses;
      }
  EXPECT_EQ(pauses, 2U) << "one of each ring";
}

// Worker 1 is still in the look of an older round. Its rings are read once more: here one has turned meanwhile.
TEST_F(StreamWorkersTest, FinishReadsTheRingsOfALateWorkerUpToTheEnd) {
  start(one_each(), 4U << 20U, with_door());
  one_.write_some(1'000, 10);
  two_.write_some(1'000, 10);
  auto rounds = next_round();
  door_.close();
  one_.write_some(2'000, 10);
  two_.write_some(2'000, 10);
  now_ += 2 * kSecondNs;
  ASSERT_TRUE(begin_round(*workers_, now_));
  wait_for_the_other();
  now_ += StreamWorkers::kLateAfter;
  while (workers_->totals().left == 0) EXPECT_FALSE(workers_->tick(now_));
  one_.write_some(3'000, 10);
  two_.write_some(3'000, 3 * kTestRingBytes / 48);
  workers_->paused(3'100, 3'200);
  std::thread opener([this] {
    const auto end = std::chrono::steady_clock::now() + test::kPatience;
    while (workers_->waiting() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    door_.open();
  });
  workers_->finish();
  opener.join();
  for (Round& round : delivered_.take()) rounds.push_back(std::move(round));
  auto numbers = numbers_of(rounds);
  EXPECT_EQ(numbers[0], counted_from(1, 30));
  ASSERT_GT(numbers[1].size(), 20U);
  EXPECT_EQ(numbers[1].back(), two_.number());
  std::map<HoleCause, std::vector<Hole>> holes;
  for (const Round& round : rounds)
    for (const RingRound& ring : round.rings)
      for (const Hole& hole : ring.holes) holes[hole.cause].push_back(hole);
  EXPECT_EQ(holes[HoleCause::paused].size(), 2U) << "one of each ring";
  ASSERT_EQ(holes[HoleCause::overwritten].size(), 1U);
  EXPECT_EQ(holes[HoleCause::overwritten][0].events, two_.number() - numbers[1].size());
  EXPECT_EQ(holes.size(), 2U);
}

// Nobody takes the rounds, so no block is given back.
TEST_F(StreamWorkersTest, AFullPoolMakesHolesAndTakesNoMoreMemory) {
  start(std::vector<PlannedWorker>(2), 64U << 10U);
  std::vector<Round> rounds;
  const auto heap_bytes = [] { return ::mallinfo2().uordblks; };
  std::size_t before_bytes = 0;
  for (int i = 0; i < 50; ++i) {
    if (i == 20) before_bytes = heap_bytes();
    one_.write_some(now_, 500);
    two_.write_some(now_, 500);
    for (Round& round : next_round()) rounds.push_back(std::move(round));
  }
  std::size_t kept_bytes = 0;  // in whole pages
  for (const Round& round : rounds)
    for (const RingRound& ring : round.rings)
      for (const Block& block : ring.blocks)
        kept_bytes += (block.bytes.size() + BlockPool::kPageBytes - 1) / BlockPool::kPageBytes * BlockPool::kPageBytes;
  EXPECT_EQ(kept_bytes + pool_->free_bytes(), 64U << 10U) << "no block is anywhere else";
  EXPECT_LT(pool_->free_bytes(), BlockPool::kPageBytes * 4);
  // 30 rounds of 48 KB came since then, about 8 KB when they are compressed; what is kept of each are its holes.
  // (With ASan, mallinfo2(3) returns zeros.)
  EXPECT_LT(heap_bytes(), before_bytes + (64U << 10U));
  std::map<int, std::uint64_t> kept, lost;
  for (const Round& round : rounds)
    for (const RingRound& ring : round.rings) {
      kept[ring.cpu] += numbers_of(ring).size();
      for (const Hole& hole : ring.holes) {
        EXPECT_EQ(hole.cause, HoleCause::disk);
        EXPECT_FALSE(hole.estimated);
        lost[ring.cpu] += hole.events;
      }
    }
  for (const int cpu : {0, 1}) {
    EXPECT_EQ(kept[cpu] + lost[cpu], 25'000U);
    EXPECT_GT(kept[cpu], 0U);
    EXPECT_GT(lost[cpu], 10'000U);
  }
  EXPECT_EQ(workers_->totals().lost_events, lost[0] + lost[1]);
  rounds.clear();
  EXPECT_EQ(pool_->free_bytes(), pool_->size_bytes());
}

// The bytes of memory that this process has written to and shares with no other.
std::size_t touched_bytes() {
  constexpr std::string_view kKey = "\nAnonymous:";
  const auto text = read_file("/proc/self/smaps_rollup");
  const std::size_t at = text ? text->find(kKey) : std::string::npos;
  return at == std::string::npos ? 0 : std::stoul(text->substr(at + kKey.size())) * 1024;
}

// Of each worker: 1 MiB, the records that are compressed, and zstd's memory. It is there before the first look: a page
// fault in a look would cost events.
TEST_F(StreamWorkersTest, AWorkersMemoryIsTouchedFirstAndBounded) {
  constexpr std::size_t kWorkers = 2, kSharedBytes = 256U << 10U;
  const std::size_t compression_bytes = Chunks::create(1).value().memory_bytes();
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL), 0) << "a huge page has more than was touched";
  const std::size_t before_bytes = touched_bytes();
  ASSERT_GT(before_bytes, 0U);
  start(std::vector<PlannedWorker>(kWorkers), kSharedBytes);
  const std::size_t buffer_bytes = kWorkers * (RingReader::kMemoryBytes + compression_bytes);
  const std::size_t least_bytes = before_bytes + buffer_bytes - buffer_bytes / 16;  // others may free a little
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  while (touched_bytes() < least_bytes && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_GE(touched_bytes(), least_bytes) << "nothing was read yet";
  for (int i = 0; i < 3; ++i) {
    one_.write_some(now_, kTestRingBytes / 48 / 2);
    two_.write_some(now_, kTestRingBytes / 48 / 2);
    EXPECT_EQ(next_round().size(), 1U);
  }
  EXPECT_EQ(workers_->totals().lost_events, 0U);
  // A sanitizer has memory of its own beside each byte.
  if (std::getenv("FLIGHT_TEST_SANITIZED") == nullptr) {
    EXPECT_LE(touched_bytes(), before_bytes + kWorkers * ((1U << 20U) + compression_bytes) + kSharedBytes);
  }
  EXPECT_EQ(::prctl(PR_SET_THP_DISABLE, 0UL, 0UL, 0UL, 0UL), 0);
}

// The ring turns between two rounds: what is missing is stated in bytes, and as an estimate in events.
TEST_F(StreamWorkersTest, AnOverwrittenRingHasAHole) {
  start(one_each());
  one_.write_some(1'000, 100);
  EXPECT_EQ(next_round().size(), 1U);
  one_.write_some(2'000, 3 * kTestRingBytes / 48);
  const auto rounds = next_round();
  const RingRound& ring = rounds.at(0).rings.at(0);
  ASSERT_EQ(ring.holes.size(), 1U);
  const std::uint64_t missing = one_.number() - 100 - numbers_of(ring).size();
  EXPECT_EQ(ring.holes[0].cause, HoleCause::overwritten);
  EXPECT_EQ(ring.holes[0].bytes, missing * 48);
  EXPECT_EQ(ring.holes[0].events, missing);
  EXPECT_TRUE(ring.holes[0].estimated);
  EXPECT_EQ(ring.holes[0].from_ns, 1'099U);
  EXPECT_EQ(ring.holes[0].until_ns, ring.blocks.front().oldest_ns);
}

// The recording asks for everything since 900. Only the first ring has overwritten a part of that.
TEST_F(StreamWorkersTest, ARingThatWasOverwrittenBeforeTheStartHasAHoleIfAllIsWanted) {
  one_.write_some(1'000, 3 * kTestRingBytes / 48);
  two_.write_some(1'000, 10);
  pool_ = BlockPool::create(4U << 20U).value();
  StreamSettings settings;
  settings.since_ns = settings.begun_ns = 900;
  settings.all_since = true;
  settings.clock = [this] { return now_.load(); };
  auto workers = StreamWorkers::start({one_.ring(), two_.ring()}, test::made_table(), std::move(settings), *pool_,
                                      delivered_.receive());
  ASSERT_TRUE(workers) << workers.error().what;
  workers_ = std::move(*workers);
  const auto rounds = next_round();
  ASSERT_EQ(rounds.at(0).rings.size(), 2U);
  const RingRound& ring = rounds[0].rings[0];
  ASSERT_EQ(ring.holes.size(), 1U);
  EXPECT_EQ(ring.holes[0].cause, HoleCause::overwritten);
  EXPECT_EQ(ring.holes[0].events, one_.number() - numbers_of(ring).size()) << "no more than was ever written";
  EXPECT_EQ(ring.holes[0].from_ns, 900U);
  EXPECT_EQ(ring.holes[0].until_ns, ring.blocks.front().oldest_ns);
  EXPECT_TRUE(rounds[0].rings[1].holes.empty());
}

struct Place {
  int policy = -1, nice = 0;
  std::vector<int> cpus;
  std::string name;
};

// Notes where its thread runs.
class PlaceFilter : public StreamSink {
 public:
  PlaceFilter(StreamSink& next, Place& place) : next_(next), place_(place) {}
  void records(std::size_t ring, const RecordRun& run) override {
    place_.policy = ::sched_getscheduler(0);
    place_.nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)));
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    place_.cpus.clear();
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) place_.cpus.push_back(static_cast<int>(cpu));
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    place_.name = name.data();
    next_.records(ring, run);
  }
  void hole(std::size_t ring, const Hole& hole) override { next_.hole(ring, hole); }
  void end_of_round() override { next_.end_of_round(); }

 private:
  StreamSink& next_;
  Place& place_;
};

TEST_F(StreamWorkersTest, AWorkerHasItsPriorityAndItsCpus) {
  const int last = online_cpus().value().back();
  const int absent = static_cast<int>(available_cpus()) + 7;
  std::array<Place, 2> places;
  std::size_t chains = 0;
  start({{.serves = {0}, .runs_on = {last}}, {.serves = {1}, .runs_on = {absent}}}, 4U << 20U,
        {[&](StreamSink& next) { return std::make_unique<PlaceFilter>(next, places.at(chains++)); }});
  one_.write_some(now_, 10);
  two_.write_some(now_, 10);
  EXPECT_EQ(next_round().size(), 1U);
  EXPECT_EQ(places[0].cpus, std::vector<int>{last});
  EXPECT_EQ(places[0].name, "stream-0");
  EXPECT_EQ(places[1].name, "stream-1");
  for (const Place& place : places) {
    EXPECT_EQ(place.policy, SCHED_BATCH);
    EXPECT_EQ(place.nice, 5);
  }
  const auto warnings = workers_->warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(fmt::format("worker 1 could not be pinned to CPUs {}", absent)), std::string::npos)
      << warnings[0];
  // At the end no CPU is waited for that others have for themselves.
  one_.write_some(now_, 10);
  two_.write_some(now_, 10);
  workers_->finish();
  EXPECT_EQ(places[0].cpus, places[1].cpus);
  EXPECT_NE(std::find(places[0].cpus.begin(), places[0].cpus.end(), last), places[0].cpus.end());
}

}  // namespace
}  // namespace flight
