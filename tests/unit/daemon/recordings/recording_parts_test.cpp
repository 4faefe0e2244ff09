// SPDX-License-Identifier: Apache-2.0
// The parts of a recording: seams, what becomes of each, and the limits of the disk.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/daemon/recordings/recordings_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

TEST_F(RecordingTimesTest, PartsFollowEachOtherOnceASecond) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.part_bytes = 4096}));
  const auto fill_until = [&](std::size_t parts) {
    return loop_.until([&] {
      fault(400);
      return files(kDataSuffix).size() >= parts || call.answer;
    });
  };
  ASSERT_TRUE(fill_until(1));
  const auto asked = bench_.broker->asked(Request::file);
  ASSERT_NO_FATAL_FAILURE(fill(call, 16384));
  EXPECT_EQ(bench_.broker->asked(Request::file), asked) << "the second one is full, and no second has passed";
  EXPECT_EQ(files(kDataSuffix).size(), 1U);
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(fill_until(2));
  fault(400);
  const RecordResult result = stop(call);
  ASSERT_GE(result.paths.size(), 3U);
  ASSERT_EQ(result.paths.size(), result.progress.finished.size());
  std::uint64_t samples = 0;
  for (std::size_t i = 0; i < result.paths.size(); ++i) {
    const Sidecar sidecar = sidecar_of(result.paths[i]);
    ASSERT_TRUE(sidecar.record);
    EXPECT_EQ(sidecar.id, result.progress.finished[i]);
    EXPECT_EQ(sidecar.record->first, result.id);
    EXPECT_EQ(sidecar.record->part, i + 1);
    EXPECT_EQ(sidecar.record->ended, i + 1 == result.paths.size() ? std::optional<std::string>("asked") : std::nullopt);
    EXPECT_GT(sidecar.samples, 0U) << "its prologue alone does not fill a part";
    EXPECT_EQ(sidecar.samples, samples_in(result.paths[i]));
    samples += sidecar.samples;
  }
  EXPECT_EQ(samples, result.progress.events);
  EXPECT_THAT(files(kPartialSuffix), IsEmpty());
}

// The next part cannot be begun, and nothing of it is left.
TEST_F(RecordingsTest, TheLastPartInTheStoreSaysWhyItEnded) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.part_bytes = 4096}));
  bench_.broker->change([](BrokerSetup& setup) { setup.dirty_files = true; });
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.answer.has_value();
  }));
  const RecordResult result = call.result();
  EXPECT_EQ(result.ended, "disk");
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  EXPECT_EQ(sidecar.record->ended, "disk");
  EXPECT_THAT(sidecar.warnings, Contains(HasSubstr("not empty")));
  EXPECT_THAT(files(kPartialSuffix), IsEmpty());
}

// A disk that hangs for longer than a file is waited for. The part goes on, and the next one begins later.
TEST_F(RecordingTimesTest, ADiskThatMakesNoFilesForAWhileDoesNotEndIt) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.part_bytes = 4096}));
  bench_.broker->refuse(Request::file, std::errc::timed_out, "the disk did not create an empty file within 30 s");
  const auto asked = bench_.broker->asked(Request::file);
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return bench_.broker->asked(Request::file) > asked || call.answer;
  }));
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  ASSERT_TRUE(clock_->is_waited_for(clock_->now() + kSecondNs)) << "then the recording tries again";
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(loop_.until([&] { return bench_.broker->asked(Request::file) >= asked + 2 || call.answer; }));
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  EXPECT_THAT(files(kDataSuffix), IsEmpty()) << "the first part goes on";
  bench_.broker->obey(Request::file);
  ASSERT_TRUE(clock_->is_waited_for(clock_->now() + kSecondNs));
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(loop_.until([&] { return !files(kDataSuffix).empty() || call.answer; }));
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  fault(400);
  const RecordResult result = stop(call);
  EXPECT_EQ(result.ended, "asked");
  ASSERT_GE(result.paths.size(), 2U);
  for (const std::string& path : result.paths) EXPECT_EQ(sidecar_of(path).samples, samples_in(path)) << path;
  EXPECT_THAT(files(kPartialSuffix), IsEmpty());
}

// It is finished by this flightd, not only by the next one.
TEST_F(RecordingsTest, APartThatIsNotInTheStoreIsTriedAgain) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  const std::string id = call.steps.front().id;
  const auto begun = parse_sidecar(
      read_file(bench_.snapshots() + "/" + part_file(PartFileKind::sidecar, *parse_seq(id))).value_or(""));
  ASSERT_TRUE(begun) << begun.error().what;
  std::ofstream(begun->path) << "in the way";
  const auto asked = bench_.broker->asked(Request::file);
  recordings_->stop(id, [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_THAT(call.error(), HasSubstr("rename"));
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) >= asked + 3; }))
      << "one for its sidecar, and two to recover it";
  EXPECT_THAT(files(kPartialSuffix), Contains(part_file(PartFileKind::journal, *parse_seq(id))));
  EXPECT_EQ(read_file(begun->path).value_or(""), "in the way");
}

