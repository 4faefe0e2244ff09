// SPDX-License-Identifier: Apache-2.0
// ListTriggers, FireTrigger and SetTrigger, and the snapshots of automatic triggers.
#include "daemon/control/trigger_api.hpp"

#include <gmock/gmock.h>

#include <future>

#include "libcore/base/files.hpp"
#include "tests/unit/daemon/daemon_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class TriggerApiTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    ASSERT_NO_FATAL_FAILURE(bench_.start());
  }
  std::string fire(const std::string& name, bool test = false) {
    return bench_.call([&](ControlBackend::Done done) {
      bench_.trigger_api->fire(bench_.caller, {.name = name, .reason = "a release", .test = test}, std::move(done));
    });
  }
  std::string set(const std::string& name, bool enabled) {
    return bench_.call([&](ControlBackend::Done done) {
      bench_.trigger_api->set(bench_.caller, {.name = name, .enabled = enabled}, std::move(done));
    });
  }
  ListedTrigger row() {
    const std::string text =
        bench_.call([this](ControlBackend::Done done) { bench_.trigger_api->list(std::move(done)); });
    const auto rows = parse_listed_triggers(text);
    if (rows && rows->size() == 1) return rows->front();
    ADD_FAILURE() << text;
    return {};
  }
  Sidecar snapshot(const std::string& id) {
    const auto sidecar =
        parse_sidecar(bench_.call([&](ControlBackend::Done done) { bench_.store->describe(id, std::move(done)); }));
    EXPECT_TRUE(sidecar) << id;
    return sidecar.value_or(Sidecar{});
  }
  static Decision fired() { return {.trigger = "deploy", .reason = "by itself"}; }
  static std::string error(std::string_view name) { return fmt::format("{}.{} ", kInterface, name); }

  DaemonBench bench_;
};

TEST_F(TriggerApiTest, AFiringIsASnapshotOfTheCallers) {
  const std::string id = fire("deploy");
  const Sidecar taken = snapshot(id);
  EXPECT_EQ(taken.trigger, "deploy");
  EXPECT_EQ(taken.reason, "a release");
  EXPECT_FALSE(taken.test);
  ASSERT_EQ(taken.requests.size(), 1U);
  EXPECT_EQ(taken.requests[0].comm, "unit-daemon");
  const ListedTrigger listed = row();
  EXPECT_EQ(listed.kind, "external");
  EXPECT_EQ(listed.fired, 1U);
  EXPECT_EQ(listed.last_snapshot, id);
  EXPECT_THAT(bench_.events_of("deploy"), ElementsAre("trigger_fired", "snapshot_finished"));
}

// In the list, in the events and in the store, but against no limit.
TEST_F(TriggerApiTest, ATestCountsAsAFiring) {
  const std::string id = fire("deploy", true);
  EXPECT_THAT(snapshot(id).reason, HasSubstr("test of the trigger"));
  EXPECT_TRUE(snapshot(id).test);
  EXPECT_THAT(bench_.events_of("deploy"), ElementsAre("trigger_fired", "snapshot_finished"));
  const ListedTrigger listed = row();
  EXPECT_EQ(listed.fired, 1U);
  EXPECT_NE(listed.last_fired, std::nullopt);
  EXPECT_EQ(listed.last_snapshot, id);
  EXPECT_THAT(fire("deploy"), Not(HasSubstr("Suppressed"))) << "the cooldown is an hour";
  EXPECT_EQ(row().fired, 2U);
}

TEST_F(TriggerApiTest, ATestThatFailedGivesNoFiringBack) {
  fire("deploy");
  bench_.snapshots.refuse_room(Error{std::make_error_code(std::errc::no_space_on_device), "the disk is full"});
  EXPECT_THAT(fire("deploy", true), StartsWith(error("StoreFull")));
  EXPECT_THAT(row().note, HasSubstr("the disk is full"));
  bench_.snapshots.refuse_room(std::nullopt);
  EXPECT_THAT(fire("deploy"), AllOf(StartsWith(error("Suppressed")), HasSubstr("cooldown")));
}

