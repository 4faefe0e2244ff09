// SPDX-License-Identifier: Apache-2.0
// Which requests share a snapshot, and when it is taken. The worker's clock stands until a test advances it.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/unit/daemon/snapshots/snapshot_bench.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The limits of a wait for another's `post`, and the interval of the progress during a `post`.
constexpr std::chrono::nanoseconds kMaxJoinWait = 10s, kMaxTriggerWait = 1s, kProgressEvery = 500ms;

class Percents {
 public:
  void add(unsigned percent) {
    const std::lock_guard lock(mutex_);
    all_.push_back(percent);
  }
  [[nodiscard]] std::vector<unsigned> all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::vector<unsigned> all_;
};

class Joining : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    bench_.rings = small_recording(kQuiet);  // no record of it comes, so its history only gets longer
    bench_.clock.emplace();
    ASSERT_NO_FATAL_FAILURE(bench_.start());
  }

  VirtualClock& clock() { return *bench_.clock; }
  // Requests of now, with this `post`.
  SnapshotRequest person_in(std::chrono::nanoseconds post) { return due_in(by_person(), post); }
  SnapshotRequest trigger_in(const std::string& name, std::chrono::nanoseconds post) {
    return due_in(by_trigger(name), post);
  }
  SnapshotRequest due_in(SnapshotRequest request, std::chrono::nanoseconds post) {
    request.requested_ns = clock().now();
    request.due_ns = request.requested_ns + static_cast<EventTime>(post.count());
    return request;
  }
  // Whether one snapshot answers both requests, if the second comes while the first waits for its `post`. Both are
  // answered when the later `post` is over.
  bool join(SnapshotRequest first, SnapshotRequest second) {
    bench_.start_worker();
    const std::chrono::nanoseconds longest(std::max(first.due_ns, second.due_ns) - clock().now());
    auto one = bench_.ask_and_wait(std::move(first));
    auto two = bench_.ask(std::move(second));
    clock().advance(longest);
    const auto a = answer_of(one), b = answer_of(two);
    EXPECT_TRUE(a) << a.error().what;
    EXPECT_TRUE(b) << b.error().what;
    return a && b && a->id == b->id;
  }
  std::vector<SnapshotBench::Answer> ask(std::size_t count) {
    std::vector<SnapshotBench::Answer> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(bench_.ask(by_person()));
    return out;
  }

  SnapshotBench bench_;
};

TEST_F(Joining, AHundredCallersMakeTwoSnapshots) {
  auto first = bench_.ask_and_hold(by_person());
  auto others = ask(100);
  bench_.begin.open();
  const auto one = answer_of(first);
  ASSERT_TRUE(one) << one.error().what;
  for (auto& other : others) {
    const auto two = answer_of(other);
    ASSERT_TRUE(two) << two.error().what;
    EXPECT_NE(two->id, one->id) << "their window would end before they asked";
    EXPECT_THAT(two->requests, SizeIs(100));
  }
  EXPECT_THAT(bench_.begun(), ElementsAre("manual", "manual"));
}

TEST_F(Joining, ItWaitsTenSecondsForAnothersPost) {
  EXPECT_TRUE(join(person_in(kMaxJoinWait), person_in(kMaxJoinWait)));
  EXPECT_TRUE(join(person_in(kMaxJoinWait), person_in(0s)));
  EXPECT_FALSE(join(person_in(kMaxJoinWait + 1ns), person_in(0s)));
}

TEST_F(Joining, APersonWaitsOneSecondForATriggersPost) {
  EXPECT_TRUE(join(trigger_in("spike", kMaxTriggerWait), person_in(0s)));
  EXPECT_FALSE(join(trigger_in("spike", kMaxTriggerWait + 1ns), person_in(0s)));
  EXPECT_TRUE(join(trigger_in("spike", kMaxJoinWait), trigger_in("oom", 0s)));
  EXPECT_TRUE(join(person_in(kMaxJoinWait), trigger_in("spike", 0s)));
}

TEST_F(Joining, APostIsNotCutShortByAnEarlierOne) {
  EXPECT_FALSE(join(person_in(kMaxJoinWait), person_in(kMaxJoinWait + 1ns)));
}

