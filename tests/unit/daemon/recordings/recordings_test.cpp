// SPDX-License-Identifier: Apache-2.0
// Recordings of real rings into a real directory, with a fake broker: what they have, refusals, their ends.
#include "daemon/recordings/recordings.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "tests/unit/daemon/recordings/recordings_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

TEST_F(LargeRingsTest, ARecordingHasThePastAndWhatFollows) {
  fault(100);
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.past_ns = 3'600'000'000'000, .for_ns = {}, .reason = "slow"}));
  const std::string id = call.steps.front().id;
  EXPECT_EQ(recordings_->running_id(), id);
  fault(200);
  const RecordResult result = stop(call);
  EXPECT_EQ(result.id, id);
  EXPECT_EQ(result.ended, "asked");
  EXPECT_THAT(result.progress.finished, ElementsAre(id));
  EXPECT_THAT(result.warnings, Contains(HasSubstr("that were asked for"))) << "the rings are younger than an hour";
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  EXPECT_EQ(sidecar.id, id);
  EXPECT_EQ(sidecar.trigger, "record");
  EXPECT_EQ(sidecar.capture, "live");
  EXPECT_EQ(sidecar.reason, "slow");
  ASSERT_EQ(sidecar.requests.size(), 1U);
  ASSERT_TRUE(sidecar.record);
  EXPECT_EQ(sidecar.record->first, id);
  EXPECT_EQ(sidecar.record->part, 1U);
  EXPECT_EQ(sidecar.record->ended, "asked");
  EXPECT_EQ(sidecar.record->holes_known, true);
  EXPECT_GE(own_samples_in(result.paths[0]), 300U) << "those of other processes do not count";
  EXPECT_EQ(sidecar.samples, samples_in(result.paths[0]));
  EXPECT_EQ(sidecar.samples, result.progress.events);
  EXPECT_GT(sidecar.window.seconds, 0);
  EXPECT_THAT(files(kPartialSuffix), IsEmpty()) << "neither a journal nor a file that is not whole";
  EXPECT_EQ(recordings_->running_id(), "");
}

// The recording has the events that happen while its files are made.
TEST_F(LargeRingsTest, WithoutAPastItBeginsWhenItIsAskedFor) {
  fault(100);
  const EventTime before_ns = monotonic_now();
  bench_.broker->leave(Request::file);
  RecordCall call;
  record(call);
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) == 1; }));
  fault(200);
  bench_.broker->obey(Request::file);
  bench_.broker->say(Request::file);
  ASSERT_TRUE(loop_.until([&] { return !call.steps.empty() || call.answer; }));
  ASSERT_FALSE(call.answer) << call.error();
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  EXPECT_GE(own_samples_in(result.paths[0]), 200U);
  EXPECT_GE(sidecar.window.begin_ns, before_ns) << "and nothing that was before";
  EXPECT_TRUE(sidecar.holes.empty());
}

// Its destructor runs on the event loop, which must not free hundreds of MiB.
TEST_F(RecordingsTest, ItsMemoryIsFreeWhenItHasEnded) {
  const auto attached = bench_.recorder->attached();
  const auto uses = attached.use_count();
  std::promise<bool> freed;
  RecordingOrder order;
  order.for_ns = 1;
  order.max_bytes = order.part_bytes = 64U << 20U;
  order.workers = "1";
  auto running =
      RunningRecording::start({.recorder = *bench_.recorder, .store = *store_, .host = host_}, std::move(order),
                              {.begun = [](const std::string&) {},
                               .progress = [](const std::string&, const RecordProgress&) {},
                               .ended =
                                   [&](const RecordingOutcome& outcome) {
                                     EXPECT_TRUE(outcome.result);
                                     // The recorder's thread has another one for a moment.
                                     freed.set_value(soon([&] { return attached.use_count() <= uses; }));
                                   },
                               .warn = [](const Error&) {}});
  ASSERT_TRUE(running) << running.error().what;
  EXPECT_TRUE(freed.get_future().get());
}

TEST_F(RecordingsTest, AThirdOneIsRefused) {
  RecordCall first, second, third;
  ASSERT_NO_FATAL_FAILURE(begin(first));
  ASSERT_NO_FATAL_FAILURE(begin(second, {.channels = {"faults"}}));
  record(third);
  ASSERT_TRUE(third.answer);
  EXPECT_THAT(third.error(), HasSubstr("RecordingRefused"));
  EXPECT_THAT(third.error(), HasSubstr(first.steps.front().id + ", " + second.steps.front().id));
  static_cast<void>(stop(first));
  RecordCall fourth;
  ASSERT_NO_FATAL_FAILURE(begin(fourth));
  static_cast<void>(stop(second));
  static_cast<void>(stop(fourth));
}

TEST_F(RecordingsTest, AClientThatGoesAwayEndsItsRecording) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  call.client.reset();
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  EXPECT_EQ(call.result().paths.size(), 1U);
}

