// SPDX-License-Identifier: Apache-2.0
// GetStatus and the facts of the status line: what each part of flightd contributes, and what is missing.
#include "daemon/control/status_service.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include "daemon/log/log.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/base/version.hpp"
#include "tests/unit/daemon/daemon_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class StatusServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    ASSERT_NO_FATAL_FAILURE(bench_.start(false, {"a warning of the start"}));
  }
  Status get() {
    const std::string text = bench_.call([this](ControlBackend::Done done) { bench_.status->get(std::move(done)); });
    const auto status = parse_status(text);
    EXPECT_TRUE(status) << text;
    return status.value_or(Status{});
  }
  std::string take() {
    return bench_.call([this](ControlBackend::Done done) {
      bench_.api->take(
          bench_.caller, {}, [](auto, auto) {}, std::move(done));
    });
  }
  DaemonBench bench_;
};

TEST_F(StatusServiceTest, ItHasThePartsOfAll) {
  const Status before = get();
  EXPECT_EQ(before.version, kVersion);
  EXPECT_EQ(before.recording, RecordingState::unproven);
  const auto cpus = online_cpus().value().size();
  EXPECT_EQ(static_cast<std::size_t>(before.cpus), cpus);
  EXPECT_EQ(before.rings.size(), cpus);
  EXPECT_EQ(before.flightd.pid, ::getpid());
  EXPECT_EQ(before.broker.pid, FakeBroker::kPid);
  EXPECT_EQ(before.last_snapshot, std::nullopt);
  EXPECT_EQ(before.snapshots, 0U);
  EXPECT_THAT(before.warnings, Contains("a warning of the start"));
  EXPECT_THAT(before.errors, IsEmpty());
  const auto taken = parse_sidecar(take());
  ASSERT_TRUE(taken);
  const Status after = get();
  EXPECT_EQ(after.last_snapshot, taken->id);
  ASSERT_TRUE(after.last);
  EXPECT_EQ(after.last->trigger, "manual");
  EXPECT_EQ(after.snapshots, 1U);
  EXPECT_GE(after.store_bytes, taken->size_bytes);
}

TEST_F(StatusServiceTest, ItReportsADiskThatFailsUntilItIsGood) {
  bench_.snapshots.refuse_room(Error{std::make_error_code(std::errc::io_error), "a bad disk"});
  take();
  EXPECT_THAT(get().errors, Contains(HasSubstr("a bad disk")));
  EXPECT_THAT(bench_.status->line_facts().trouble, HasSubstr("a bad disk"));
  bench_.snapshots.refuse_room({});
  take();
  EXPECT_THAT(get().errors, IsEmpty());
  EXPECT_EQ(bench_.status->line_facts().trouble, "");
}

TEST_F(StatusServiceTest, ALackOfFilesIsReportedAndTheDiskIsNotBlamed) {
  bench_.snapshots.refuse_room(Error{std::make_error_code(std::errc::too_many_files_open_in_system),
                                     "open /state: Too many open files in system"});
  EXPECT_THAT(take(), HasSubstr("; fs.file-max is reached"));
  EXPECT_THAT(get().errors, Contains(HasSubstr("; fs.file-max is reached")));
  EXPECT_THAT(get().errors, Not(Contains(HasSubstr("(disk)"))));
  bench_.snapshots.refuse_room({});
  EXPECT_NE(take(), "");
  EXPECT_THAT(get().errors, IsEmpty());
}

TEST_F(StatusServiceTest, ASilentBrokerIsNotTakenForTheDisk) {
  bench_.snapshots.refuse_room(Error{std::make_error_code(BrokerThread::kBrokerSilent), "the broker is silent"});
  EXPECT_THAT(take(), HasSubstr("the broker is silent"));
  EXPECT_THAT(get().errors, Not(Contains(HasSubstr("(disk)"))));
}

TEST_F(StatusServiceTest, ItReportsAReloadThatNeedsARestart) {
  bench_.write_config(R"({ "user": "nobody" })");
  bool reloaded = false;
  bench_.reloader->reload("a test", [&](const CallResult<ReloadReport>& report) { reloaded = report.has_value(); });
  ASSERT_TRUE(bench_.loop.until([&] { return reloaded; }));
  EXPECT_THAT(get().warnings, Contains(HasSubstr("user changed")));
}

// A pipe that is full and that nobody reads, as a journal that hangs.
TEST_F(StatusServiceTest, ItCountsTheLogLinesThatWereDropped) {
  constexpr const char* kText = "of flightd's log were dropped because stderr was not read";
  const std::uint64_t before = log::dropped();
  if (before == 0) {
    EXPECT_THAT(get().warnings, Not(Contains(HasSubstr(kText))));
  }
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd out(ends[0]), in(ends[1]), own(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  ASSERT_TRUE(own);
  const std::string page(4096, 'x');
  while (::write(in.get(), page.data(), page.size()) > 0) {
  }
  const auto logger = spdlog::default_logger();
  ASSERT_EQ(::dup2(in.get(), STDERR_FILENO), STDERR_FILENO);
  log::start("status-service-test", "%v");
  log::warn("one");
  log::warn("two");
  spdlog::set_default_logger(logger);
  ASSERT_EQ(::dup2(own.get(), STDERR_FILENO), STDERR_FILENO);
  EXPECT_GE(log::dropped(), before + 2);
  EXPECT_THAT(get().warnings, Contains(HasSubstr(fmt::format("{} lines {}", log::dropped(), kText))));
}

TEST_F(StatusServiceTest, TheLinesFactsFollowTheRecording) {
  const StatusFacts before = bench_.status->line_facts();
  EXPECT_EQ(before.cpus, online_cpus().value().size());
  EXPECT_EQ(before.channels, 1U);
  EXPECT_FALSE(before.paused);
  EXPECT_FALSE(before.last);
  bench_.call([this](ControlBackend::Done done) { bench_.recording->set(false, "a test", std::move(done)); });
  EXPECT_TRUE(bench_.status->line_facts().paused);
  EXPECT_TRUE(get().paused);
  ASSERT_NO_FATAL_FAILURE(bench_.lose_broker());
  EXPECT_TRUE(bench_.status->line_facts().broker_gone);
  EXPECT_THAT(get().errors, Contains(HasSubstr("flightd-broker is gone")));
}

TEST_F(StatusServiceTest, ARunningRecordingIsNoted) {
  bool begun = false;
  const auto client = std::make_shared<int>(0);
  bench_.recordings->record(bench_.caller, {},
                            {.client = client, .step = [&](const auto&, const auto&) { begun = true; }},
                            [](const CallResult<std::string>&) {});
  ASSERT_TRUE(bench_.loop.until([&] { return begun; }));
  const std::string id = bench_.recordings->running_id();
  EXPECT_THAT(get().notes, Contains(HasSubstr("recording " + id + " of user")));
  EXPECT_THAT(get().notes, Contains(HasSubstr("`flightctl record --stop " + id + "` ends it")));
}

}  // namespace
}  // namespace flight::daemon