// A data directory has a file for each worker, also for one that has no ring.
TEST_F(LargeRingsTest, APartCanBeADirectory) {
  RecordingOrder order;
  order.for_ns = 300'000'000;
  order.asked_ns = monotonic_now();
  order.since_ns = 1;
  order.max_bytes = order.part_bytes = 64U << 20U;
  order.workers = "3";
  order.directory = true;
  fault(100);
  std::promise<Result<RecordResult>> ended;
  auto running =
      RunningRecording::start({.recorder = *bench_.recorder, .store = *store_, .host = host_}, std::move(order),
                              {.begun = [](const std::string&) {},
                               .progress = [](const std::string&, const RecordProgress&) {},
                               .ended = [&](const RecordingOutcome& outcome) { ended.set_value(outcome.result); },
                               .warn = [](const Error&) {}});
  ASSERT_TRUE(running) << running.error().what;
  const auto result = ended.get_future().get();
  ASSERT_TRUE(result) << result.error().what;
  ASSERT_EQ(result->paths.size(), 1U);
  const std::string& path = result->paths[0];
  std::vector<std::string> names;
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename());
    bytes += entry.file_size();
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("data", "data.0", "data.1", "data.2"));
  const Sidecar sidecar = sidecar_of(path);
  EXPECT_EQ(sidecar.size_bytes, bytes);
  EXPECT_EQ(sidecar.samples, samples_in(path));
  EXPECT_GE(own_samples_in(path), 100U);
  EXPECT_EQ(samples_in(path + "/data"), 0U) << "these are in the other files";
  EXPECT_THAT(files(kPartialSuffix), IsEmpty());
}

TEST_F(RecordingsTest, ItEndsAtItsSize) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.max_bytes = 8192}));
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.answer.has_value();
  }));
  EXPECT_EQ(call.result().ended, "max_size");
  EXPECT_GE(call.result().progress.bytes, 8192U);
  for (const std::string& path : call.result().paths) EXPECT_GT(sidecar_of(path).samples, 0U) << path;
}

// Other programs write to this disk, too.
TEST_F(RecordingsTest, ItLeavesHalfOfADiskWithLessThanKeepFree) {
  ASSERT_EQ(::mount("none", bench_.snapshots().c_str(), "tmpfs", 0, "size=6M"), 0);
  const std::string disk = bench_.snapshots();
  const std::unique_ptr<const std::string, void (*)(const std::string*)> mounted(
      &disk, [](const std::string* path) { ::umount2(path->c_str(), MNT_DETACH); });
  StoreConfig store;
  store.keep_free = SizeOrShare{.bytes = 1ULL << 40U};
  store.max_use = SizeOrShare{.bytes = 1ULL << 40U};
  store_->configure(store);
  const std::uint64_t free_bytes = fs::space(disk).available;
  config_.snapshot.compression = "none";
  recordings_->configure(config_);
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.part_bytes = 4096}));
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.answer.has_value();
  }));
  EXPECT_EQ(call.result().ended, "budget");
  EXPECT_GE(call.result().paths.size(), 1U);
  EXPECT_GE(fs::space(disk).available, free_bytes / 2 - (512U << 10U));
}

// They, and not each of them, have max_use.
TEST_F(RecordingsTest, TwoShareTheBudget) {
  constexpr std::uint64_t kMaxUse = 3U << 20U;
  StoreConfig store;
  store.keep_free = SizeOrShare{.bytes = 0};
  store.max_use = SizeOrShare{.bytes = kMaxUse};
  store_->configure(store);
  config_.snapshot.compression = "none";
  recordings_->configure(config_);
  RecordCall first, second;
  ASSERT_NO_FATAL_FAILURE(begin(first, {.part_bytes = 4096}));
  ASSERT_NO_FATAL_FAILURE(begin(second, {.part_bytes = 4096}));
  std::uint64_t most_bytes = 0;
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(bench_.snapshots())) {
      std::error_code gone;
      if (const auto size = entry.file_size(gone); !gone) bytes += size;
    }
    most_bytes = std::max(most_bytes, bytes);
    return first.answer && second.answer;
  }));
  EXPECT_EQ(first.result().ended, "budget");
  EXPECT_EQ(second.result().ended, "budget");
  EXPECT_LT(most_bytes, kMaxUse + kMaxUse / 2);
}

TEST_F(RecordingsTest, WithoutABudgetItDoesNotBegin) {
  StoreConfig store;
  store.keep_free = SizeOrShare{.bytes = 0};
  store.max_use = SizeOrShare{.bytes = 512U << 10U};
  store_->configure(store);
  RecordCall call;
  record(call);
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_THAT(call.error(), AllOf(HasSubstr("StoreFull"), HasSubstr("store.max_use or store.keep_free leaves no space"),
                                  HasSubstr("Nothing was recorded into a file")));
  EXPECT_TRUE(call.steps.empty());
  EXPECT_EQ(bench_.broker->asked(Request::file), 0);
  store.max_use = SizeOrShare{.bytes = 1U << 30U};
  store_->configure(store);
  RecordCall next;
  ASSERT_NO_FATAL_FAILURE(begin(next));
  EXPECT_EQ(stop(next).ended, "asked");
}

}  // namespace
}  // namespace flight::daemon
