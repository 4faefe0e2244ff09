// SPDX-License-Identifier: Apache-2.0
// What flightd does after its broker died: in which order, how often, and when not any more. A test says how long it
// waits between two attempts.
#include "daemon/snapshots/broker_loss.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/daemon/daemon_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class BrokerLossTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    bench_.snapshots.recorder.clock.emplace();
  }
  // In the daemon's order: the recorder's threads may call it.
  void TearDown() override {
    bench_.snapshots.end();
    bench_.recordings.reset();
    if (bench_.triggers) bench_.triggers->stop();
    bench_.snapshots.recorder.recorder.reset();
    loss_.reset();
  }
  // `followed`: another broker may come.
  void start(bool followed) {
    ASSERT_NO_FATAL_FAILURE(bench_.start(followed));
    ASSERT_TRUE(bench_.snapshots.has_spare_files()) << "for the last snapshot";
    std::function<void()> end;
    if (!followed) end = [this] { ++ended_; };
    loss_ = std::make_unique<BrokerLoss>(bench_.loop.io, bench_.recorder(), *bench_.snapshots.worker, *bench_.api,
                                         bench_.events, std::move(end), [this](std::size_t failed) {
                                           waits_.push_back(failed);
                                           return wait_;
                                         });
  }
  // The broker thread has looked for the next one, in vain.
  void miss(std::chrono::nanoseconds looked_for) {
    VirtualClock& clock = *bench_.snapshots.recorder.clock;
    const auto every_ns = static_cast<EventTime>(std::chrono::nanoseconds(BrokerThread::kReconnectEvery).count());
    ASSERT_TRUE(bench_.loop.until([&] { return clock.has_waiter(clock.now() + every_ns); }));
    clock.advance(looked_for);
  }
  // The broker dies, and its recording does not come back. Its rings are saved.
  void lose(bool followed) {
    bench_.broker().die();
    if (followed) {
      ASSERT_NO_FATAL_FAILURE(miss(BrokerThread::kSameFor));
    }
    ASSERT_TRUE(soon([this] { return bench_.snapshots.recorder.lost == 1; }));
    loss_->lose("it crashed", monotonic_now());
    ASSERT_THAT(bench_.journal, SizeIs(1));
    EXPECT_THAT(bench_.journal[0].message, AllOf(HasSubstr("it crashed"), HasSubstr("saving the content")));
  }
  // As lose(), and no broker comes within the time of the first search.
  void lose_for_long() {
    ASSERT_NO_FATAL_FAILURE(lose(true));
    ASSERT_NO_FATAL_FAILURE(miss(BrokerThread::kReconnectFor));
  }
  // Another broker listens, with another recording.
  void bring_next(std::uint64_t recording = 2) {
    BrokerSetup setup = bench_.snapshots.setup();
    setup.recording = recording;
    bench_.snapshots.recorder.replace_broker(std::move(setup));
  }
  // Until the journal has so many entries.
  [[nodiscard]] bool has_entries(std::size_t number) {
    return bench_.loop.until([this, number] { return bench_.journal.size() >= number; });
  }

  DaemonBench bench_;
  std::chrono::milliseconds wait_{0};
  std::vector<std::size_t> waits_;  // after so many failed attempts
  int ended_ = 0;
  std::unique_ptr<BrokerLoss> loss_;
};

TEST_F(BrokerLossTest, TheRingsAreSavedBeforeTheNextBrokerIsLookedFor) {
  ASSERT_NO_FATAL_FAILURE(start(true));
  ASSERT_NO_FATAL_FAILURE(lose(true));
  EXPECT_THAT(bench_.journal[0].message, HasSubstr("unless the next broker reports"));
  EXPECT_FALSE(bench_.api->last());
  bring_next();
  ASSERT_TRUE(has_entries(3));
  ASSERT_TRUE(bench_.api->last());
  EXPECT_EQ(bench_.api->last()->trigger, kBrokerLost);
  EXPECT_THAT(bench_.journal[1].fields, Contains(HasSubstr("TRIGGER=broker-lost")));
  EXPECT_THAT(bench_.journal[2].message, HasSubstr("attached to the next flightd-broker"));
  EXPECT_THAT(waits_, IsEmpty()) << "it was found at once";
  EXPECT_FALSE(bench_.recorder().broker_gone());
  EXPECT_TRUE(soon([this] { return bench_.snapshots.recorder.next->asked(Request::spare) > 0; }))
      << "the files for the next last snapshot";
}