TEST_F(Joining, NoneIsTakenBeforeThePostIsOver) {
  auto first = bench_.ask_and_wait(person_in(kMaxJoinWait));
  auto second = bench_.ask(trigger_in("spike", 0s));
  const EventTime due_ns = person_in(kMaxJoinWait).due_ns;
  clock().advance(kMaxJoinWait - 1ns);
  ASSERT_TRUE(clock().is_waited_for(due_ns));
  EXPECT_FALSE(is_there(first));
  EXPECT_FALSE(is_there(second));
  EXPECT_THAT(bench_.begun(), IsEmpty());
  clock().advance(1ns);
  const auto one = answer_of(first);
  ASSERT_TRUE(one) << one.error().what;
  EXPECT_EQ(answer_of(second).value().id, one->id);
  EXPECT_THAT(bench_.begun(), ElementsAre("spike"));
}

TEST_F(Joining, ThePostsProgressComesTwiceASecond) {
  auto seen = std::make_shared<Percents>();
  SnapshotRequest request = person_in(2 * kProgressEvery);
  const EventTime middle_ns = person_in(kProgressEvery).due_ns, due_ns = request.due_ns;
  request.progress = [seen](std::string_view step, unsigned percent) {
    if (step == "waiting") seen->add(percent);
  };
  auto answer = bench_.ask(std::move(request));
  ASSERT_TRUE(clock().is_waited_for(middle_ns));
  EXPECT_THAT(seen->all(), ElementsAre(0U));
  clock().advance(kProgressEvery - 1ns);
  EXPECT_THAT(seen->all(), ElementsAre(0U));
  clock().advance(1ns);
  ASSERT_TRUE(clock().is_waited_for(due_ns));
  EXPECT_THAT(seen->all(), ElementsAre(0U, 50U));
  clock().advance(kProgressEvery);
  EXPECT_TRUE(answer_of(answer));
  EXPECT_THAT(seen->all(), ElementsAre(0U, 50U));
}

TEST_F(Joining, TheEarlierOneGoesFirst) {
  constexpr auto kLater = kMaxJoinWait + 1ns;
  auto late = bench_.ask_and_wait(person_in(kLater));
  auto now = bench_.ask(trigger_in("spike", 0s));
  const auto first = answer_of(now);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_EQ(first->trigger, "spike");
  EXPECT_FALSE(is_there(late));
  EXPECT_THAT(bench_.begun(), ElementsAre("spike"));
  clock().advance(kLater);
  EXPECT_TRUE(answer_of(late));
}

TEST_F(Joining, AWindowMustBeCovered) {
  constexpr EventTime kBegin = 5, kEnd = UINT64_MAX - 5;
  const auto window = [this](EventTime begin_ns, EventTime end_ns) {
    SnapshotRequest out = person_in(kMaxJoinWait);
    out.window = {.begin_ns = begin_ns, .end_ns = end_ns};
    return out;
  };
  EXPECT_TRUE(join(window(0, UINT64_MAX), window(kBegin, kEnd)));
  EXPECT_TRUE(join(window(kBegin, kEnd), window(kBegin, kEnd)));
  EXPECT_TRUE(join(window(kBegin, kEnd), window(kBegin + 1, kEnd - 1)));
  EXPECT_FALSE(join(window(kBegin, kEnd), window(kBegin - 1, kEnd)));
  EXPECT_FALSE(join(window(kBegin, kEnd), window(kBegin, kEnd + 1)));
  EXPECT_FALSE(join(window(kBegin, UINT64_MAX), window(0, UINT64_MAX))) << "0 is all that is held";
}

TEST_F(Joining, ACaptureThatIsAskedForIsKept) {
  const auto capture = [this](std::optional<CaptureMode> mode) {
    SnapshotRequest out = person_in(kMaxJoinWait);
    out.capture = mode;
    return out;
  };
  EXPECT_TRUE(join(capture({}), capture(CaptureMode::pause))) << "as configured";
  EXPECT_FALSE(join(capture({}), capture(CaptureMode::live)));
  EXPECT_TRUE(join(capture(CaptureMode::live), capture({})));
  EXPECT_TRUE(join(capture(CaptureMode::live), capture(CaptureMode::live)));
  EXPECT_FALSE(join(capture(CaptureMode::live), capture(CaptureMode::pause)));
}

