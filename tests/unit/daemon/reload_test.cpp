// SPDX-License-Identifier: Apache-2.0
// A reload changes everything or nothing: flightd reads a file, and the broker accepts it or not.
#include "daemon/reload.hpp"

#include <gmock/gmock.h>

#include "tests/unit/daemon/daemon_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kLive = "{\n  \"snapshot\": { \"capture\": \"live\" }\n}\n";
constexpr const char* kPlain = "{\n  \"snapshot\": { \"compression\": \"none\" }\n}\n";

class ReloaderTest : public testing::Test {
 protected:
  using Outcome = std::optional<CallResult<ReloadReport>>;

  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    ASSERT_NO_FATAL_FAILURE(bench_.start());
    digest_ = bench_.reloader->config().digest;
  }
  void ask(Outcome& outcome, const std::string& who = "a test") {
    bench_.reloader->reload(who, [&outcome](const CallResult<ReloadReport>& got) {
      EXPECT_FALSE(outcome) << "answered twice";
      outcome = got;
    });
  }
  Outcome reload() {
    Outcome outcome;
    ask(outcome);
    EXPECT_TRUE(bench_.loop.until([&] { return outcome.has_value(); }));
    return outcome;
  }
  static std::string text_of(const Outcome& outcome) {
    if (!outcome) return "not answered";
    return *outcome ? "accepted" : (*outcome).error().name + " " + (*outcome).error().parameters;
  }
  void expect_nothing_changed() {
    EXPECT_THAT(bench_.applied, IsEmpty());
    EXPECT_EQ(bench_.reloader->config().digest, digest_);
    EXPECT_EQ(bench_.reloader->report().digest, digest_);
    EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring"));
  }
  std::ptrdiff_t reloads() { return bench_.broker().asked(Request::reload); }
  // Returns when the broker has got the request, which it does not answer.
  void hold_broker(Outcome& outcome) {
    bench_.broker().leave(Request::reload);
    ask(outcome);
    ASSERT_TRUE(bench_.loop.until([this] { return reloads() == 1; }));
  }
  void release_broker() {
    bench_.broker().obey(Request::reload);
    bench_.broker().say(Request::reload);
  }

  DaemonBench bench_;
  std::string digest_;
};

// A process that reads the configuration, and does not answer.
class SilentConfig : public ReloaderTest {
 protected:
  SilentConfig() { bench_.config_command = {"/bin/sh", "sh", "-c", "exec sleep 60"}; }
};

TEST_F(SilentConfig, IsNotWaitedForAtTheEnd) {
  Outcome first, second;
  ask(first);
  ask(second);
  const auto asked = std::chrono::steady_clock::now();
  bench_.reloader->stop();
  ASSERT_TRUE(bench_.loop.until([&] { return first && second; }));
  const std::string digest = bench_.reloader->config().digest;
  bench_.status.reset();
  bench_.reloader.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(4)) << "and not the 8 s of a reading";
  EXPECT_EQ(digest, digest_);
  EXPECT_THAT(text_of(first), HasSubstr("flightd is stopping"));
  EXPECT_THAT(text_of(second), HasSubstr("flightd is stopping"));
  EXPECT_EQ(reloads(), 0);
  EXPECT_THAT(bench_.applied, IsEmpty());
}

// Who asked is not kept waiting for a broker that does not answer.
class SilentBrokersReload : public ReloaderTest {
 protected:
  SilentBrokersReload() { bench_.says_so_after = std::chrono::milliseconds(0); }
};

TEST_F(SilentBrokersReload, IsReportedAndTakesEffectWhenItAnswers) {
  bench_.write_config(kLive);
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(hold_broker(outcome));
  ASSERT_TRUE(bench_.loop.until([&] { return outcome.has_value(); }));
  EXPECT_THAT(text_of(outcome), AllOf(StartsWith("io.flightd.Recorder.WriteFailed"),
                                      HasSubstr("flightd-broker has not answered"), HasSubstr("takes effect when")));
  expect_nothing_changed();
  release_broker();
  ASSERT_TRUE(bench_.loop.until([&] { return bench_.applied.size() == 1; }));
  EXPECT_EQ(bench_.reloader->config().digest, bench_.load_config_file()->digest);
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring", "reloaded"));
}

TEST_F(ReloaderTest, WhatBothAcceptIsAppliedOnce) {
  bench_.write_config(kLive);
  const Outcome outcome = reload();
  ASSERT_EQ(text_of(outcome), "accepted");
  EXPECT_EQ((*outcome)->digest, bench_.load_config_file()->digest);
  EXPECT_FALSE((*outcome)->changed) << "no ring is another";
  EXPECT_THAT((*outcome)->warnings, IsEmpty());
  ASSERT_EQ(bench_.applied.size(), 1U);
  EXPECT_EQ(bench_.applied[0].snapshot.capture, CaptureMode::live);
  EXPECT_EQ(bench_.reloader->config().digest, (*outcome)->digest);
  EXPECT_EQ(reloads(), 1);
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring", "reloaded"));
}

