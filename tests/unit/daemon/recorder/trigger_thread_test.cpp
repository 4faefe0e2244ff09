// SPDX-License-Identifier: Apache-2.0
// The trigger thread: its decisions, the state that it saves for the next flightd, and its report at its end. Its clock
// stands until a test advances it. tests/unit/trigger tests the rules themselves.
#include "daemon/recorder/trigger_thread.hpp"

#include <gmock/gmock.h>

#include <csignal>
#include <optional>

#include "tests/unit/daemon/recorder/recorder_bench.hpp"
#include "tests/unit/daemon/virtual_clock.hpp"
#include "tests/unit/full_table.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Time in which a pass becomes due: the interval while nothing happens.
constexpr std::chrono::nanoseconds kOnePass = PassInterval::kCalm;

TriggerConfig external(std::string name, std::chrono::nanoseconds cooldown = 0ns) {
  return {.name = std::move(name), .external = true, .cooldown = cooldown};
}

class TriggerThreadTest : public testing::Test {
 protected:
  void start(std::vector<TriggerConfig> triggers, std::string saved = "", const BrokerSetup& broker = {}) {
    thread_.reset();
    auto attached = Attached::open(attachment_of(broker));
    ASSERT_TRUE(attached) << attached.error().what;
    ASSERT_NO_FATAL_FAILURE(start(std::move(triggers), *attached, std::move(saved)));
  }
  void start(std::vector<TriggerConfig> triggers, const std::shared_ptr<Attached>& attached, std::string saved = "") {
    TriggerThread::Setup setup{.triggers = std::move(triggers),
                               .guard = {},
                               .saved = std::move(saved),
                               .boot_id = "boot",
                               .attached = [attached] { return attached; },
                               .clock = clock_};
    auto thread = TriggerThread::start(
        std::move(setup), {.fire = [this](Decision one) { add(fired_, std::move(one)); },
                           .suppressed = [this](SuppressedWindow one) { add(suppressed_, std::move(one)); },
                           .keep = [this](std::string state) { add(kept_, std::move(state)); }});
    ASSERT_TRUE(thread) << thread.error().what;
    thread_ = std::move(*thread);
  }
  Result<Decision> fire(const std::string& name, bool test = false) {
    auto promise = std::make_shared<std::promise<Result<Decision>>>();
    auto answer = promise->get_future();
    thread_->external(name, "a test", test, [promise](Result<Decision> one) { promise->set_value(std::move(one)); });
    return answer_of(answer);
  }
  Result<void> enable(const std::string& name, bool on) {
    auto promise = std::make_shared<std::promise<Result<void>>>();
    auto answer = promise->get_future();
    thread_->enable(name, on, [promise](Result<void> done) { promise->set_value(std::move(done)); });
    return answer_of(answer);
  }
  std::vector<TriggerThread::Listed> rows() {
    auto promise = std::make_shared<std::promise<std::vector<TriggerThread::Listed>>>();
    auto answer = promise->get_future();
    thread_->rows([promise](std::vector<TriggerThread::Listed> all) { promise->set_value(std::move(all)); });
    return answer.get();
  }
  // Advances the clock, and waits for the pass that is due then, if one is. The first task makes the thread read the
  // clock again, the second one is run after that pass.
  void advance(std::chrono::nanoseconds by) {
    clock_.advance(by);
    rows();
    rows();
  }
  TriggerThread::Listed row(const std::string& name) {
    for (TriggerThread::Listed& one : rows())
      if (one.row.name == name) return std::move(one);
    ADD_FAILURE() << "there is no trigger " << name;
    return {};
  }
  // The saved state; empty if nothing was saved yet.
  std::string state_kept() {
    const auto states = taken(kept_);
    return states.empty() ? "" : states.back();
  }
  // As the next flightd will load it.
  SavedTrigger saved(const std::string& name) {
    const auto state = parse_trigger_state(state_kept());
    if (!state) return {};
    for (const SavedTrigger& one : state->triggers)
      if (one.name == name) return one;
    return {};
  }
  template <typename T>
  void add(std::vector<T>& to, T one) {
    const std::lock_guard lock(mutex_);
    to.push_back(std::move(one));
  }
  template <typename T>
  std::vector<T> taken(const std::vector<T>& from) {
    const std::lock_guard lock(mutex_);
    return from;
  }

  std::mutex mutex_;
  std::vector<Decision> fired_;
  std::vector<SuppressedWindow> suppressed_;
  std::vector<std::string> kept_;
  VirtualClock clock_;
  std::unique_ptr<TriggerThread> thread_;
};