// The history that it requests would be overwritten before the other's `post` is over.
TEST_F(Joining, AHistoryThatWouldNotLastIsNotWaitedFor) {
  bench_.end();
  bench_.recorder.recorder.reset();
  bench_.rings = small_recording(kBusy);
  ASSERT_NO_FATAL_FAILURE(bench_.start());
  ASSERT_TRUE(soon([this] {
    fault(4096);
    static_cast<void>(bench_.recorder.status());  // notes the rings' heads
    return bench_.recorder.recorder->shortest_history_ns() != UINT64_MAX;
  }));
  const auto old_in = [this](std::chrono::nanoseconds post) {
    SnapshotRequest out = person_in(post);
    out.window.begin_ns = 1;
    return out;
  };
  EXPECT_FALSE(join(person_in(kMaxJoinWait), old_in(kMaxJoinWait - 1s)));
  EXPECT_TRUE(join(person_in(kMaxJoinWait), old_in(kMaxJoinWait))) << "it need not wait longer than it wants to";
}

// Only waiting requests are widened: the running one stays as it was requested.
TEST_F(Joining, TheWaitingOneIsWidenedToAll) {
  auto running = bench_.ask_and_hold(by_person());
  SnapshotRequest narrow = by_person(), live = by_person();
  narrow.window = {.begin_ns = 5, .end_ns = 10};
  live.capture = CaptureMode::live;
  auto one = bench_.ask(std::move(narrow)), two = bench_.ask(std::move(live)), three = bench_.ask(by_person());
  bench_.begin.open();
  EXPECT_EQ(answer_of(running).value().capture, "pause");
  const auto widened = answer_of(one);
  ASSERT_TRUE(widened) << widened.error().what;
  EXPECT_EQ(widened->capture, "live");
  EXPECT_GT(widened->window.end_ns, 10U);
  EXPECT_THAT(widened->requests, SizeIs(3));
  EXPECT_EQ(answer_of(two).value().id, widened->id);
  EXPECT_EQ(answer_of(three).value().id, widened->id);
}

TEST_F(Joining, ASharedSnapshotHasTheTriggersName) {
  auto running = bench_.ask_and_hold(by_person());
  auto person = bench_.ask(by_person());
  SnapshotRequest fired = by_trigger("spike");
  fired.fired = SidecarFired{.metric = "cpu.busy", .value = 99};
  auto trigger = bench_.ask(std::move(fired)), second = bench_.ask(by_trigger("oom"));
  bench_.begin.open();
  EXPECT_EQ(answer_of(running).value().trigger, "manual");
  const auto shared = answer_of(person);
  ASSERT_TRUE(shared) << shared.error().what;
  EXPECT_EQ(shared->trigger, "spike") << "the first one that fired";
  EXPECT_EQ(shared->reason, "spike fired");
  ASSERT_TRUE(shared->fired);
  EXPECT_EQ(shared->fired->metric, "cpu.busy");
  EXPECT_EQ(answer_of(trigger).value().id, shared->id);
  EXPECT_EQ(answer_of(second).value().id, shared->id);
}

TEST_F(Joining, AFiringThatSharesATestsSnapshotIsNoTest) {
  auto running = bench_.ask_and_hold(by_person());
  SnapshotRequest test = by_person();
  test.trigger = "spike";
  test.test = true;
  auto tested = bench_.ask(std::move(test)), fired = bench_.ask(by_trigger("spike"));
  bench_.begin.open();
  EXPECT_FALSE(answer_of(running).value().test);
  const auto shared = answer_of(tested);
  ASSERT_TRUE(shared) << shared.error().what;
  EXPECT_EQ(answer_of(fired).value().id, shared->id);
  EXPECT_FALSE(shared->test);
  EXPECT_EQ(shared->reason, "spike fired");
}

TEST_F(Joining, OfTooManyTheLastIsRefusedAtOnce) {
  constexpr std::size_t kMost = 1000;
  auto running = bench_.ask_and_hold(by_person());
  auto others = ask(kMost);
  auto refused = bench_.ask(by_person());
  ASSERT_TRUE(is_there(refused));
  EXPECT_TRUE(refused.get().error().code == std::errc::device_or_resource_busy);
  bench_.begin.open();
  EXPECT_TRUE(answer_of(running));
  for (auto& other : others) EXPECT_TRUE(answer_of(other));
}

