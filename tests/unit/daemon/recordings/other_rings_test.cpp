// SPDX-License-Identifier: Apache-2.0
// A recording while the rings or their events change: a reload, a CPU that returns, and the successor of a broker.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "libcore/sysinfo/cpus.hpp"
#include "tests/unit/daemon/recordings/recordings_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Large rings, and a clock that stands. A recording looks for other rings once a second.
class OtherRingsTest : public LargeRingsTest {
 protected:
  OtherRingsTest() { clock_.emplace(); }

  // As at a reload that changes a channel: the broker has other rings.
  void change_rings(const std::shared_ptr<const Recording>& others) {
    bench_.broker->change([&](BrokerSetup& setup) { setup.rings = others; });
    ASSERT_NO_FATAL_FAILURE(attach_again());
  }
  void attach_again() {
    bench_.broker->say(Request::changed);
    ASSERT_TRUE(soon([&] { return bench_.changed >= 1; }));
    clock_->advance(std::chrono::seconds(1));
  }
  // As after a CPU was offline: its events are opened again, with other ids, and write into the same ring. Only the
  // broker knows them.
  void let_return(int cpu) {
    const std::vector<int> online = online_cpus().value();
    std::vector<int> others = online;
    std::erase(others, cpu);
    bench_.broker->change([&](BrokerSetup&) {
      EXPECT_TRUE(rings_->follow_cpus(others, Probe::none, monotonic_now()));
      EXPECT_TRUE(rings_->follow_cpus(online, Probe::none, monotonic_now()));
    });
  }
};

TEST_F(OtherRingsTest, OthersAreAnotherPart) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  const auto others = rings();
  ASSERT_TRUE(others);
  ASSERT_NO_FATAL_FAILURE(change_rings(others));
  ASSERT_TRUE(loop_.until([&] { return files(kDataSuffix).size() == 1; })) << "the part of the first rings";
  fault(100);
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 2U);
  for (const std::string& path : result.paths) {
    const Sidecar sidecar = sidecar_of(path);
    EXPECT_GE(sidecar.samples, 100U) << path << ": " << sidecar.holes.size() << " holes";
  }
}

// What it recorded before the recording knew its new events is in the part that knows them, and none is missing.
TEST_F(OtherRingsTest, ACpuThatReturnsIsInTheNextPartFromTheBeginning) {
  constexpr std::size_t kPages = 2000;
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  const OnCpu there(online_cpus().value().back());
  fault(kPages);
  let_return(there.cpu());
  fault(kPages);
  ASSERT_NO_FATAL_FAILURE(attach_again());
  ASSERT_TRUE(loop_.until([&] { return files(kDataSuffix).size() == 1 || call.answer; }));
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  const RecordResult result = stop(call);
  EXPECT_EQ(result.ended, "asked");
  ASSERT_EQ(result.paths.size(), 2U);
  std::string warnings;
  for (const std::string& path : result.paths) {
    EXPECT_GE(own_samples_in(path, /*first_thread=*/true), kPages) << path;
    for (const std::string& warning : sidecar_of(path).warnings) warnings += warning + "\n";
  }
  EXPECT_THAT(warnings, HasSubstr(fmt::format("CPU {} was offline or suspended between", there.cpu())));
  EXPECT_THAT(warnings, Not(HasSubstr("unknown events")));
}

// The disk hangs while the files of the part that a reload begins are made: the recording tries again, and nothing of
// the new rings is missing.
TEST_F(OtherRingsTest, ADiskThatHangsThenDoesNotEndARecording) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  const auto others = rings();
  ASSERT_TRUE(others);
  bench_.broker->refuse(Request::file, std::errc::timed_out, "the disk did not create an empty file within 30 s");
  const auto asked = bench_.broker->asked(Request::file);
  ASSERT_NO_FATAL_FAILURE(change_rings(others));
  ASSERT_TRUE(loop_.until([&] { return bench_.broker->asked(Request::file) > asked || call.answer; }));
  ASSERT_TRUE(clock_->is_waited_for(clock_->now() + kSecondNs)) << "then the recording tries again";
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  EXPECT_THAT(files(kDataSuffix), IsEmpty()) << "the first part goes on";
  fault(100);
  bench_.broker->obey(Request::file);
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(loop_.until([&] { return files(kDataSuffix).size() == 1 || call.answer; }));
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  const RecordResult result = stop(call);
  EXPECT_EQ(result.ended, "asked");
  ASSERT_EQ(result.paths.size(), 2U);
  for (const std::string& path : result.paths) {
    const Sidecar sidecar = sidecar_of(path);
    EXPECT_GE(sidecar.samples, 100U) << path << ": " << sidecar.holes.size() << " holes";
    EXPECT_THAT(sidecar.warnings, Not(Contains(HasSubstr("missing"))));
  }
}

