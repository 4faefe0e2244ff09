// SPDX-License-Identifier: Apache-2.0
// TakeSnapshot from the view of its clients: the sidecar, or an error that names the cause.
#include "daemon/snapshots/snapshot_api.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "libcore/base/files.hpp"
#include "tests/unit/daemon/daemon_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class SnapshotApiTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    ASSERT_NO_FATAL_FAILURE(bench_.start());
  }
  std::string take(const SnapshotParameters& parameters = {}) {
    return bench_.call([&](ControlBackend::Done done) {
      bench_.api->take(
          bench_.caller, parameters, [this](std::string_view step, unsigned) { steps_.emplace_back(step); },
          std::move(done));
    });
  }
  void refuse_room(std::errc code) {
    bench_.snapshots.refuse_room(Error{std::make_error_code(code), "no room in the store"});
  }
  // MESSAGE_IDs, as they come.
  std::vector<std::string> journal() {
    std::vector<std::string> out;
    for (const JournalEntry& entry : bench_.journal)
      out.push_back(entry.fields.at(0).substr(std::string_view("MESSAGE_ID=").size()));
    return out;
  }
  static std::string error(std::string_view name) { return fmt::format("{}.{} ", kInterface, name); }

  DaemonBench bench_;
  std::vector<std::string> steps_;
  const std::string snapshot_{kSnapshotMessageId}, degraded_{kDegradedMessageId}, recovered_{kRecoveredMessageId};
};

TEST_F(SnapshotApiTest, TheAnswerIsTheSidecar) {
  EXPECT_FALSE(bench_.api->last());
  const std::string text = take({.reason = "to see it"});
  const auto sidecar = parse_sidecar(text);
  ASSERT_TRUE(sidecar) << text;
  EXPECT_EQ(sidecar->trigger, "manual");
  EXPECT_EQ(sidecar->reason, "to see it");
  ASSERT_EQ(sidecar->requests.size(), 1U);
  EXPECT_EQ(sidecar->requests[0].comm, "unit-daemon");
  EXPECT_THAT(steps_, Contains("writing"));
  ASSERT_TRUE(bench_.api->last());
  EXPECT_EQ(bench_.api->last()->id, sidecar->id);
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring", "snapshot_finished"));
  EXPECT_THAT(journal(), ElementsAre(snapshot_));
}