TEST_F(Joining, AFailureReachesAll) {
  auto running = bench_.ask_and_hold(by_person());
  auto others = ask(3);
  bench_.refuse_room(Error{std::make_error_code(std::errc::no_space_on_device), "the disk is full"});
  bench_.begin.open();
  others.push_back(std::move(running));
  for (auto& other : others) {
    const auto result = answer_of(other);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().what, "the disk is full");
    EXPECT_EQ(result.error().errno_value(), ENOSPC);
  }
  bench_.refuse_room({});
  auto next = bench_.ask(by_person());
  EXPECT_TRUE(answer_of(next)) << "the next one is tried again";
}

TEST_F(Joining, AnEndFinishesTheOneUnderWayAndRefusesTheRest) {
  auto running = bench_.ask_and_hold(by_person());
  auto others = ask(3);
  auto stopped = std::async(std::launch::async, [this] { bench_.worker->stop(); });
  EXPECT_TRUE(soon([&] {
    auto late = bench_.ask(by_person());
    const bool refused = is_there(late);
    others.push_back(std::move(late));
    return refused;
  }));
  EXPECT_FALSE(is_there(stopped)) << "it waits for the one under way";
  bench_.begin.open();
  EXPECT_TRUE(answer_of(running));
  for (auto& other : others) {
    const auto result = answer_of(other);
    ASSERT_FALSE(result);
    EXPECT_TRUE(result.error().code == std::errc::operation_canceled) << result.error().what;
  }
  stopped.get();
  EXPECT_THAT(bench_.begun(), SizeIs(1));
}

TEST_F(Joining, AnEndCutsAPostShortAndSaysSo) {
  auto running = bench_.ask_and_wait(person_in(kMaxJoinWait));
  clock().advance(4s);
  bench_.worker->stop();
  const auto result = answer_of(running);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_THAT(result->warnings, Contains(AllOf(HasSubstr("flightd was stopped"), HasSubstr(" ends 6.0 s before "))));
}

TEST_F(Joining, TheLastSnapshotTakesAlongWhoWaits) {
  ASSERT_TRUE(bench_.has_spare_files());
  auto running = bench_.ask_and_hold(by_person());
  auto waiting = bench_.ask(person_in(kMaxJoinWait));
  auto last = bench_.ask(SnapshotRequest::of_flightd(kBrokerLost, "a test"));
  bench_.begin.open();
  EXPECT_EQ(answer_of(running).value().trigger, "manual") << "it was frozen before";
  const auto result = answer_of(last);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->trigger, kBrokerLost);
  EXPECT_EQ(answer_of(waiting).value().id, result->id) << "at once: no more records will come";
}

// The process tracker knows who had the pid at the time of the request: that is another process, if the client had
// ended.
TEST_F(Joining, AClientThatHadEndedIsNotNamedAfterItsPid) {
  SnapshotRequest hidden = by_person();
  hidden.who.pid = static_cast<std::int32_t>(kUnknownPid);
  hidden.who.comm.clear();
  SnapshotRequest ended = hidden;
  ended.has_ended = true;
  const std::vector<SnapshotRequest> requests{ended, hidden, by_person()};
  const std::vector<SidecarRequest> askers = askers_of(requests, *bench_.recorder.recorder);
  ASSERT_THAT(askers, SizeIs(3));
  EXPECT_EQ(askers[0].comm, "");
  EXPECT_EQ(askers[1].comm, "first") << "of the scan";
  EXPECT_EQ(askers[2].comm, "unit-daemon");
}

TEST_F(Joining, TheLastSnapshotEndsAPost) {
  ASSERT_TRUE(bench_.has_spare_files());
  auto waiting = bench_.ask_and_wait(trigger_in("spike", kMaxJoinWait));
  auto last = bench_.ask(SnapshotRequest::of_flightd(kBrokerLost, "a test"));
  const auto result = answer_of(last);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->trigger, kBrokerLost);
  EXPECT_EQ(answer_of(waiting).value().id, result->id);
  EXPECT_THAT(bench_.begun(), ElementsAre(std::string(kBrokerLost)));
}

}  // namespace
}  // namespace flight::daemon