TEST_F(TriggerApiTest, WhatDoesNotFireHasAnErrorOfItsOwn) {
  EXPECT_THAT(fire("depoly"), AllOf(StartsWith(error("NoSuchTrigger")), HasSubstr("depoly")));
  EXPECT_THAT(set("depoly", false), StartsWith(error("NoSuchTrigger")));
  fire("deploy");
  EXPECT_THAT(fire("deploy"), AllOf(StartsWith(error("Suppressed")), HasSubstr("cooldown")));
  EXPECT_EQ(set("deploy", false), "{}");
  EXPECT_THAT(fire("deploy"), StartsWith(error("TriggerDisabled")));
  bench_.triggers->stop();
  EXPECT_THAT(fire("deploy"), StartsWith(error("Stopping")));
  EXPECT_THAT(set("deploy", true), StartsWith(error("Stopping")));
}

TEST_F(TriggerApiTest, ASnapshotThatFailedIsTheCallersErrorAndTheTriggersNote) {
  bench_.snapshots.refuse_room(Error{std::make_error_code(std::errc::no_space_on_device), "the disk is full"});
  EXPECT_THAT(fire("deploy"), StartsWith(error("StoreFull")));
  EXPECT_THAT(row().note, HasSubstr("the disk is full"));
  EXPECT_EQ(row().last_snapshot, std::nullopt);
}

TEST_F(TriggerApiTest, ASwitchIsSaved) {
  EXPECT_EQ(set("deploy", false), "{}");
  EXPECT_FALSE(row().enabled);
  const std::string file = bench_.snapshots.recorder.folder + "/triggers.state";
  ASSERT_TRUE(bench_.loop.until([&] { return read_file(file).has_value(); }));
  const auto state = parse_trigger_state(read_file(file).value());
  ASSERT_TRUE(state) << state.error().what;
  ASSERT_EQ(state->triggers.size(), 1U);
  EXPECT_EQ(state->triggers[0].enabled, false);
}

TEST_F(TriggerApiTest, OneThatFiresByItselfIsFlightdsRequest) {
  bench_.trigger_api->take(fired());
  ASSERT_TRUE(bench_.loop.until([this] { return bench_.api->last().has_value(); }));
  const Sidecar taken = snapshot(bench_.api->last()->id);
  EXPECT_EQ(taken.trigger, "deploy");
  EXPECT_EQ(taken.reason, "by itself");
  ASSERT_EQ(taken.requests.size(), 1U);
  EXPECT_EQ(taken.requests[0].comm, "flightd");
  // The trigger thread notes it a moment after the snapshot is listed.
  std::optional<std::string> noted;
  ASSERT_TRUE(soon([&] { return (noted = row().last_snapshot).has_value(); }));
  EXPECT_EQ(noted, taken.id);
}

