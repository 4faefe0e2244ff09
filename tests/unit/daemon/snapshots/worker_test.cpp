// SPDX-License-Identifier: Apache-2.0
// The snapshot worker with brokers that refuse, hang and die, and with disks that fail.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

#include "libcore/base/partial_name.hpp"
#include "libcore/store/leftovers.hpp"
#include "tests/unit/daemon/snapshots/snapshot_bench.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SnapshotWorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
  }
  void start(bool followed = false) {
    ASSERT_NO_FATAL_FAILURE(bench_.start(followed));
    ASSERT_TRUE(bench_.has_spare_files()) << "it prepares for its broker's death";
    EXPECT_EQ(broker().asked(Request::spare), 2);
  }
  FakeBroker& broker() { return *bench_.recorder.broker; }
  RecorderThread& recorder() { return *bench_.recorder.recorder; }
  Result<Sidecar> take() {
    auto answer = bench_.ask(by_person());
    return answer_of(answer);
  }
  // Not counting the spare files.
  std::vector<std::string> files() {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(bench_.recorder.snapshots())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(".flightd-spare") && name != ".seq") out.push_back(name);
    }
    return out;
  }
  // The broker is gone for good, or until reconnect().
  void lose_broker() {
    broker().die();
    ASSERT_TRUE(soon([this] { return bench_.recorder.lost == 1; }));
  }
  // After a snapshot and the end of the worker: how many bytes of its staging memory are not zero.
  std::size_t left_in_staging(std::uint32_t stack_bytes) {
    bench_.rings = small_recording(kBusy, {}, {}, 64U << 10U, 1, stack_bytes);
    start();
    fault(50);
    const auto taken = take();
    EXPECT_TRUE(taken) << taken.error().what;
    EXPECT_TRUE(!taken || taken->samples > 0);
    bench_.end();
    std::size_t left = 0;
    for (const RingImage& image : recorder().attached()->staging.images())
      left += static_cast<std::size_t>(
          std::count_if(image.bytes.begin(), image.bytes.end(), [](std::byte one) { return one != std::byte{0}; }));
    return left;
  }
  SnapshotBench::Answer ask_last() { return bench_.ask(SnapshotRequest::of_flightd(kBrokerLost, "a test")); }

  SnapshotBench bench_;
};

TEST_F(SnapshotWorkerTest, ASnapshotHasWhatTheRingsHeld) {
  bench_.metrics = [] {
    SidecarMetrics out;
    out.recent.step_ns = 7;
    return out;
  };
  start();
  fault(100);
  const auto taken = take();
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_GE(taken->samples, 100U);
  EXPECT_EQ(taken->capture, "pause");
  EXPECT_TRUE(taken->blackout.lost_exact);
  ASSERT_TRUE(taken->metrics);
  EXPECT_EQ(taken->metrics->recent.step_ns, 7U);
  ASSERT_EQ(taken->requests.size(), 1U);
  EXPECT_EQ(taken->requests[0].reason, "a person");
  EXPECT_TRUE(std::filesystem::exists(taken->path));
  EXPECT_EQ(files().size(), 2U) << "data and sidecar";
}

TEST_F(SnapshotWorkerTest, ItsSidecarHasTheWarningOfTheStore) {
  bench_.store_warning = "it is another directory";
  start();
  const auto taken = take();
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_THAT(taken->warnings, Contains("it is another directory"));
}

TEST_F(SnapshotWorkerTest, AfterASnapshotNoCopyOfAStackIsLeft) {
  EXPECT_EQ(left_in_staging(512), 0U);
  EXPECT_TRUE(recorder().attached()->events.copies_user());
}

TEST_F(SnapshotWorkerTest, StagingWithoutCopiesOfStacksIsNotWiped) {
  EXPECT_GT(left_in_staging(0), 0U);
  EXPECT_FALSE(recorder().attached()->events.copies_user());
}

// A pause would be a hole in the recording.
TEST_F(SnapshotWorkerTest, WhileARecordingRunsRingsAreCopiedLive) {
  bench_.recording_id = "12";
  start();
  fault(100);
  const auto taken = take();
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_EQ(taken->capture, "live");
  EXPECT_THAT(taken->notes, Contains(HasSubstr("because recording 12 reads them")));
  EXPECT_EQ(taken->blackout.max_us, 0);
}