TEST_F(BrokerLossTest, TheNextBrokerMayHaveTheOldRecordingAfterAll) {
  ASSERT_NO_FATAL_FAILURE(start(true));
  ASSERT_NO_FATAL_FAILURE(lose(true));
  bring_next(bench_.recorder().attached()->manifest.recording);
  ASSERT_TRUE(has_entries(3));
  EXPECT_THAT(bench_.journal[2].message, HasSubstr("without a gap"));
}

TEST_F(BrokerLossTest, ItIsTriedAgainUntilABrokerRecords) {
  ASSERT_NO_FATAL_FAILURE(start(true));
  ASSERT_NO_FATAL_FAILURE(lose_for_long());
  ASSERT_TRUE(bench_.loop.until([this] { return waits_.size() >= 4; }));
  EXPECT_THAT(std::vector<std::size_t>(waits_.begin(), waits_.begin() + 4), ElementsAre(0U, 1U, 2U, 3U));
  EXPECT_THAT(bench_.journal, SizeIs(2)) << "not one entry for each attempt";
  bring_next();
  ASSERT_TRUE(has_entries(3));
  EXPECT_THAT(bench_.journal[2].message, HasSubstr("recording has begun"));
  EXPECT_FALSE(bench_.recorder().broker_gone());
}

TEST_F(BrokerLossTest, AReloadDoesNotWaitForTheNextAttempt) {
  wait_ = std::chrono::hours(1);
  ASSERT_NO_FATAL_FAILURE(start(true));
  ASSERT_NO_FATAL_FAILURE(lose_for_long());
  ASSERT_TRUE(bench_.loop.until([this] { return waits_.size() == 1; }));
  loss_->try_now();
  ASSERT_TRUE(bench_.loop.until([this] { return waits_.size() == 2; })) << "an attempt, in vain";
  bring_next();
  loss_->try_now();
  EXPECT_TRUE(has_entries(3));
}

TEST_F(BrokerLossTest, WithoutASuccessorItEndsAfterTheSnapshot) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  ASSERT_NO_FATAL_FAILURE(lose(false));
  EXPECT_THAT(bench_.journal[0].message, testing::Not(HasSubstr("next broker")));
  EXPECT_EQ(ended_, 0);
  ASSERT_TRUE(bench_.loop.until([this] { return ended_ > 0; }));
  ASSERT_TRUE(bench_.api->last());
  EXPECT_EQ(bench_.api->last()->trigger, kBrokerLost);
  EXPECT_EQ(ended_, 1);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(BrokerLossTest, WhenFlightdEndsNothingIsTriedAnyMore) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  ASSERT_NO_FATAL_FAILURE(lose(false));
  loss_->stop();
  auto next = bench_.snapshots.ask(by_person());  // answered after the last snapshot
  ASSERT_TRUE(bench_.loop.until([&] { return is_there(next); }));
  bench_.loop.poll();
  EXPECT_TRUE(bench_.api->last()) << "the snapshot is finished";
  EXPECT_EQ(ended_, 0);
  const std::size_t entries = bench_.journal.size();
  loss_->lose("another one", monotonic_now());
  EXPECT_THAT(bench_.journal, SizeIs(entries));
}

TEST_F(BrokerLossTest, AStartWithoutARecordingIsNoLoss) {
  wait_ = std::chrono::hours(1);
  ASSERT_NO_FATAL_FAILURE(start(true));
  bench_.broker().die();
  ASSERT_NO_FATAL_FAILURE(miss(BrokerThread::kSameFor));
  ASSERT_TRUE(soon([this] { return bench_.snapshots.recorder.lost == 1; }));
  loss_->wait_for_recording("no broker listens");
  EXPECT_THAT(waits_, ElementsAre(0U));
  bring_next();
  loss_->try_now();
  ASSERT_TRUE(has_entries(1));
  EXPECT_THAT(bench_.journal[0].message, HasSubstr("recording has begun"));
  EXPECT_FALSE(bench_.api->last()) << "nothing had to be saved";
}

}  // namespace
}  // namespace flight::daemon