// Behind the snapshot: if that fails, the firing is taken back.
TEST_F(TriggerApiTest, TheLastOneOfADaySaysThatTheTriggerIsBlind) {
  Decision last = fired();
  last.blind_until = std::chrono::seconds(1'790'000'000);
  last.max_per_day = 3;
  bench_.snapshots.refuse_room(Error{std::make_error_code(std::errc::no_space_on_device), "the disk is full"});
  bench_.trigger_api->take(last);
  ASSERT_TRUE(soon([this] { return row().note.find("the disk is full") != std::string::npos; }));
  const auto blind = [this] {
    std::vector<std::string> out;
    for (const JournalEntry& entry : bench_.journal)
      if (entry.message.find("blind") != std::string::npos) out.push_back(entry.message);
    return out;
  };
  EXPECT_THAT(blind(), IsEmpty());
  bench_.snapshots.refuse_room(std::nullopt);
  bench_.trigger_api->take(last);
  ASSERT_TRUE(bench_.loop.until([&] { return !blind().empty(); }));
  EXPECT_THAT(blind(), ElementsAre(AllOf(StartsWith("deploy: "), HasSubstr("max_per_day (3)"),
                                         HasSubstr("until 2026-09-21T14:13:20.000Z"))));
  EXPECT_THAT(bench_.journal.back().message, HasSubstr("blind"));
  bench_.trigger_api->take(fired());
  ASSERT_TRUE(bench_.loop.until([this] { return bench_.events_of("deploy").back() == "snapshot_finished"; }));
  EXPECT_EQ(blind().size(), 1U);
}

TEST_F(TriggerApiTest, WhileNothingIsRecordedNoSnapshotIsTaken) {
  bench_.call([this](ControlBackend::Done done) { bench_.recording->set(false, "a test", std::move(done)); });
  bench_.trigger_api->take(fired());
  EXPECT_THAT(row().note, HasSubstr("nothing was recorded then"));
  EXPECT_THAT(bench_.snapshots.begun(), IsEmpty());
  bench_.call([this](ControlBackend::Done done) { bench_.recording->set(true, "a test", std::move(done)); });
  ASSERT_NO_FATAL_FAILURE(bench_.lose_broker());
  bench_.trigger_api->take(fired());
  EXPECT_THAT(row().note, HasSubstr("nothing was recorded then"));
  EXPECT_THAT(bench_.snapshots.begun(), IsEmpty());
}

// A trigger whose recording would last an hour.
class TriggersRecordingTest : public TriggerApiTest {
 protected:
  void SetUp() override {
    bench_.write_config(R"({ "record": { "workers": "1" }, "store": { "keep_free": "0" },
                             "triggers": { "deploy": { "external": true, "action": { "record": "1h" } } } })");
    TriggerApiTest::SetUp();
  }
  void TearDown() override {
    if (!bench_.recordings) return;
    for (std::string id = bench_.recordings->running_id(); !id.empty(); id = bench_.recordings->running_id())
      if (const std::string stopped = stop(id); !stopped.starts_with('{')) FAIL() << stopped;
  }
  std::string stop(const std::string& id) {
    return bench_.call([&](ControlBackend::Done done) { bench_.recordings->stop(id, std::move(done)); });
  }
  // Waits until the trigger knows its recording; its id.
  std::string recording() {
    std::optional<std::string> id;
    EXPECT_TRUE(soon([&] { return (id = row().last_recording).has_value(); })) << row().note;
    return id.value_or("");
  }
  void expect_none(std::string_view why) {
    EXPECT_TRUE(soon([this] { return row().recordings_failed == 1; })) << "it is not counted";
    const ListedTrigger listed = row();
    EXPECT_EQ(listed.recordings, 0U);
    EXPECT_EQ(listed.last_recording, std::nullopt);
    EXPECT_THAT(listed.note, AllOf(HasSubstr("made no recording"), HasSubstr(std::string(why))));
  }
};

TEST_F(TriggersRecordingTest, AFiringIsASnapshotAndTheRecordingThatFollows) {
  const EventTime fired_ns = monotonic_now();
  const Sidecar taken = snapshot(fire("deploy"));
  EXPECT_EQ(taken.trigger, "deploy");
  EXPECT_EQ(taken.capture, "live") << "a pause would be a hole in the recording";
  const std::string id = recording();
  EXPECT_EQ(row().recordings, 1U);
  EXPECT_EQ(row().recordings_failed, 0U);
  fault(100);
  EXPECT_THAT(stop(id), HasSubstr(R"("ended":"asked")"));
  const Sidecar part = snapshot(id);
  EXPECT_EQ(part.trigger, "record");
  EXPECT_EQ(part.reason, "trigger deploy: a release");
  ASSERT_EQ(part.requests.size(), 1U);
  EXPECT_EQ(part.requests[0].comm, "flightd");
  EXPECT_GE(part.window.begin_ns, fired_ns);
  EXPECT_GE(part.samples, 100U);
  EXPECT_THAT(bench_.events_of("deploy"), ElementsAre("trigger_fired", "snapshot_finished"));
}

TEST_F(TriggersRecordingTest, OneThatFiresByItselfRecordsToo) {
  Decision decision = fired();
  decision.record = std::chrono::hours(1);
  bench_.trigger_api->take(decision);
  const std::string id = recording();
  EXPECT_THAT(stop(id), HasSubstr(R"("ended":"asked")"));
  EXPECT_EQ(snapshot(id).reason, "trigger deploy: by itself");
}