TEST_F(SnapshotWorkerTest, ItsSidecarSaysWhetherSamplesAreDelivered) {
  start();
  const auto silence = Contains(HasSubstr("no sampling event delivered samples"));
  for (const auto& [delivery, word] :
       {std::pair(Delivery::on, "on"), {Delivery::unproven, "unproven"}, {Delivery::silent, "silent"}}) {
    broker().change([delivery = delivery](BrokerSetup& setup) { setup.delivery = delivery; });
    const auto taken = take();
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_EQ(taken->recording, word);
    if (delivery == Delivery::silent) {
      EXPECT_THAT(taken->errors, silence);
    } else {
      EXPECT_THAT(taken->errors, Not(silence));
    }
  }
}

TEST_F(SnapshotWorkerTest, ABrokerThatMakesNoFileIsAnErrorOfThisSnapshotOnly) {
  start();
  broker().refuse(Request::file, std::errc::read_only_file_system, "the folder is read-only");
  const auto failed = take();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errno_value(), EROFS);
  EXPECT_THAT(failed.error().what, HasSubstr("the folder is read-only"));
  EXPECT_THAT(files(), IsEmpty());
  broker().obey(Request::file);
  EXPECT_TRUE(take());
}

// In an earlier version each later snapshot was refused, with the advice to free some space on the disk.
TEST_F(SnapshotWorkerTest, LeftoversThatCanBeRemovedDoNotRefuseASnapshot) {
  start();
  const std::string name = partial_name(UINT64_MAX);
  const std::string path = bench_.recorder.snapshots() + "/" + name;
  std::filesystem::create_directory(path);
  std::ofstream(path + "/other") << "so that it cannot be removed";
  remove_unfinished(bench_.recorder.snapshots(), name);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    const std::string removable = partial_name(UINT64_MAX - i);
    std::ofstream(bench_.recorder.snapshots() + "/" + removable) << "x";
    remember_leftover(bench_.recorder.snapshots(), removable);
  }
  broker().change([](BrokerSetup& setup) { setup.most_unfinished = 1; });
  const auto failed = take();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errno_value(), ENOTEMPTY) << "the reason of its removal";
  EXPECT_THAT(failed.error().what, testing::AllOf(HasSubstr("too many unfinished files"), HasSubstr(path)));
  broker().change([](BrokerSetup& setup) { setup.most_unfinished = 3; });
  EXPECT_TRUE(take()) << "the two others were removed";
  broker().change([](BrokerSetup& setup) { setup.most_unfinished = 2; });
  std::filesystem::remove(path + "/other");
  const auto taken = take();
  EXPECT_TRUE(taken) << taken.error().what;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SnapshotWorkerTest, AFolderThatWentAwayIsAnError) {
  start();
  std::filesystem::rename(bench_.recorder.snapshots(), bench_.recorder.folder + "/moved");
  const auto failed = take();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errno_value(), ENOENT);
  EXPECT_THAT(failed.error().what, HasSubstr(bench_.recorder.snapshots()));
}

TEST_F(SnapshotWorkerTest, ARoomThatIsRefusedLeavesNoFile) {
  start();
  bench_.refuse_room(Error{std::make_error_code(std::errc::no_space_on_device), "the disk is full"});
  EXPECT_EQ(take().error().errno_value(), ENOSPC);
  EXPECT_EQ(broker().asked(Request::file), 0);
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SnapshotWorkerTest, WithoutCountsTheLossIsNotKnown) {
  start();
  broker().refuse(Request::counts, std::errc::io_error, "no counts");
  const auto taken = take();
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_FALSE(taken->blackout.lost_exact);
}

using SnapshotOfASilentBrokerLong = SnapshotWorkerTest;