TEST_F(SnapshotApiTest, TheParametersAreTheRequests) {
  const auto sidecar = parse_sidecar(take({.last_usec = 1'000, .capture = "live"}));
  ASSERT_TRUE(sidecar);
  EXPECT_EQ(sidecar->capture, "live");
  EXPECT_LE(sidecar->window.end_ns - sidecar->window.begin_ns, 60'000'000'000U) << "not all that is held";
}

TEST_F(SnapshotApiTest, ATimeThatIsNoLongerHeldIsRefusedWithTheOldest) {
  const std::string text = take({.since = "2020-01-01T00:00:00Z"});
  const ClockPair clock = ClockPair::now();
  const std::string oldest = to_rfc3339(clock.wall_at(bench_.recorder().oldest_held_ns()));
  constexpr std::size_t kToTheMinute = std::string_view("2020-01-01T00:00").size();
  EXPECT_THAT(text, AllOf(StartsWith("org.varlink.service.InvalidParameter"), HasSubstr("\"since\""),
                          HasSubstr(oldest.substr(0, kToTheMinute - 1))));
  EXPECT_THAT(bench_.snapshots.begun(), IsEmpty());
}

TEST_F(SnapshotApiTest, AFullDiskIsTheStoresError) {
  refuse_room(std::errc::no_space_on_device);
  EXPECT_THAT(take(), AllOf(StartsWith(error("StoreFull")), HasSubstr("no room in the store")));
  EXPECT_FALSE(bench_.api->last());
}

TEST_F(SnapshotApiTest, ADiskThatFailsIsReportedOnceAndAgainWhenItIsGood) {
  refuse_room(std::errc::io_error);
  EXPECT_THAT(take(), AllOf(StartsWith(error("WriteFailed")), HasSubstr("recording continues")));
  EXPECT_THAT(bench_.api->disk_trouble(), HasSubstr("no room in the store"));
  EXPECT_THAT(take(), StartsWith(error("WriteFailed")));
  EXPECT_THAT(journal(), ElementsAre(degraded_)) << "once";
  bench_.snapshots.refuse_room({});
  EXPECT_TRUE(parse_sidecar(take()));
  EXPECT_EQ(bench_.api->disk_trouble(), "");
  EXPECT_THAT(journal(), ElementsAre(degraded_, recovered_, snapshot_));
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring", "snapshot_failed", "degraded", "snapshot_failed",
                                              "snapshot_finished", "recovered"));
}

// An earlier flightd of this boot took it, and the wall clock was set since then.
TEST_F(SnapshotApiTest, TheAgeOfTheLastOneIsNotThatOfTheWallClock) {
  const auto taken = parse_sidecar(take());
  ASSERT_TRUE(taken);
  const std::string path = taken->path.substr(0, taken->path.rfind(".perf.data")) + ".json";
  for (const auto by : {std::chrono::hours(3), std::chrono::hours(-3)}) {
    Sidecar shown = *taken;
    shown.window.end = to_rfc3339(wall_now() + by);
    std::ofstream(path) << to_json(shown);
    SnapshotApi next(bench_.loop.io, bench_.recorder(), *bench_.snapshots.worker, *bench_.store, bench_.events);
    ASSERT_TRUE(bench_.loop.until([&] { return next.last().has_value(); }));
    EXPECT_EQ(next.last()->time, shown.window.end);
    EXPECT_GE(next.age_of_last().count(), 0);
    EXPECT_LT(next.age_of_last(), std::chrono::minutes(5));
  }
}

TEST_F(SnapshotApiTest, ABrokerThatMakesNoFileIsAnError) {
  bench_.broker().refuse(Request::file, std::errc::permission_denied, "not yours");
  EXPECT_THAT(take(), AllOf(StartsWith(error("WriteFailed")), HasSubstr("not yours"), HasSubstr("must belong to")));
}

// fs.file-max is reached, and the broker cannot open the store either.
TEST_F(SnapshotApiTest, AFullTableOfFilesIsNoTroubleOfTheDisk) {
  bench_.broker().refuse(Request::file, std::errc::too_many_files_open_in_system,
                         "the state directory: open /state: Too many open files in system");
  const auto names_it = AllOf(HasSubstr("Too many open files in system"), HasSubstr("; fs.file-max is reached"));
  EXPECT_THAT(take(), AllOf(StartsWith(error("WriteFailed")), names_it, testing::Not(HasSubstr("Free some space"))));
  EXPECT_EQ(bench_.api->disk_trouble(), "");
  EXPECT_THAT(bench_.api->descriptor_trouble(), names_it);
  EXPECT_THAT(journal(), IsEmpty());
  EXPECT_THAT(bench_.events_of(), ElementsAre("monitoring", "snapshot_failed"));
}

// The last snapshot was taken before the request.
TEST_F(SnapshotApiTest, WithoutABrokerItSaysThatNothingIsRecorded) {
  ASSERT_TRUE(bench_.snapshots.has_spare_files());
  ASSERT_NO_FATAL_FAILURE(bench_.lose_broker());
  bool last = false;
  bench_.api->submit(SnapshotRequest::of_flightd(kBrokerLost, "a test"), [&](const Result<Sidecar>& result) {
    EXPECT_TRUE(result) << result.error().what;
    last = true;
  });
  ASSERT_TRUE(bench_.loop.until([&] { return last; }));
  EXPECT_THAT(take(), AllOf(StartsWith(error("WriteFailed")), HasSubstr("flightd-broker is gone")));
  EXPECT_EQ(bench_.api->disk_trouble(), "") << "the disk is not to blame";
}

TEST_F(SnapshotApiTest, AnEndIsNoTroubleOfTheDisk) {
  refuse_room(std::errc::operation_canceled);
  EXPECT_THAT(take(), StartsWith(error("Stopping")));
  bench_.snapshots.worker->stop();
  EXPECT_THAT(take(), StartsWith(error("Stopping")));
  EXPECT_EQ(bench_.api->disk_trouble(), "");
}

TEST_F(SnapshotApiTest, ASignalNamesItsSender) {
  bench_.api->take_by_signal(0, ::getpid());
  ASSERT_TRUE(bench_.loop.until([this] { return bench_.api->last().has_value(); }));
  EXPECT_EQ(bench_.api->last()->trigger, "signal");
  const std::string text = bench_.call(
      [this](ControlBackend::Done done) { bench_.store->describe(bench_.api->last()->id, std::move(done)); });
  const auto sidecar = parse_sidecar(text);
  ASSERT_TRUE(sidecar) << text;
  ASSERT_EQ(sidecar->requests.size(), 1U);
  EXPECT_EQ(sidecar->requests[0].pid, ::getpid());
}

}  // namespace
}  // namespace flight::daemon