// What is under way is ended by its time, or by `flightctl record --stop`.
TEST_F(TriggersRecordingTest, ItGoesOnWhateverBecomesOfItsTrigger) {
  fire("deploy");
  const std::string id = recording();
  fire("deploy");
  EXPECT_EQ(row().recordings, 1U) << "it goes on longer";
  EXPECT_EQ(set("deploy", false), "{}");
  EXPECT_THAT(fire("deploy"), StartsWith(error("TriggerDisabled")));
  EXPECT_THAT(bench_.recordings->notes(), ElementsAre(HasSubstr(fmt::format("recording {} of trigger deploy", id))));
  bench_.triggers->replace({}, {});
  EXPECT_EQ(bench_.call([this](ControlBackend::Done done) { bench_.trigger_api->list(std::move(done)); }), "[]");
  EXPECT_EQ(bench_.recordings->running_id(), id);
  EXPECT_THAT(stop(id), HasSubstr(R"("ended":"asked")"));
}

TEST_F(TriggersRecordingTest, TheEndOfFlightdEndsItInOrder) {
  fire("deploy");
  const std::string id = recording();
  auto ended = std::async(std::launch::async, [this] { return bench_.recordings->end_all(kPatience); });
  ASSERT_TRUE(bench_.loop.until([&] { return is_there(ended); }));
  EXPECT_TRUE(ended.get());
  const Sidecar part = snapshot(id);
  ASSERT_TRUE(part.record);
  EXPECT_EQ(part.record->ended, "asked");
  EXPECT_EQ(row().recordings_failed, 0U);
}

// It would begin after `post`. The snapshot is cut short, or refused if the worker did not see it yet.
TEST_F(TriggersRecordingTest, OneThatTheEndOfFlightdPreventsIsCountedAsFailed) {
  Decision decision = fired();
  decision.post = decision.record = std::chrono::hours(1);
  bench_.trigger_api->take(decision);
  bench_.snapshots.worker->stop();
  expect_none("flightd is stopping");
  EXPECT_EQ(bench_.recordings->running_id(), "");
}

TEST_F(TriggersRecordingTest, ATestRecordsAndIsCounted) {
  fire("deploy", true);
  ASSERT_TRUE(bench_.loop.until([this] { return !bench_.recordings->running_id().empty(); }));
  const std::string id = bench_.recordings->running_id();
  stop(id);
  EXPECT_THAT(snapshot(id).reason, StartsWith("trigger deploy: test of the trigger"));
  EXPECT_EQ(row().recordings, 1U);
  EXPECT_EQ(row().last_recording, id);
}

TEST_F(TriggersRecordingTest, AThirdOneIsCountedAsFailed) {
  for (std::size_t i = 0; i < Recordings::kMost; ++i)
    bench_.recordings->record(bench_.caller, {}, {}, [](const CallResult<std::string>&) {});
  ASSERT_TRUE(bench_.loop.until([this] { return bench_.recordings->notes().size() == Recordings::kMost; }));
  const Sidecar taken = snapshot(fire("deploy"));
  EXPECT_EQ(taken.trigger, "deploy") << "its snapshot is taken all the same";
  expect_none("2 recordings run already");
}

TEST_F(TriggersRecordingTest, WithoutSpaceNothingIsLeft) {
  bench_.snapshots.refuse_room(Error{std::make_error_code(std::errc::no_space_on_device), "no space for it"});
  bench_.broker().refuse(Request::file, std::errc::no_space_on_device, "the disk is full");
  EXPECT_THAT(fire("deploy"), StartsWith(error("StoreFull")));
  expect_none("the disk is full");
  EXPECT_THAT(row().note, HasSubstr("no space for it")) << "the snapshot's reason";
  // The disk has space again.
  bench_.snapshots.refuse_room(std::nullopt);
  bench_.broker().obey(Request::file);
  EXPECT_EQ(snapshot(fire("deploy")).trigger, "deploy");
  recording();
  EXPECT_EQ(row().note, "");
}

TEST_F(TriggersRecordingTest, WhileNothingIsRecordedThereIsNone) {
  bench_.call([this](ControlBackend::Done done) { bench_.recording->set(false, "a test", std::move(done)); });
  Decision decision = fired();
  decision.record = std::chrono::hours(1);
  bench_.trigger_api->take(decision);
  expect_none("nothing was recorded then");
  EXPECT_EQ(bench_.recordings->running_id(), "");
}

}  // namespace
}  // namespace flight::daemon
