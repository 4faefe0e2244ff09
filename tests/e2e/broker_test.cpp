// SPDX-License-Identifier: Apache-2.0
// A broker that dies or hangs: the recorded data is saved, and flightd keeps answering.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "libcore/base/version.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The sidecars of `trigger` in `folder`.
std::vector<Json> sidecars_of(const std::string& folder, const std::string& trigger) {
  std::vector<Json> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    Json sidecar = Json::parse(read_text(entry.path().string()), nullptr, false);
    if (sidecar.is_object() && sidecar.value("trigger", "") == trigger) out.push_back(std::move(sidecar));
  }
  return out;
}

TEST(BrokerDies, TheRingsAreSavedAndFlightdEnds) {
  TempFolder folder;
  TestDaemon daemon(folder);
  Child burner = start_load({folder.load("burner"), std::to_string(load_cpu()), "60"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_TRUE(daemon.start(stacks_config(499, "256K")));
  (void)daemon.snapshot();  // makes flightd request its spare files
  const auto spares = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(daemon.snapshots_dir()))
      if (entry.path().filename().string().starts_with(".flightd-spare")) found.push_back(entry.path());
    return found;
  };
  ASSERT_TRUE(wait_until([&] { return spares().size() == 2; }, 20s));
  // Somebody deletes a spare file. The next snapshot restores it.
  std::filesystem::remove(spares().front());
  (void)daemon.snapshot();
  ASSERT_TRUE(wait_until([&] { return spares().size() == 2; }, 20s));
  // A request that waits for samples after the request gets what the rings hold.
  RawSocket asker = RawSocket::connect(daemon.socket());
  ASSERT_TRUE(
      asker.call(R"({"method":"io.flightd.Recorder.TakeSnapshot","parameters":{"post_usec":50000000},"more":true})"));
  ASSERT_THAT(asker.receive().value_or("no answer"), HasSubstr(R"("waiting")"));
  // The load has run for 50 of its samples before the broker dies: some of them are the last ones.
  const std::uint64_t before_ns = now_ns();
  ASSERT_TRUE(burner.runs_for(100ms));
  ASSERT_EQ(kill(daemon.broker_pid(), SIGKILL), 0);
  burner.kill();  // nothing is recorded any more
  EXPECT_EQ(daemon.process().wait(30s), 1) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("nothing is recorded after 20"));
  EXPECT_THAT(daemon.log(), HasSubstr("Restart flightd"));
  std::vector<Json> last = sidecars_of(daemon.snapshots_dir(), "broker-lost");
  ASSERT_EQ(last.size(), 1U) << daemon.log();
  EXPECT_THAT(last[0]["reason"].get<std::string>(), HasSubstr("nothing is recorded after"));
  Json answer;
  do {
    answer = Json::parse(asker.receive().value_or("{}"), nullptr, false);
  } while (answer.value("continues", false));
  EXPECT_EQ(answer.value("/parameters/snapshot"_json_pointer, Json()), last[0]) << answer;
  EXPECT_EQ(last[0]["requests"].size(), 2U);
  // The recording ended with the broker. No earlier sample is missing.
  std::uint64_t newest_ns = 0;
  for (const Json& ring : last[0]["rings"]) newest_ns = std::max(newest_ns, ring["newest_ns"].get<std::uint64_t>());
  EXPECT_GT(newest_ns, before_ns);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder, last[0]));
  struct stat info {};
  ASSERT_EQ(stat(last[0]["path"].get<std::string>().c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U) << "perf opens it";
  for (const auto& entry : std::filesystem::directory_iterator(daemon.snapshots_dir()))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("spare")));
}