TEST_F(RecordingsTest, WhatCannotBeginLeavesNothing) {
  RecordCall unknown;
  record(unknown, {.channels = {"no\nsuch"}});
  ASSERT_TRUE(loop_.until([&] { return unknown.answer.has_value(); }));
  EXPECT_THAT(unknown.error(), HasSubstr("RecordingRefused"));
  EXPECT_THAT(unknown.error(), HasSubstr("no channel 'no?such'; there are: faults")) << "it is also in the log";

  bench_.broker->refuse(Request::file, std::errc::no_space_on_device, "the disk is full");
  RecordCall full;
  record(full);
  ASSERT_TRUE(loop_.until([&] { return full.answer.has_value(); }));
  EXPECT_THAT(full.error(), HasSubstr("StoreFull"));
  EXPECT_THAT(full.error(), HasSubstr("the disk is full"));
  EXPECT_THAT(files(""), ElementsAre(".seq"));
  std::optional<CallResult<std::string>> stopped;
  recordings_->stop("4711", [&](CallResult<std::string> got) { stopped = std::move(got); });
  ASSERT_TRUE(stopped && !*stopped);
  EXPECT_THAT(stopped->error().name, HasSubstr("NoSuchRecording"));
}

TEST_F(RecordingsTest, APauseIsAHole) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  constexpr EventTime kPausedNs = 30'000'000;
  const EventTime before_ns = monotonic_now();
  for (const bool on : {false, true}) {
    auto promise = std::make_shared<std::promise<Result<void>>>();
    auto answer = promise->get_future();
    bench_.recorder->set_recording(on, "a test", [promise](const Result<void>& done) { promise->set_value(done); });
    ASSERT_TRUE(answer_of(answer));
    if (!on) {
      ASSERT_TRUE(soon([until_ns = monotonic_now() + kPausedNs] { return monotonic_now() >= until_ns; }));
    }
  }
  const EventTime after_ns = monotonic_now();
  fault(100);
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  std::size_t paused = 0;
  for (const SidecarHole& hole : sidecar.holes) {
    if (hole.cause != "paused") continue;
    ++paused;
    EXPECT_GE(hole.begin_ns, before_ns);
    EXPECT_LE(hole.end_ns, after_ns);
    EXPECT_GE(hole.end_ns, hole.begin_ns + kPausedNs);
  }
  EXPECT_EQ(paused, online_cpus().value().size()) << "one in each ring";
}

TEST_F(RecordingsTest, ABrokerThatWasGoneIsInTheSidecar) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  const EventTime lost_ns = monotonic_now();
  fault(100);
  const EventTime back_ns = monotonic_now();
  bench_.recorder->gaps().without_broker(lost_ns, back_ns);
  // A part may be longer than what the rings hold, and snapshots are taken meanwhile.
  const auto cpus = online_cpus();
  ASSERT_TRUE(cpus);
  ASSERT_TRUE(soon([&] {
    for (const int cpu : *cpus) {
      const OnCpu there(cpu);
      fault(400);
    }
    return bench_.recorder->oldest_held_ns() > back_ns;
  }));
  EXPECT_THAT(bench_.recorder->gaps().warnings(0, UINT64_MAX, bench_.recorder->oldest_held_ns()), IsEmpty());
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  EXPECT_THAT(sidecar_of(result.paths[0]).warnings, Contains(HasSubstr("flightd-broker was gone from")));
}

TEST_F(RecordingsTest, AllEndInOrderWhenFlightdStops) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(50);
  auto ended = std::async(std::launch::async, [this] { return recordings_->end_all(kPatience); });
  ASSERT_TRUE(loop_.until([&] { return is_there(ended); }));
  EXPECT_TRUE(ended.get());
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  RecordCall late;
  record(late);
  EXPECT_THAT(late.error(), HasSubstr("Stopping"));
}

// The broker waits for it, and the recording for the broker.
TEST_F(RecordingsTest, ADiskThatDoesNotAnswerDoesNotKeepFlightd) {
  bench_.broker->leave(Request::file);
  RecordCall call;
  record(call);
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) == 1; }));
  EXPECT_FALSE(recordings_->end_all(std::chrono::seconds(0)));
  Recordings::Abandoned left = recordings_->abandon();
  EXPECT_EQ(left.size(), 1U);
  ASSERT_TRUE(call.answer);
  EXPECT_THAT(call.error(), HasSubstr("does not answer; the next flightd finishes its parts"));
  EXPECT_EQ(recordings_->running_id(), "");
  RecordCall late;
  record(late);
  EXPECT_THAT(late.error(), HasSubstr("Stopping"));
  // Here it answers in the end.
  bench_.broker->obey(Request::file);
  bench_.broker->say(Request::file);
  left.clear();
  loop_.poll();
}

// As its other work in bulk, at low priority.
TEST_F(RecordingsTest, RecoveryIsNiceToOthers) {
  recordings_->recover({4711});
  const auto nice_of_recovery = [] {
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
      const auto name = read_line((entry.path() / "comm").string());
      if (name && *name == "recordings")
        return ::getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(entry.path().filename().string())));
    }
    return -1;
  };
  EXPECT_TRUE(soon([&] { return nice_of_recovery() == 5; })) << nice_of_recovery();
}

}  // namespace
}  // namespace flight::daemon