TEST_F(ReloaderTest, SaysWhatChanged) {
  bench_.write_config(kLive);  // without the trigger of before
  const Outcome outcome = reload();
  ASSERT_EQ(text_of(outcome), "accepted");
  ASSERT_TRUE((*outcome)->changes);
  const std::vector<ReportedChange>& changes = *(*outcome)->changes;
  const auto change_of = [&](const std::string& path) {
    for (const ReportedChange& one : changes)
      if (one.path == path) return one;
    ADD_FAILURE() << path << " is not named";
    return ReportedChange{};
  };
  const ReportedChange capture = change_of("snapshot.capture");
  EXPECT_EQ(capture.before, "pause");
  EXPECT_EQ(capture.now, "live");
  EXPECT_EQ(capture.file, bench_.config_file());
  EXPECT_EQ(capture.line, 2);
  const ReportedChange cooldown = change_of("triggers.deploy.cooldown");
  EXPECT_EQ(cooldown.before, "1h");
  EXPECT_EQ(cooldown.now, std::nullopt);
  const Outcome again = reload();
  ASSERT_EQ(text_of(again), "accepted");
  ASSERT_TRUE((*again)->changes);
  EXPECT_EQ((*again)->changes->size(), 0U);
}

TEST_F(ReloaderTest, WhatFlightdRefusesTheBrokerIsNotAskedFor) {
  bench_.write_config("{\n  \"snapshot\": { \"capture\": \"sometimes\" }\n}\n");
  EXPECT_THAT(text_of(reload()), AllOf(StartsWith("io.flightd.Recorder.BadConfig"), HasSubstr("snapshot.capture"),
                                       HasSubstr("\"line\":2"), HasSubstr(bench_.config_file())));
  EXPECT_EQ(reloads(), 0);
  expect_nothing_changed();
}

TEST_F(ReloaderTest, WhatTheBrokerRefusesChangesNothing) {
  bench_.write_config(kLive);
  bench_.broker().refuse(Request::reload, std::errc::invalid_argument,
                         fmt::format("{}:2: the event does not exist", bench_.config_file()));
  EXPECT_THAT(text_of(reload()), AllOf(StartsWith("io.flightd.Recorder.BadConfig"), HasSubstr("does not exist"),
                                       HasSubstr("\"line\":2"), HasSubstr("nothing was changed")));
  EXPECT_EQ(reloads(), 1);
  expect_nothing_changed();
}

TEST_F(ReloaderTest, WithoutABrokerNothingChanges) {
  bench_.write_config(kLive);
  ASSERT_NO_FATAL_FAILURE(bench_.lose_broker());
  EXPECT_THAT(text_of(reload()),
              AllOf(StartsWith("io.flightd.Recorder.WriteFailed"), HasSubstr("nothing was changed")));
  expect_nothing_changed();
}

TEST_F(ReloaderTest, ABrokerThatDiesMeanwhileChangesNothing) {
  bench_.write_config(kLive);
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(hold_broker(outcome));
  ASSERT_NO_FATAL_FAILURE(bench_.lose_broker());
  ASSERT_TRUE(bench_.loop.until([&] { return outcome.has_value(); }));
  EXPECT_THAT(text_of(outcome), StartsWith("io.flightd.Recorder.WriteFailed"));
  expect_nothing_changed();
}

// A client that requests a reload during another one may have written the file after it was read.
TEST_F(ReloaderTest, ThoseWhoAskMeanwhileShareTheNextOne) {
  bench_.write_config(kLive);
  Outcome first, second, third;
  ASSERT_NO_FATAL_FAILURE(hold_broker(first));
  ask(second);
  ask(third);
  bench_.loop.poll();
  EXPECT_FALSE(first || second || third);
  bench_.write_config(kPlain);
  release_broker();
  ASSERT_TRUE(bench_.loop.until([&] { return first.has_value(); }));
  EXPECT_FALSE(second || third);
  ASSERT_TRUE(bench_.loop.until([&] { return second && third; }));
  EXPECT_EQ(text_of(first) + text_of(second) + text_of(third), "acceptedacceptedaccepted");
  EXPECT_EQ((*second)->digest, bench_.load_config_file()->digest);
  EXPECT_EQ((*third)->digest, (*second)->digest);
  EXPECT_EQ(bench_.applied.size(), 2U);
  EXPECT_EQ(reloads(), 2);
}

TEST_F(ReloaderTest, RingsThatWereReplacedAreReported) {
  bench_.write_config(kLive);
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(hold_broker(outcome));
  bench_.broker().say(Request::changed);
  release_broker();
  ASSERT_TRUE(bench_.loop.until([&] { return outcome.has_value(); }));
  ASSERT_EQ(text_of(outcome), "accepted");
  EXPECT_TRUE((*outcome)->changed);
  EXPECT_EQ(bench_.snapshots.recorder.changed, 1) << "attached once";
}