TEST(BrokerHangs, StatusIsAnsweredAndSaysSo) {
  TempFolder folder;
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K")));
  (void)daemon.snapshot();
  ASSERT_EQ(kill(daemon.broker_pid(), SIGSTOP), 0);
  // Far less than the 60 s for which flightd waits for the broker's answer.
  Outcome first = daemon.ctl({"--json", "status"}, 15s);
  EXPECT_EQ(first.exit_status, 0) << first.text();
  EXPECT_THAT(first.out, HasSubstr("flightd-broker has not answered for"));
  Json status = daemon.status();
  EXPECT_TRUE(records(status));
  EXPECT_EQ(status["self"]["broker"]["pid"], daemon.broker_pid());
  ASSERT_EQ(kill(daemon.broker_pid(), SIGCONT), 0);
  EXPECT_TRUE(
      wait_until([&] { return daemon.status()["warnings"].dump().find("not answered") == std::string::npos; }, 20s));
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(daemon.stop());
}

// Each of these needs the broker. Nobody waits for the 60 s after which flightd gives it up, and the disk is not
// blamed.
TEST(BrokerHangsLong, WhoNeedsItIsAnsweredWithTheReason) {
  TempFolder folder;
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K")));
  (void)daemon.snapshot();
  ASSERT_EQ(kill(daemon.broker_pid(), SIGSTOP), 0);
  const Outcome paused = daemon.ctl({"pause"}, 20s);
  EXPECT_NE(paused.exit_status, 0);
  EXPECT_THAT(paused.err, HasSubstr("flightd-broker has not answered for 8 s: recording is paused if it still does"));
  const Outcome taken = daemon.ctl({"snapshot"}, 45s);
  EXPECT_NE(taken.exit_status, 0);
  EXPECT_THAT(taken.err, HasSubstr("flightd-broker, which makes the files, did not answer within 30 s"));
  const Json status = daemon.status();
  EXPECT_THAT(status.dump(),
              AllOf(HasSubstr("flightd-broker has not answered for"), Not(HasSubstr("degraded (disk)"))));
  ASSERT_EQ(kill(daemon.broker_pid(), SIGCONT), 0);
  EXPECT_TRUE(wait_until([&] { return daemon.status()["recording"] == "paused"; }, 20s)) << "as it was said";
  EXPECT_EQ(daemon.ctl({"resume"}).exit_status, 0);
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(daemon.stop());
}

using NextBroker = OwnBroker;

using NextBrokerLong = NextBroker;

// A second flightd gets an error after it has waited briefly for the first one to end. The wait can be interrupted.
TEST_F(NextBrokerLong, ASecondFlightdIsTurnedAway) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  StartOptions options = options_;
  options.state_dir = make_own("state-2");
  options.runtime_dir = make_own("run-2");
  for (const bool interrupted : {false, true}) {
    TestDaemon second(folder_);
    const std::size_t reported_before = broker_->err().size();
    second.launch(config_.dump(), options);
    ASSERT_TRUE(wait_until([&] { return broker_->err().size() > reported_before; }, 20s)) << "it never knocked";
    EXPECT_TRUE(!interrupted || kill(second.pid(), SIGTERM) == 0);
    const auto status = second.process().wait(15s);
    if (!interrupted) {
      EXPECT_EQ(status, 1) << second.log();
      EXPECT_THAT(second.log(), HasSubstr(fmt::format("another flightd, process {}", daemon.pid())));
    } else {
      EXPECT_TRUE(status) << "it did not end";
    }
  }
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(daemon.stop());
}