TEST_F(TriggerThreadTest, AFiringFromOutsideIsCountedAndKept) {
  start({external("deploy")});
  const auto decision = fire("deploy");
  ASSERT_TRUE(decision) << decision.error().what;
  EXPECT_TRUE(decision->fires());
  EXPECT_EQ(decision->reason, "a test");
  EXPECT_EQ(saved("deploy").fired, 1U) << "before it is answered";
  EXPECT_EQ(row("deploy").row.fired, 1U);
  EXPECT_EQ(row("deploy").kind, "external");
  EXPECT_THAT(taken(fired_), IsEmpty()) << "its caller takes the snapshot";
}

TEST_F(TriggerThreadTest, ATestCountsAgainstNoLimit) {
  start({external("deploy", 1h)});
  for (int i = 0; i < 3; ++i) {
    const auto decision = fire("deploy", true);
    ASSERT_TRUE(decision) << decision.error().what;
    EXPECT_TRUE(decision->fires());
    EXPECT_THAT(decision->reason, HasSubstr("test of the trigger"));
  }
  EXPECT_EQ(row("deploy").row.fired, 3U);
  EXPECT_EQ(row("deploy").row.suppressed, 0U);
  EXPECT_TRUE(fire("deploy").value().fires()) << "no cooldown has begun";
}

TEST_F(TriggerThreadTest, OnlyExternalOnesAreFiredFromOutside) {
  start({external("deploy"), {.name = "busy", .metric = "cpu.busy", .above = 100}});
  const auto none = fire("depoly");
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().code == std::errc::no_such_file_or_directory) << none.error().what;
  const auto metric = fire("busy");
  ASSERT_FALSE(metric);
  EXPECT_TRUE(metric.error().code == std::errc::invalid_argument) << metric.error().what;
  EXPECT_TRUE(fire("busy", true)) << "any of them may be tested";
}

TEST_F(TriggerThreadTest, ASwitchIsKeptForTheNextFlightd) {
  start({external("deploy")});
  ASSERT_TRUE(enable("deploy", false));
  EXPECT_EQ(saved("deploy").enabled, false);
  EXPECT_EQ(fire("deploy").value().by, SuppressedBy::disabled);
  EXPECT_FALSE(enable("depoly", false));
  const std::string state = state_kept();
  start({external("deploy")}, state);
  EXPECT_EQ(thread_->saved_error(), "");
  EXPECT_FALSE(row("deploy").row.enabled);
  EXPECT_EQ(fire("deploy").value().by, SuppressedBy::disabled);
  ASSERT_TRUE(enable("deploy", true));
  EXPECT_TRUE(fire("deploy").value().fires());
}

TEST_F(TriggerThreadTest, ACooldownHoldsForTheNextFlightd) {
  start({external("deploy", 1h)});
  ASSERT_TRUE(fire("deploy").value().fires());
  const std::string state = state_kept();
  start({external("deploy", 1h)}, state);
  EXPECT_EQ(row("deploy").row.fired, 1U);
  EXPECT_EQ(fire("deploy").value().by, SuppressedBy::cooldown);
  clock_.advance(1h - 1ns);
  EXPECT_EQ(fire("deploy").value().by, SuppressedBy::cooldown);
  clock_.advance(1ns);
  EXPECT_TRUE(fire("deploy").value().fires());
}

TEST_F(TriggerThreadTest, WhatWasSuppressedIsKeptAfterFiveSeconds) {
  start({external("deploy", 1h)});
  ASSERT_TRUE(fire("deploy").value().fires());
  EXPECT_EQ(fire("deploy").value().by, SuppressedBy::cooldown);
  advance(5s - kOnePass);
  EXPECT_EQ(saved("deploy").fired, 1U);
  EXPECT_EQ(saved("deploy").suppressed, 0U);
  advance(kOnePass);
  EXPECT_EQ(saved("deploy").suppressed, 1U);
}

TEST_F(TriggerThreadTest, AnUnusableStateIsAnErrorAndNotTheEnd) {
  start({external("deploy")}, "flightd-triggers 1\nnonsense\n");
  EXPECT_NE(thread_->saved_error(), "");
  EXPECT_TRUE(fire("deploy").value().fires());
}

