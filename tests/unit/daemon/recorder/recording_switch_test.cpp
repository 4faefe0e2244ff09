// SPDX-License-Identifier: Apache-2.0
// SetRecording: its effects on the broker, the triggers and the snapshots, and its notifications.
#include "daemon/recorder/recording_switch.hpp"

#include <gmock/gmock.h>

#include "tests/unit/daemon/daemon_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class RecordingSwitchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    ASSERT_NO_FATAL_FAILURE(bench_.start());
  }
  std::string set(bool on) {
    return bench_.call([&](ControlBackend::Done done) { bench_.recording->set(on, "a test", std::move(done)); });
  }
  std::string fire() {
    return bench_.call([&](ControlBackend::Done done) {
      bench_.trigger_api->fire(bench_.caller, {.name = "deploy"}, std::move(done));
    });
  }
  DaemonBench bench_;
};

TEST_F(RecordingSwitchTest, APauseReachesTheBrokerTheTriggersAndTheSnapshots) {
  EXPECT_EQ(set(false), "{}");
  EXPECT_FALSE(bench_.recording->on());
  EXPECT_EQ(bench_.broker().asked(Request::disable), 1);
  EXPECT_THAT(fire(), AllOf(StartsWith("io.flightd.Recorder.Suppressed"), HasSubstr("a pause of the recording")));
  const std::string taken = bench_.call([&](ControlBackend::Done done) {
    bench_.api->take(
        bench_.caller, {}, [](auto, auto) {}, std::move(done));
  });
  EXPECT_THAT(parse_sidecar(taken).value().warnings, Contains(HasSubstr("recording is paused")));
  EXPECT_EQ(set(true), "{}");
  EXPECT_TRUE(bench_.recording->on());
  EXPECT_EQ(bench_.broker().asked(Request::enable), 1);
  EXPECT_THAT(fire(), Not(StartsWith("io."))) << "an id";
}

TEST_F(RecordingSwitchTest, OnlyAChangeIsAnEvent) {
  for (const bool on : {true, false, false, true}) EXPECT_EQ(set(on), "{}");
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring", "recording_paused", "recording_resumed"));
}

TEST_F(RecordingSwitchTest, WhatTheBrokerRefusesChangesNothing) {
  bench_.broker().refuse(Request::disable, std::errc::io_error, "an event is stuck");
  EXPECT_THAT(set(false), AllOf(StartsWith("io.flightd.Recorder.WriteFailed"), HasSubstr("an event is stuck")));
  EXPECT_TRUE(bench_.recording->on());
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring"));
  EXPECT_THAT(fire(), Not(StartsWith("io."))) << "an id";
}

// Who asked is not kept waiting for a broker that does not answer.
class SilentBrokersSwitch : public RecordingSwitchTest {
 protected:
  SilentBrokersSwitch() { bench_.says_so_after = std::chrono::milliseconds(0); }
};

TEST_F(SilentBrokersSwitch, IsReportedAndTakesEffectWhenItAnswers) {
  bench_.broker().leave(Request::disable);
  EXPECT_THAT(set(false),
              AllOf(StartsWith("io.flightd.Recorder.WriteFailed"), HasSubstr("flightd-broker has not answered"),
                    HasSubstr("recording is paused if it still does")));
  EXPECT_TRUE(bench_.recording->on());
  ASSERT_TRUE(soon([this] { return bench_.broker().asked(Request::disable) == 1; }));
  bench_.broker().obey(Request::disable);
  bench_.broker().say(Request::disable);
  EXPECT_TRUE(bench_.loop.until([this] { return !bench_.recording->on(); }));
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring", "recording_paused"));
}

}  // namespace
}  // namespace flight::daemon