// systemd keeps the events from one broker to the next: flightd continues, and so does a client that waits for a
// snapshot.
TEST_F(NextBrokerLong, OneThatTookOverTheRecordingIsNotNoticed) {
  test::ServiceManager manager(folder_ / "notify");
  ASSERT_NO_FATAL_FAILURE(start_broker(&manager));
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  (void)daemon.snapshot();
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    manager.receive_all();
    const std::uint64_t killed_ns = now_ns();
    broker_->kill();
    RawSocket asker = RawSocket::connect(daemon.socket());
    ASSERT_TRUE(asker.call(R"({"method":"io.flightd.Recorder.TakeSnapshot","parameters":{}})"));
    ASSERT_NO_FATAL_FAILURE(start_broker(&manager));
    const Json answer = Json::parse(asker.receive().value_or("{}"), nullptr, false);
    const Json taken = answer.value("/parameters/snapshot"_json_pointer, Json::object());
    ASSERT_TRUE(taken.contains("rings")) << answer << daemon.log();
    EXPECT_THAT(taken.value("warnings", Json::array()).dump(), Not(HasSubstr("broker")));
    for (const Json& ring : taken["rings"])
      EXPECT_LT(ring["oldest_ns"].get<std::uint64_t>(), killed_ns) << "history began afresh";
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, taken));
  }
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(sidecars_of(daemon.snapshots_dir(), "broker-lost").empty());
  EXPECT_THAT(daemon.log(), HasSubstr("adopted its recording"));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("is gone")));
  EXPECT_THAT(daemon.status()["warnings"].dump(), Not(HasSubstr("is version")));

  // A broker of another version: a copy of the program whose version bytes differ.
  const std::string version(kVersion);
  std::string other = read_text(program_);
  for (std::size_t at = other.find(version); at != std::string::npos; at = other.find(version, at + 1)) other[at] = '9';
  program_ = folder_ / "bin/flightd-broker";
  write_text(program_, other);
  ASSERT_EQ(chmod(program_.c_str(), 0755), 0);
  manager.receive_all();
  broker_->kill();
  ASSERT_NO_FATAL_FAILURE(start_broker(&manager));
  EXPECT_TRUE(wait_until(
      [&] {
        const std::string warnings = daemon.status()["warnings"].dump();
        return warnings.find("flightd-broker is version 9" + version.substr(1)) != std::string::npos &&
               warnings.find("systemctl kill flightd-broker") != std::string::npos;
      },
      20s))
      << daemon.status()["warnings"];
  EXPECT_TRUE(daemon.stop());
}

// A recording goes on in the same rings.
TEST_F(NextBrokerLong, ARecordingGoesOnWithOneThatTookOver) {
  test::ServiceManager manager(folder_ / "notify");
  ASSERT_NO_FATAL_FAILURE(start_broker(&manager));
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "60"});
  Child recorder = Child::start(daemon.ctl_command({"--json", "record"}));
  const auto has_begun = [&] { return daemon.status().dump().find(" in 1 part;") != std::string::npos; };
  ASSERT_TRUE(wait_until(has_begun, 30s)) << recorder.err() << daemon.log();
  manager.receive_all();
  broker_->kill();
  ASSERT_NO_FATAL_FAILURE(start_broker(&manager));
  const auto is_adopted = [&] { return daemon.log().find("adopted its recording") != std::string::npos; };
  ASSERT_TRUE(wait_until(is_adopted, 30s)) << daemon.log();
  const std::uint64_t adopted_ns = now_ns();
  EXPECT_TRUE(burner.runs_for(1s));
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(60s);
  burner.kill();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text() << daemon.log();
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["ended"], "asked");
  ASSERT_FALSE(result["progress"]["finished"].empty());
  const Json last = daemon.ctl_json({"info", result["progress"]["finished"].back()});
  EXPECT_GT(last["window"]["end_ns"], adopted_ns);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, as_perf_sees(last)));
  EXPECT_TRUE(daemon.stop());
}

// A broker whose configuration has an event that this kernel does not have.
class UnableBrokerLong : public OwnBroker {
 protected:
  UnableBrokerLong() { config_["channels"]["stacks"]["events"][0]["event"] = "sched:sched_swich"; }
};