// The broker has done it: flightd cannot say that nothing was changed.
TEST_F(ReloaderTest, RingsThatFlightdCannotUseYetAreAWarning) {
  bench_.write_config(kLive);
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(hold_broker(outcome));
  bench_.broker().refuse(Request::attach, std::errc::not_enough_memory, "no memory for the rings");
  release_broker();
  ASSERT_TRUE(bench_.loop.until([&] { return outcome.has_value(); }));
  ASSERT_EQ(text_of(outcome), "accepted");
  EXPECT_TRUE((*outcome)->changed);
  EXPECT_THAT((*outcome)->warnings, ElementsAre(HasSubstr("no memory for the rings")));
  EXPECT_EQ(bench_.reloader->config().digest, (*outcome)->digest);
  EXPECT_THAT(bench_.reloader->warnings(), IsEmpty()) << "it ends with the next try";
  EXPECT_EQ(bench_.applied.size(), 1U);
  bench_.broker().obey(Request::attach);
  EXPECT_TRUE(soon([&] { return bench_.recorder().attach_warning().empty(); }));
  EXPECT_EQ(bench_.recorder().attached()->manifest.config_digest, (*outcome)->digest);
}

// Each time the broker has read another version of the files.
TEST_F(ReloaderTest, FilesThatDifferForTheBrokerAreReadThreeTimes) {
  bench_.write_config(kLive);
  bench_.broker().change([](BrokerSetup& setup) { setup.config_digest = "another"; });
  const Outcome outcome = reload();
  ASSERT_EQ(text_of(outcome), "accepted");
  EXPECT_THAT((*outcome)->warnings, ElementsAre(HasSubstr("another")));
  EXPECT_EQ(reloads(), 3);
  EXPECT_EQ(bench_.applied.size(), 1U);
}

// The broker already uses a version that flightd accepted: it is not possible to go back.
TEST_F(ReloaderTest, AFileThatBreaksAfterBothAcceptedItIsTheNextReloads) {
  bench_.write_config(kLive);
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(hold_broker(outcome));
  bench_.broker().change([](BrokerSetup& setup) { setup.config_digest = "another"; });
  bench_.write_config("{ broken");
  release_broker();
  ASSERT_TRUE(bench_.loop.until([&] { return outcome.has_value(); }));
  ASSERT_EQ(text_of(outcome), "accepted");
  ASSERT_EQ(bench_.applied.size(), 1U);
  EXPECT_EQ(bench_.applied[0].snapshot.capture, CaptureMode::live);
}

TEST_F(ReloaderTest, WhatNeedsARestartStaysAndIsReported) {
  const std::string user = bench_.reloader->config().user;
  bench_.write_config(R"({ "user": "nobody", "snapshot": { "workers": "3", "capture": "live" } })");
  const Outcome outcome = reload();
  ASSERT_EQ(text_of(outcome), "accepted");
  EXPECT_THAT((*outcome)->warnings, ElementsAre(HasSubstr("user changed"), HasSubstr("snapshot.workers changed")));
  ASSERT_EQ(bench_.applied.size(), 1U);
  EXPECT_EQ(bench_.applied[0].user, user);
  EXPECT_EQ(bench_.applied[0].snapshot.capture, CaptureMode::live) << "the rest is in force";
  ASSERT_TRUE((*outcome)->changes);
  for (const ReportedChange& change : *(*outcome)->changes) {
    EXPECT_NE(change.path, "user") << "it did not change";
    EXPECT_NE(change.path, "snapshot.workers");
  }
  EXPECT_EQ(bench_.reloader->warnings(), (*outcome)->warnings);
}

TEST_F(ReloaderTest, WhatTheStoreWillDeleteIsSaidIfALimitChanged) {
  bench_.due = "3 snapshots are over the limits";
  bench_.write_config(kLive);
  Outcome outcome = reload();
  ASSERT_EQ(text_of(outcome), "accepted");
  EXPECT_THAT((*outcome)->warnings, IsEmpty());
  EXPECT_EQ(bench_.due_asked, 0);
  bench_.write_config(R"({ "store": { "max_files": 3 } })");
  outcome = reload();
  ASSERT_EQ(text_of(outcome), "accepted");
  EXPECT_THAT((*outcome)->warnings, ElementsAre("3 snapshots are over the limits"));
  EXPECT_EQ(bench_.due_asked, 1);
  EXPECT_THAT(bench_.reloader->warnings(), IsEmpty()) << "it is no state";
  EXPECT_EQ((*outcome)->lost_history, std::vector<std::string>());
}

TEST_F(ReloaderTest, TheReportSumsUpTheMemory) {
  const ConfigMemory memory = bench_.reloader->report().memory;
  const auto cpus = online_cpus().value().size();
  EXPECT_EQ(memory.ring_bytes, cpus * (64U << 10U));
  EXPECT_EQ(memory.staging_bytes, memory.ring_bytes);
  EXPECT_GT(memory.sideband_bytes, 0U);
  EXPECT_EQ(memory.trigger_bytes, 0U);
  EXPECT_GE(memory.program_bytes, 12U << 20U);
  EXPECT_EQ(memory.tracker_bytes, tracker_bytes(bench_.snapshots.recorder.recorder->beside().bytes));
  EXPECT_EQ(memory.cgroup_max_bytes, std::nullopt);
  EXPECT_EQ(memory.sum_bytes, memory.ring_bytes + memory.staging_bytes + memory.sideband_bytes + memory.program_bytes);
}

}  // namespace
}  // namespace flight::daemon