// The broker dies while it makes the files of the part that a reload begins.
class NextBrokerTest : public OtherRingsTest {
 protected:
  NextBrokerTest() { followed_ = true; }

  // Reloads, and lets the broker die; a successor with other rings is not attached yet.
  void lose_broker_in_a_reload() {
    bench_.broker->leave(Request::file);
    const auto asked = bench_.broker->asked(Request::file);
    reloaded_ = rings();
    ASSERT_TRUE(reloaded_);
    ASSERT_NO_FATAL_FAILURE(change_rings(reloaded_));
    ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) > asked; })) << "for the part of the new rings";
    fault(100);
    // Not before: of several software events of a CPU that one page fault is for, the kernel gives each sample the id
    // of the newest.
    next_ = rings();
    ASSERT_TRUE(next_);
    bench_.replace_broker(next_setup());
    ASSERT_TRUE(soon([&] { return bench_.lost == 1; }));
    ASSERT_TRUE(clock_->is_waited_for(clock_->now() + kSecondNs)) << "then the recording tries again";
  }
  [[nodiscard]] BrokerSetup next_setup() const {
    return {
        .recording = 2, .rings = next_, .folder = bench_.snapshots(), .processes = scan_with(kUnknownPid, "second")};
  }

  std::shared_ptr<const Recording> reloaded_, next_;
};

TEST_F(NextBrokerTest, ARecordingGoesOnWithItAfterAReload) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  ASSERT_NO_FATAL_FAILURE(lose_broker_in_a_reload());
  bench_.replace_broker(next_setup());
  auto promise = std::make_shared<std::promise<Result<bool>>>();
  auto answer = promise->get_future();
  bench_.recorder->reconnect(BrokerThread::kReconnectFor,
                             [promise](Result<bool> same) { promise->set_value(std::move(same)); });
  ASSERT_TRUE(answer_of(answer));
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(loop_.until([&] { return files(kDataSuffix).size() == 2 || call.answer; }));
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  fault(100);
  const RecordResult result = stop(call);
  EXPECT_EQ(result.ended, "asked");
  ASSERT_EQ(result.paths.size(), 3U) << "before the reload, after it, and of the next broker";
  std::string warnings;
  for (const std::string& path : result.paths) {
    EXPECT_GE(own_samples_in(path), 100U) << path;
    for (const std::string& warning : sidecar_of(path).warnings) warnings += warning + "\n";
  }
  EXPECT_THAT(warnings, HasSubstr("flightd-broker was gone from"));
}

// No broker follows the lost one: the events of the new rings are missing, and the recording says so.
TEST_F(NextBrokerTest, WithoutOneARecordingDoesNotBlameTheDisk) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  ASSERT_NO_FATAL_FAILURE(lose_broker_in_a_reload());
  for (int seconds = 0; seconds < 3; ++seconds) {
    clock_->advance(std::chrono::seconds(1));
    ASSERT_TRUE(clock_->is_waited_for(clock_->now() + kSecondNs));
    loop_.poll();
    ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  }
  const RecordResult result = stop(call);
  EXPECT_EQ(result.ended, "asked");
  ASSERT_EQ(result.paths.size(), 1U);
  EXPECT_GE(own_samples_in(result.paths[0]), 100U);
  EXPECT_THAT(sidecar_of(result.paths[0]).warnings, Contains(HasSubstr("what they recorded is missing")));
}

}  // namespace
}  // namespace flight::daemon