TEST_F(UnableBrokerLong, FlightdStaysAndSaysWhyUntilItRecords) {
  TestDaemon daemon(folder_);
  daemon.launch(config_.dump(), options_);
  Json status;
  ASSERT_TRUE(wait_until(
      [&] {
        status = Json::parse(run(daemon.ctl_command({"--json", "status"}), 10s).out, nullptr, false);
        return status.is_object();
      },
      20s))
      << daemon.log();
  EXPECT_EQ(status["recording"], "off");
  EXPECT_THAT(status["messages"].dump(), HasSubstr("nothing is recorded: "));
  EXPECT_THAT(status["messages"].dump(), HasSubstr("sched_swich"));
  const Outcome refused = daemon.ctl({"snapshot"});
  EXPECT_NE(refused.exit_status, 0);
  EXPECT_THAT(refused.err, HasSubstr("nothing is recorded: "));
  const Outcome reload = daemon.ctl({"reload"});
  EXPECT_NE(reload.exit_status, 0);
  EXPECT_THAT(reload.err, HasSubstr("sched_swich"));

  write_text(folder_ / "broker.json", stacks_config(499, "256K").dump(2));
  static_cast<void>(daemon.ctl({"reload"}));  // both try again
  ASSERT_TRUE(wait_until([&] { return records(daemon.status()); }, 30s)) << daemon.log();
  ::sleep(1);
  const Json taken = daemon.snapshot();
  EXPECT_GT(taken["samples"], 0) << taken;
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, taken));
  const std::string log = daemon.log();
  const std::size_t first = log.find("nothing is recorded");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_THAT(log, HasSubstr("recording has begun"));
  EXPECT_TRUE(daemon.process().running());
  EXPECT_TRUE(daemon.stop());
}

TEST_F(NextBroker, FlightdSavesTheRingsAndContinuesWithTheNextBroker) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  (void)daemon.snapshot();
  // The tracker stores these processes under the event ids of the old broker, which is gone when they are written.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run({"sleep", "0.1"}).exit_status, 0);
  broker_->kill();
  // At once: flightd finds that it has another recording. In the next case flightd waits for one in vain.
  ASSERT_NO_FATAL_FAILURE(start_broker());
  const auto saved = [&] { return sidecars_of(daemon.snapshots_dir(), "broker-lost").size(); };
  EXPECT_TRUE(wait_until([&] { return saved() == 1; }, 30s)) << daemon.log();
  const auto is_attached = [&] {
    return daemon.log().find("attached to the next flightd-broker") != std::string::npos;
  };
  EXPECT_TRUE(wait_until(is_attached, 30s)) << daemon.log();
  EXPECT_TRUE(records(daemon.status()));
  EXPECT_EQ(saved(), 1U);
  EXPECT_TRUE(daemon.goes_on());
  const Json after = daemon.snapshot();
  EXPECT_THAT(after.value("warnings", Json()).dump(), HasSubstr("flightd-broker was gone from")) << after;
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, after));
  // The spare files that flightd used are now ordinary files.
  const Json lost = sidecars_of(daemon.snapshots_dir(), "broker-lost").at(0);
  struct stat info {};
  ASSERT_EQ(stat(lost["path"].get<std::string>().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0640U);
  EXPECT_EQ(info.st_uid, 0U);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, lost));
  daemon.process().kill();
}

TEST_F(NextBrokerLong, OneThatDiesAgainFindsNewSpareFiles) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  (void)daemon.snapshot();
  broker_->kill();
  EXPECT_TRUE(wait_until([&] { return sidecars_of(daemon.snapshots_dir(), "broker-lost").size() == 1; }, 20s))
      << daemon.log();
  EXPECT_FALSE(records(daemon.status()));
  ASSERT_NO_FATAL_FAILURE(start_broker());
  EXPECT_TRUE(wait_until([&] { return records(daemon.status()); }, 30s)) << daemon.log();
  (void)daemon.snapshot();
  broker_->kill();
  EXPECT_TRUE(wait_until([&] { return sidecars_of(daemon.snapshots_dir(), "broker-lost").size() == 2; }, 20s))
      << daemon.log();
  daemon.process().kill();
}

}  // namespace
}  // namespace flight