TEST_F(SnapshotOfASilentBrokerLong, ItsAskerLearnsWhatItWaitsFor) {
  start();
  broker().leave(Request::counts);
  auto told = std::make_shared<std::atomic<bool>>(false);
  SnapshotRequest request = by_person();
  request.progress = [told](std::string_view step, unsigned) {
    if (step == "waiting for flightd-broker") *told = true;
  };
  auto answer = bench_.ask(std::move(request));
  ASSERT_TRUE(soon([&] { return told->load(); }));
  broker().obey(Request::counts);
  broker().say(Request::counts);
  const auto taken = answer_of(answer);
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_FALSE(taken->blackout.lost_exact);
}

TEST_F(SnapshotWorkerTest, WhatIsNotRecordedIsInEachSnapshot) {
  bench_.missing = {"channel 'stacks': cycles delivers no samples on CPU 1"};
  start();
  const auto taken = take();
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_THAT(taken->warnings, Contains(HasSubstr("no samples on CPU 1")));
}

TEST_F(SnapshotWorkerTest, WithoutTheKernelsNamesItSaysSo) {
  start();
  broker().refuse(Request::kernel, std::errc::io_error, "no modules");
  const auto taken = take();
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_THAT(taken->warnings, Contains(HasSubstr("no modules")));
}

TEST_F(SnapshotWorkerTest, AnotherConfigurationIsOfTheNextRequests) {
  start();
  auto held = bench_.ask_and_hold(by_person());
  bench_.worker->configure({.capture = CaptureMode::live, .compression = "none"});
  bench_.begin.open();
  const auto before = answer_of(held), after = take();
  ASSERT_TRUE(before && after);
  EXPECT_EQ(before->capture + " " + before->compression, "pause zstd");
  EXPECT_EQ(after->capture + " " + after->compression, "live none");
}

TEST_F(SnapshotWorkerTest, ASnapshotWhileTheBrokerIsReplacedWaitsForTheNextOne) {
  start(true);
  broker().leave(Request::file);
  auto answer = bench_.ask(by_person());
  ASSERT_TRUE(soon([this] { return broker().asked(Request::file) == 1; }));
  bench_.recorder.replace_broker(bench_.setup());
  const auto taken = answer_of(answer);
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_EQ(taken->trigger, "manual");
  EXPECT_THAT(taken->errors, IsEmpty());
  EXPECT_EQ(bench_.recorder.replaced, 1);
}

// One request was frozen, one waited: the last snapshot answers both, with files that were made before.
TEST_F(SnapshotWorkerTest, WhenTheBrokerDiesTheLastSnapshotAnswersAll) {
  start();
  broker().leave(Request::file);
  auto frozen = bench_.ask(by_person());
  ASSERT_TRUE(soon([this] { return broker().asked(Request::file) == 1; }));
  auto waiting = bench_.ask(by_trigger("spike"));
  ASSERT_NO_FATAL_FAILURE(lose_broker());
  auto last = ask_last();
  const auto result = answer_of(last);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->trigger, kBrokerLost);
  EXPECT_THAT(result->errors, Contains(HasSubstr("flightd-broker is gone")));
  EXPECT_EQ(result->recording, "off");
  EXPECT_TRUE(std::filesystem::exists(result->path));
  EXPECT_EQ(answer_of(frozen).value().id, result->id);
  EXPECT_EQ(answer_of(waiting).value().id, result->id);
  EXPECT_FALSE(take()) << "there is nothing more to be had";
}

TEST_F(SnapshotWorkerTest, WhoIsStrandedWhenFlightdEndsIsAnswered) {
  start();
  broker().leave(Request::file);
  auto frozen = bench_.ask(by_person());
  ASSERT_TRUE(soon([this] { return broker().asked(Request::file) == 1; }));
  ASSERT_NO_FATAL_FAILURE(lose_broker());
  bench_.worker->stop();
  const auto result = answer_of(frozen);
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().code == std::errc::operation_canceled) << result.error().what;
}