// The store was mounted late: what happened until then is added to what an earlier flightd counted.
TEST_F(TriggerThreadTest, AStateThatComesLateIsAdded) {
  start({external("deploy"), external("rare", 1h), external("off")});
  ASSERT_TRUE(fire("deploy"));
  ASSERT_TRUE(fire("rare"));
  ASSERT_TRUE(enable("off", false));
  const std::string earlier = state_kept();
  start({external("deploy"), external("rare", 1h), external("off")});
  ASSERT_TRUE(fire("deploy"));
  thread_->restore(earlier, [](const std::string& why) { ADD_FAILURE() << why; });
  EXPECT_EQ(row("deploy").row.fired, 2U);
  EXPECT_EQ(row("rare").row.fired, 1U);
  EXPECT_FALSE(fire("rare")->fires()) << "its cooldown holds";
  EXPECT_FALSE(row("off").row.enabled);
  auto failed = std::make_shared<std::promise<std::string>>();
  auto why = failed->get_future();
  thread_->restore("nonsense", [failed](std::string text) { failed->set_value(std::move(text)); });
  EXPECT_NE(why.get(), "");
  EXPECT_EQ(row("deploy").row.fired, 2U);
}

TEST_F(TriggerThreadTest, RecordingsAreInItsRowAndKept) {
  start({external("deploy")});
  thread_->note_recording("deploy", "8");
  thread_->note_unrecorded("deploy", "the disk is full");
  const TriggerRow kept = row("deploy").row;
  EXPECT_EQ(kept.recordings, 1U);
  EXPECT_EQ(kept.recordings_failed, 1U);
  EXPECT_EQ(kept.recording, "8");
  EXPECT_THAT(kept.note, HasSubstr("the disk is full"));
  thread_->stop();
  EXPECT_EQ(saved("deploy").recordings, 1U);
  EXPECT_EQ(saved("deploy").recordings_failed, 1U);
  EXPECT_EQ(saved("deploy").recording, "8");
}

TEST_F(TriggerThreadTest, AReloadKeepsTheCounters) {
  start({external("deploy", 1h), external("gone")});
  ASSERT_TRUE(fire("deploy").value().fires());
  EXPECT_EQ(fire("deploy").value().by, SuppressedBy::cooldown);
  thread_->note_snapshot("deploy", "7");
  ASSERT_TRUE(enable("deploy", false));
  thread_->replace({external("deploy"), external("new")}, {});
  const TriggerRow kept = row("deploy").row;
  EXPECT_EQ(kept.fired, 1U);
  EXPECT_EQ(kept.suppressed, 1U);
  EXPECT_EQ(kept.snapshot, "7");
  EXPECT_FALSE(kept.enabled) << "a person said so";
  ASSERT_TRUE(enable("deploy", true));
  EXPECT_TRUE(fire("deploy").value().fires()) << "it has no cooldown any more";
  EXPECT_TRUE(fire("new").value().fires());
  EXPECT_FALSE(fire("gone"));
}

TEST_F(TriggerThreadTest, ItsEndReportsWhatWasSuppressed) {
  start({external("deploy", 1h)});
  ASSERT_TRUE(fire("deploy").value().fires());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fire("deploy").value().by, SuppressedBy::cooldown);
  EXPECT_THAT(taken(suppressed_), IsEmpty()) << "the window lasts an hour";
  thread_->stop();
  const auto windows = taken(suppressed_);
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_EQ(windows[0].trigger, "deploy");
  EXPECT_EQ(windows[0].count, 3U);
  EXPECT_EQ(saved("deploy").suppressed, 3U) << "the last state";
}

TEST_F(TriggerThreadTest, WhatWasSuppressedIsReportedWhenItMayFireAgain) {
  start({external("deploy", 10min)});
  ASSERT_TRUE(fire("deploy").value().fires());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fire("deploy").value().by, SuppressedBy::cooldown);
  advance(10min - kOnePass);
  EXPECT_THAT(taken(suppressed_), IsEmpty());
  advance(kOnePass);
  const auto windows = taken(suppressed_);
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_EQ(windows[0].trigger, "deploy");
  EXPECT_EQ(windows[0].count, 3U);
  EXPECT_TRUE(fire("deploy").value().fires());
}

TEST_F(TriggerThreadTest, AfterItsEndAllIsAnsweredAtOnce) {
  start({external("deploy")});
  thread_->stop();
  EXPECT_TRUE(fire("deploy").error().code == std::errc::operation_canceled);
  EXPECT_TRUE(enable("deploy", false).error().code == std::errc::operation_canceled);
  EXPECT_THAT(rows(), IsEmpty());
  EXPECT_FALSE(thread_->metrics());
}

TEST_F(TriggerThreadTest, NothingFiresWhileRecordingIsPaused) {
  start({external("deploy", 1h)});
  thread_->set_recording(false);
  EXPECT_EQ(fire("deploy").value().by, SuppressedBy::not_recording);
  thread_->set_recording(true);
  EXPECT_TRUE(fire("deploy").value().fires()) << "no cooldown has begun";
}

