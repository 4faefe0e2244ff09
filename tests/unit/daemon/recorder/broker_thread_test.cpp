// SPDX-License-Identifier: Apache-2.0
// The broker thread with brokers that hang, die and are replaced by others. Its clock stands until a test advances it:
// what is tried again is not waited for.
#include "daemon/recorder/broker_thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>

#include "tests/unit/daemon/fake_broker.hpp"
#include "tests/unit/daemon/virtual_clock.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using test::FakeBroker;
using test::is_there;
using test::kPatience;
using test::soon;

class BrokerThreadTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-broker-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    thread_.reset();
    std::filesystem::remove_all(folder_);
  }

  // `followed`: the path on which a successor may listen, or no successor.
  void start(FakeBroker::Setup setup, bool followed) {
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    auto attached = Attached::open(test::attachment_of(setup));
    ASSERT_TRUE(attached) << attached.error().what;
    broker_.emplace(UniqueFd(ends[0]), std::move(setup));
    auto thread = BrokerThread::start(BrokerClient(UniqueFd(ends[1])), std::move(*attached), followed ? path() : "",
                                      {.lost = [this](const Error&, EventTime) { ++lost_; },
                                       .replaced = [this](EventTime) { ++replaced_; },
                                       .changed = [this](const Attached&) { ++changed_; },
                                       .warn = [](const Error&) {}},
                                      {}, clock_);
    ASSERT_TRUE(thread) << thread.error().what;
    thread_ = std::move(*thread);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/broker"; }
  [[nodiscard]] std::future<Result<Counts>> counts_later() {
    return std::async(std::launch::async, [this] { return thread_->counts(); });
  }
  // Waits until the next broker was not found, and is to be looked for once more.
  [[nodiscard]] bool is_looking() const { return is_waited_for(BrokerThread::kReconnectEvery); }
  // Waits until the thread waits for that time, from now on.
  [[nodiscard]] bool is_waited_for(std::chrono::nanoseconds time) const {
    return clock_.is_waited_for(clock_.now() + static_cast<EventTime>(time.count()));
  }
  // The broker dies, and no other one comes.
  void lose() {
    broker_->die();
    ASSERT_TRUE(is_looking());
    clock_.advance(BrokerThread::kSameFor);
    ASSERT_TRUE(soon([&] { return lost_ == 1; }));
  }

  test::VirtualClock clock_;  // first: the thread uses it until it ends
  std::string folder_;
  std::optional<FakeBroker> broker_, next_;
  std::unique_ptr<BrokerThread> thread_;
  std::atomic<int> lost_ = 0, replaced_ = 0, changed_ = 0;
};