TEST_F(SnapshotWorkerTest, TheNextBrokerMakesTheLastSnapshotRootsOwn) {
  start(true);
  bench_.recorder.replace_broker({.recording = 2});
  ASSERT_TRUE(soon([this] { return bench_.recorder.lost == 1; }));
  auto last = ask_last();
  const auto result = answer_of(last);
  ASSERT_TRUE(result) << result.error().what;
  struct stat info {};
  const auto group_may_write = [&] {
    EXPECT_EQ(::stat(result->path.c_str(), &info), 0);
    return (info.st_mode & S_IWGRP) != 0;
  };
  EXPECT_TRUE(group_may_write()) << "a spare file";
  BrokerSetup second = bench_.setup();
  second.recording = 2;
  bench_.recorder.replace_broker(std::move(second));
  std::promise<void> attached;
  recorder().reconnect(BrokerThread::kReconnectFor, [&](const Result<bool>& same) {
    EXPECT_TRUE(same) << same.error().what;
    attached.set_value();
  });
  attached.get_future().wait();
  bench_.worker->broker_is_back();
  EXPECT_TRUE(soon([&] { return !group_may_write(); }));
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), result->size_bytes) << "with the same bytes";
  EXPECT_TRUE(soon([this] { return bench_.recorder.next->asked(Request::spare) == 2; })) << "prepared again";
  EXPECT_TRUE(take());
  EXPECT_THAT(bench_.warnings(), IsEmpty());
}

TEST_F(SnapshotWorkerTest, ADirectoryInPlaceOfTheNumbersFileIsReportedOnce) {
  start();
  std::filesystem::create_directory(bench_.recorder.snapshots() + "/.seq");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(take());
  EXPECT_THAT(bench_.warnings(), testing::ElementsAre(HasSubstr("/.seq is a directory")));
}

// The disk of the new directory may be slow.
TEST_F(SnapshotWorkerTest, ARequestThatWaitsGoesBeforeTheSpareFilesOfAMovedStore) {
  start();
  std::vector<std::ptrdiff_t> asked;
  bench_.on_ended = [&](const Result<Sidecar>&) { asked.push_back(broker().asked(Request::spare)); };
  auto first = bench_.ask_and_hold(by_person());
  auto second = bench_.ask(by_person());
  bench_.worker->folder_changed();
  bench_.begin.open();
  EXPECT_TRUE(answer_of(first));
  EXPECT_TRUE(answer_of(second));
  EXPECT_THAT(asked, testing::ElementsAre(2, 2));
  EXPECT_TRUE(soon([this] { return broker().asked(Request::spare) == 4; })) << "they are made afterwards";
}

// After five seconds, and another 200 ms without a request.
TEST_F(SnapshotWorkerTest, SpareFilesThatAreRefusedAreRequestedAgain) {
  constexpr std::chrono::nanoseconds kRetry = 5s, kQuietFor = 200ms;
  VirtualClock& clock = bench_.clock.emplace();
  bench_.open_rings();
  ASSERT_TRUE(bench_.rings);
  BrokerSetup setup = bench_.setup();
  setup.refused[Request::spare] = {std::make_error_code(std::errc::no_space_on_device), "the disk is full"};
  ASSERT_NO_FATAL_FAILURE(bench_.recorder.start(std::move(setup)));
  ASSERT_NO_FATAL_FAILURE(bench_.start_worker());
  const EventTime retry_ns = clock.now() + static_cast<EventTime>(kRetry.count());
  const EventTime again_ns = retry_ns + static_cast<EventTime>(kQuietFor.count());
  ASSERT_TRUE(clock.is_waited_for(retry_ns));
  EXPECT_EQ(broker().asked(Request::spare), 1);
  EXPECT_THAT(bench_.warnings(), Contains(HasSubstr("the disk is full")));
  broker().obey(Request::spare);
  clock.advance(kRetry - 1ns);
  EXPECT_TRUE(clock.is_waited_for(retry_ns));
  clock.advance(1ns);
  ASSERT_TRUE(clock.is_waited_for(again_ns));
  clock.advance(kQuietFor - 1ns);
  EXPECT_TRUE(clock.is_waited_for(again_ns));
  EXPECT_EQ(broker().asked(Request::spare), 1);
  clock.advance(1ns);
  EXPECT_TRUE(bench_.has_spare_files());
  EXPECT_EQ(broker().asked(Request::spare), 3) << "two files";
}

}  // namespace
}  // namespace flight::daemon