TEST_F(TriggerThreadTest, AMetricFiresByItself) {
  // This process alone exceeds that number.
  start({{.name = "busy", .metric = "cpu.busy", .above = 0, .cooldown = 1h}});
  ASSERT_TRUE(soon([this] {
    fault(1);
    advance(kOnePass);
    return !taken(fired_).empty();
  }));
  const Decision decision = taken(fired_).front();
  EXPECT_EQ(decision.trigger, "busy");
  ASSERT_TRUE(decision.fired);
  EXPECT_EQ(decision.fired->metric, "cpu.busy");
  EXPECT_TRUE(soon([this] { return saved("busy").fired == 1; })) << "at once: a firing is rare";
  EXPECT_EQ(row("busy").kind, "metric");
  const auto metrics = thread_->metrics();
  ASSERT_TRUE(metrics);
  EXPECT_THAT(metrics->recent.values, testing::Not(IsEmpty()));
}

// UndefinedBehaviorSanitizer opens a pipe to look at an object's type, and calls it invalid where it has no descriptor.
#if !defined(__SANITIZE_ADDRESS__)
// A start without a descriptor for /proc: the triggers work later, and the status says so until then.
TEST_F(TriggerThreadTest, MetricsThatCannotBeReadAtStartComeLater) {
  const std::vector<TriggerConfig> triggers{external("deploy"),
                                            {.name = "busy", .metric = "cpu.busy", .above = 0, .cooldown = 1h}};
  auto attached = Attached::open(attachment_of({}));
  ASSERT_TRUE(attached) << attached.error().what;
  constexpr int kFree = 1;  // of the task queue
  auto full = std::make_optional<FullTable>(kFree);
  const auto notes = TriggerThread::check(triggers);
  ASSERT_NO_FATAL_FAILURE(start(triggers, *attached));
  ASSERT_TRUE(soon([this] { return thread_->passes() > 0; }));
  EXPECT_EQ(row("busy").row.state, "unavailable");
  EXPECT_THAT(row("busy").row.note, HasSubstr("open /proc/stat: Too many open files"));
  const auto troubles = thread_->metric_troubles();
  EXPECT_THAT(troubles, Contains(AllOf(HasSubstr("open /proc/stat: Too many open files"), HasSubstr("cpu.hottest"),
                                       HasSubstr("off: busy"))));
  ASSERT_TRUE(notes) << notes.error().what;
  EXPECT_THAT(*notes, IsEmpty());
  full.reset();
  advance(10s - kOnePass);
  EXPECT_THAT(row("busy").row.note, HasSubstr("Too many open files"));
  advance(kOnePass);
  EXPECT_EQ(row("busy").row.note.find("Too many"), std::string::npos);
  EXPECT_TRUE(soon([this] {
    fault(1);
    advance(kOnePass);
    return !taken(fired_).empty();
  })) << "after 10 s";
  EXPECT_EQ(row("busy").row.note.find("Too many"), std::string::npos);
  EXPECT_THAT(thread_->metric_troubles(), Not(Contains(HasSubstr("/proc/stat"))));
}
#endif

TEST_F(TriggerThreadTest, AKernelEventFiresByItself) {
  if (!may_open_events()) GTEST_SKIP() << kNoEvents;
  std::signal(SIGWINCH, SIG_IGN);
  const TriggerConfig winch{.name = "winch",
                            .event = EventConfig{.event = "signal:signal_generate",
                                                 .filter = fmt::format("sig == {} && pid == {}", SIGWINCH, ::getpid())},
                            .cooldown = 1h};
  const auto rings = small_recording(kBusy, {winch});
  ASSERT_TRUE(rings);
  TriggerConfig unwatched = winch;
  unwatched.name = "unwatched";
  start({winch, unwatched}, "", {.rings = rings});
  ASSERT_TRUE(soon([this] { return row("unwatched").row.state == "unavailable"; }));
  EXPECT_EQ(row("winch").row.state, "armed");
  EXPECT_EQ(row("winch").kind, "event");
  ::kill(::getpid(), SIGWINCH);
  ASSERT_TRUE(soon([this] { return !taken(fired_).empty(); }));
  EXPECT_EQ(taken(fired_).front().trigger, "winch");
  EXPECT_THAT(taken(fired_).front().reason, HasSubstr(fmt::format("sig={}", SIGWINCH)));
  clock_.advance(kTriggerDrainEvery);  // from here on, the ring wakes the thread again
  ::kill(::getpid(), SIGWINCH);
  EXPECT_TRUE(soon([this] { return row("winch").row.suppressed == 1; }));
}

}  // namespace
}  // namespace flight::daemon