TEST_F(BrokerThreadTest, ABrokerThatHangsDelaysOnlyItsCallers) {
  start({.unanswered = {Request::counts}}, false);
  auto counts = counts_later();
  ASSERT_TRUE(soon([&] { return broker_->asked(Request::counts) == 1; }));
  EXPECT_EQ(thread_->attached()->manifest.recording, 1U);
  EXPECT_FALSE(thread_->gone());
  EXPECT_NE(thread_->asked_ns(), 0U) << "a status can say how long";
  EXPECT_EQ(counts.wait_for(0s), std::future_status::timeout);
  thread_->cut();
  ASSERT_EQ(counts.wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(counts.get());
  EXPECT_EQ(lost_, 0) << "an end is no loss";
}

TEST_F(BrokerThreadTest, BuildIdsAreWaitedForAsLongAsTheCallerSays) {
  start({.unanswered = {Request::build_ids}}, false);
  const auto known = thread_->build_ids(50ms);
  ASSERT_FALSE(known);
  EXPECT_TRUE(known.error().code == std::errc::timed_out) << known.error().what;
}

TEST_F(BrokerThreadTest, ABrokerOfOurOwnIsLostOnce) {
  start({}, false);
  EXPECT_EQ(thread_->counts()->time_ns, 1U);
  broker_->die();
  ASSERT_TRUE(soon([&] { return lost_ == 1; }));
  EXPECT_TRUE(thread_->gone());
  EXPECT_NE(thread_->lost_ns(), 0U);
  EXPECT_FALSE(thread_->counts());
  EXPECT_EQ(lost_, 1);
  EXPECT_EQ(replaced_, 0);
}

TEST_F(BrokerThreadTest, ASuccessorWithTheSameRecordingAnswersPendingRequests) {
  start({.unanswered = {Request::counts}}, true);
  auto counts = counts_later();
  ASSERT_TRUE(soon([&] { return broker_->asked(Request::counts) == 1; }));
  next_.emplace(path(), FakeBroker::Setup{.counts_time = 2});
  broker_->die();
  ASSERT_EQ(counts.wait_for(kPatience), std::future_status::ready);
  const auto answer = counts.get();
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_EQ(answer->time_ns, 2U);
  EXPECT_EQ(replaced_, 1);
  EXPECT_EQ(lost_, 0);
  EXPECT_FALSE(thread_->gone());
}

TEST_F(BrokerThreadTest, ASuccessorWithAnotherRecordingIsALoss) {
  start({}, true);
  next_.emplace(path(), FakeBroker::Setup{.recording = 2, .counts_time = 2});
  broker_->die();
  ASSERT_TRUE(soon([&] { return lost_ == 1; }));
  EXPECT_TRUE(thread_->gone());
  EXPECT_EQ(replaced_, 0);
  EXPECT_EQ(thread_->attached()->manifest.recording, 1U) << "its rings are still to be saved";
  // The first connection is closed by then; another broker waits for the next one.
  next_.reset();
  std::filesystem::remove(path());
  next_.emplace(path(), FakeBroker::Setup{.recording = 2, .counts_time = 2});
  std::promise<Result<bool>> found;
  thread_->reconnect(BrokerThread::kReconnectFor, [&](Result<bool> same) { found.set_value(std::move(same)); });
  auto same = found.get_future();
  ASSERT_EQ(same.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(same.get().value(), false);
  EXPECT_FALSE(thread_->gone());
  EXPECT_EQ(thread_->attached()->manifest.recording, 2U);
  EXPECT_EQ(thread_->counts()->time_ns, 2U);
}

TEST_F(BrokerThreadTest, WithoutASuccessorItIsLostAfterItsTime) {
  start({}, true);
  broker_->die();
  ASSERT_TRUE(is_looking());
  EXPECT_NE(thread_->asked_ns(), 0U) << "a status can say how long";
  clock_.advance(BrokerThread::kSameFor - 1ns);
  ASSERT_TRUE(is_looking());
  EXPECT_EQ(lost_, 0) << "its events may still exist";
  EXPECT_FALSE(thread_->gone());
  clock_.advance(BrokerThread::kReconnectEvery);
  ASSERT_TRUE(soon([&] { return lost_ == 1; }));
  EXPECT_TRUE(thread_->gone());
  EXPECT_EQ(replaced_, 0);
}

TEST_F(BrokerThreadTest, ASuccessorMayComeAtTheLastMoment) {
  start({}, true);
  broker_->die();
  ASSERT_TRUE(is_looking());
  clock_.advance(BrokerThread::kSameFor - BrokerThread::kReconnectEvery);
  ASSERT_TRUE(is_looking());
  next_.emplace(path(), FakeBroker::Setup{.counts_time = 2});
  clock_.advance(BrokerThread::kReconnectEvery);
  ASSERT_TRUE(soon([&] { return replaced_ == 1; }));
  EXPECT_EQ(thread_->counts()->time_ns, 2U);
  EXPECT_EQ(lost_, 0);
}

TEST_F(BrokerThreadTest, TheNextBrokerIsLookedForAsLongAsTheCallerSays) {
  start({}, true);
  ASSERT_NO_FATAL_FAILURE(lose());
  std::promise<Result<bool>> found;
  auto same = found.get_future();
  thread_->reconnect(BrokerThread::kReconnectFor, [&](Result<bool> answer) { found.set_value(std::move(answer)); });
  ASSERT_TRUE(is_looking());
  clock_.advance(BrokerThread::kReconnectFor - 1ns);
  ASSERT_TRUE(is_looking());
  EXPECT_FALSE(is_there(same));
  clock_.advance(BrokerThread::kReconnectEvery);
  EXPECT_FALSE(test::answer_of(same));
}

TEST_F(BrokerThreadTest, AnEndDoesNotWaitForTheNextAttempt) {
  start({}, true);
  broker_->die();
  ASSERT_TRUE(is_looking());
  const auto ended = std::async(std::launch::async, [this] { thread_.reset(); });
  EXPECT_EQ(ended.wait_for(kPatience), std::future_status::ready) << "the clock stands";
  clock_.advance(BrokerThread::kReconnectEvery);  // or the thread would never end
  EXPECT_EQ(lost_, 0) << "an end is no loss";
}

TEST_F(BrokerThreadTest, ABrokerThatCannotBeReachedIsAReasonUntilOneIsFound) {
  start({}, true);
  ASSERT_NO_FATAL_FAILURE(lose());
  EXPECT_EQ(thread_->refusal(), "") << "it was lost a moment ago";
  const auto found = [&](std::chrono::seconds look_for) {
    std::promise<bool> attached;
    thread_->reconnect(look_for, [&](const Result<bool>& same) { attached.set_value(same.has_value()); });
    return attached.get_future().get();
  };
  EXPECT_FALSE(found(0s));
  EXPECT_THAT(thread_->refusal(), testing::HasSubstr("flightd-broker cannot be reached: "));
  next_.emplace(path(), FakeBroker::Setup{.recording = 2});
  EXPECT_TRUE(found(BrokerThread::kReconnectFor));
  EXPECT_EQ(thread_->refusal(), "");
}

TEST_F(BrokerThreadTest, APauseHoldsForTheSuccessor) {
  start({}, true);
  std::promise<Result<void>> paused;
  thread_->set_recording(false, [&](Result<void> done) { paused.set_value(std::move(done)); });
  EXPECT_TRUE(paused.get_future().get());
  EXPECT_EQ(broker_->asked(Request::disable), 1);
  next_.emplace(path(), FakeBroker::Setup{});
  broker_->die();
  ASSERT_TRUE(soon([&] { return replaced_ == 1; }));
  EXPECT_EQ(next_->asked(Request::disable), 1);
}

TEST_F(BrokerThreadTest, AChangedSetOfRingsIsAttachedAgain) {
  start({}, false);
  broker_->say(Request::changed);
  ASSERT_TRUE(soon([&] { return changed_ == 1; }));
  EXPECT_EQ(thread_->attached()->manifest.generation, 2U);
}

TEST_F(BrokerThreadTest, ASetOfRingsThatCannotBeUsedIsTriedAgain) {
  start({}, false);
  EXPECT_EQ(thread_->attach_warning(), "");
  broker_->refuse(Request::attach, std::errc::not_enough_memory, "no memory for the rings");
  broker_->say(Request::changed);
  ASSERT_TRUE(soon([&] { return !thread_->attach_warning().empty(); }));
  EXPECT_NE(thread_->attach_warning().find("no memory for the rings"), std::string::npos);
  EXPECT_EQ(thread_->attached()->manifest.generation, 1U);
  broker_->obey(Request::attach);
  ASSERT_TRUE(is_waited_for(BrokerThread::kAttachAgain));
  clock_.advance(BrokerThread::kAttachAgain - 1ns);
  EXPECT_TRUE(thread_->counts());
  EXPECT_TRUE(thread_->counts()) << "it has looked at the clock since the first one";
  EXPECT_EQ(broker_->asked(Request::attach), 1) << "the next one is not due yet";
  clock_.advance(1ns);
  ASSERT_TRUE(soon([&] { return changed_ == 1; }));
  EXPECT_EQ(thread_->attached()->manifest.generation, 2U);
  EXPECT_EQ(thread_->attach_warning(), "");
}

// In an earlier version the thread turned without a pause from that time on, until the next broker came.
TEST_F(BrokerThreadTest, AnAttachThatIsDueAfterTheBrokerDiedIsNotWaitedFor) {
  start({}, false);
  broker_->refuse(Request::attach, std::errc::not_enough_memory, "no memory for the rings");
  broker_->say(Request::changed);
  ASSERT_TRUE(soon([&] { return !thread_->attach_warning().empty(); }));
  broker_->die();
  ASSERT_TRUE(soon([&] { return lost_ == 1; }));
  clock_.advance(BrokerThread::kAttachAgain);
  EXPECT_TRUE(clock_.is_waited_for(WaitingClock::kNever));
}

TEST_F(BrokerThreadTest, AFileThatComesLateIsTheNextOnes) {
  start({.unanswered = {Request::file}}, false);
  const auto none = thread_->file(0s);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().code == std::errc::timed_out) << none.error().what;
  EXPECT_TRUE(thread_->counts()) << "other requests continue";
  broker_->say(Request::file);
  const auto late = thread_->file(kPatience);
  ASSERT_TRUE(late) << late.error().what;
  EXPECT_EQ(late->name, "new.partial");
  EXPECT_EQ(broker_->asked(Request::file), 1);
}

TEST_F(BrokerThreadTest, ABrokerThatAnswersNothingIsNotTakenForTheDisk) {
  start({.unanswered = {Request::file, Request::counts}}, false);
  const auto none = thread_->file(1s);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().code == BrokerThread::kBrokerSilent) << none.error().what;
  EXPECT_THAT(none.error().what, testing::HasSubstr("flightd-broker, which makes the files, did not answer"));
}

TEST_F(BrokerThreadTest, CountsAreWaitedForAsLongAsTheCallerSays) {
  start({.unanswered = {Request::counts}}, false);
  const auto counts = thread_->counts(50ms);
  ASSERT_FALSE(counts);
  EXPECT_TRUE(counts.error().code == std::errc::timed_out) << counts.error().what;
}

TEST_F(BrokerThreadTest, AFileThatIsWantedIsRequestedOfTheSuccessor) {
  start({.unanswered = {Request::file}}, true);
  auto file = std::async(std::launch::async, [this] { return thread_->file(kPatience); });
  ASSERT_TRUE(soon([&] { return broker_->asked(Request::file) == 1; }));
  next_.emplace(path(), FakeBroker::Setup{});
  broker_->die();
  const auto made = file.get();
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(next_->asked(Request::file), 1);
}

}  // namespace
}  // namespace flight::daemon
