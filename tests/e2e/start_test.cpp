// SPDX-License-Identifier: Apache-2.0
// A service that cannot start: it stays, reports the reason, and starts when the cause is gone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "libcore/base/unix_socket.hpp"
#include "tests/e2e/service_start.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

std::size_t count_of(const std::string& text, const std::string& words) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

using ServiceStartLong = ServiceStart;

TEST_F(ServiceStart, BadConfigurationIsWaitedForAndTakenAtAReload) {
  write_config("{\n \"stor\": {} }");
  start_service();
  expect_unstarted("the configuration is wrong: ");
  const Outcome refused = ctl({"reload"});
  EXPECT_EQ(refused.exit_status, 1);
  EXPECT_THAT(refused.err, HasSubstr(folder_ / "flightd.json:2: stor: "));
  // The watchdog does not end it.
  EXPECT_TRUE(manager_->wait_for("WATCHDOG=1"));
  // It tries again by itself, and reports another reason.
  write_config("{\n \"store\": 7 }");
  EXPECT_TRUE(manager_->wait_for("STATUS=recording: no (the configuration is wrong: ")) << log();
  EXPECT_TRUE(
      wait_until([this] { return status()["messages"].dump().find("json:2: store: ") != std::string::npos; }, 30s));
  EXPECT_EQ(count_of(log(), "stor: there is no such key"), 1U);
  EXPECT_EQ(count_of(log(), "flightd cannot start"), 2U);

  write_config(config_.dump());
  const Outcome reloaded = ctl({"reload"});
  EXPECT_EQ(reloaded.exit_status, 0) << reloaded.text();
  EXPECT_TRUE(starts_to_record());
  EXPECT_TRUE(manager_->wait_for("STATUS=recording "));
  EXPECT_EQ(status()["self"]["flightd"]["pid"], service_->pid());
  EXPECT_EQ(count_of(log(), "flightd cannot start"), 2U);
  EXPECT_EQ(ctl({"reload"}).exit_status, 0);
  end();
}

TEST_F(ServiceStart, StartsByItselfWhenTheLockIsFree) {
  write_config(config_.dump());
  const std::string path = folder_ / "run/flightd.lock";
  std::optional<UniqueFd> lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(fchown(lock->get(), kClientId, kClientId), 0);
  ASSERT_EQ(flock(lock->get(), LOCK_EX), 0);
  start_service();
  expect_unstarted("run/flightd.lock");
  const Outcome refused = ctl({"reload"});
  EXPECT_EQ(refused.exit_status, 1);
  EXPECT_THAT(refused.err, HasSubstr("run/flightd.lock"));
  EXPECT_EQ(count_of(log(), "flightd cannot start"), 1U);
  lock.reset();
  EXPECT_TRUE(starts_to_record());
  end();
}

TEST_F(ServiceStart, WrongUsageEndsAtSigterm) {
  write_config(config_.dump());
  start_service({"--no-such-option"});
  expect_unstarted("--no-such-option");
  end();
}

// LimitNOFILE= leaves nothing for an event loop: systemd would restart it for ever, after READY=1 did not come.
TEST_F(ServiceStart, WithoutADescriptorForAnEventLoopItStays) {
  write_config(config_.dump());
  options_.prefix.insert(options_.prefix.end(), {"prlimit", "--nofile=5:5"});
  options_.program = folder_.for_other_users(required_env("FLIGHTD"));
  start_service();
  EXPECT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (")) << log();
  EXPECT_TRUE(manager_->wait_for("raise LimitNOFILE= of the unit")) << log();
  EXPECT_TRUE(manager_->wait_for("WATCHDOG=1")) << log();
  EXPECT_TRUE(wait_until([this] { return count_of(log(), "flightd cannot start") > 0 || !service_->running(); }, 30s));
  std::this_thread::sleep_for(2s);  // a fixed time: it must neither end nor repeat the line
  ASSERT_TRUE(service_->running()) << log();
  EXPECT_EQ(count_of(log(), "flightd cannot start"), 1U);
  EXPECT_THAT(log(), HasSubstr("raise LimitNOFILE= of the unit"));
  EXPECT_FALSE(manager_->was_sent("READY=1")) << "once";
  end();
}

// fs.file-max is reached before its first descriptor.
TEST_F(ServiceStart, WithNoFileLeftOnTheMachineItStaysAndStartsLater) {
  const std::string control = folder_ / "full";
  write_text(control, "s");
  ASSERT_EQ(chmod(control.c_str(), 0666), 0);
  write_config(config_.dump());
  options_.prefix.insert(options_.prefix.end(), {folder_.load("full_table"), control});
  options_.program = folder_.for_other_users(required_env("FLIGHTD"));
  start_service();
  EXPECT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (")) << log();
  EXPECT_TRUE(manager_->wait_for("Too many open files in system")) << log();
  EXPECT_TRUE(service_->running());
  write_text(control, "0");
  EXPECT_TRUE(starts_to_record()) << log();
  end();
}

// The store can be used without a broker.
TEST_F(ServiceStart, StaysWithoutABrokerAndFindsALaterOne) {
  broker_->kill();
  std::filesystem::remove(socket_);
  write_config(config_.dump());
  start_service();
  EXPECT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (flightd-broker cannot be reached: ")) << log();
  const Json now = status();
  EXPECT_EQ(now["recording"], "off") << now;
  EXPECT_THAT(now["messages"].dump(), HasSubstr("flightd-broker cannot be reached: "));
  EXPECT_EQ(ctl({"list"}).exit_status, 0);
  EXPECT_THAT(ctl({"snapshot"}).err, HasSubstr("flightd-broker cannot be reached: "));
  EXPECT_EQ(ctl({"reload"}).exit_status, 1);  // tries at once
  ASSERT_NO_FATAL_FAILURE(start_broker());
  EXPECT_TRUE(starts_to_record());
  EXPECT_EQ(count_of(log(), "error: nothing is recorded: "), 1U);
  EXPECT_EQ(ctl({"snapshot"}).exit_status, 0);
  end();
}

// Longer than it looks for a broker that systemd restarts.
TEST_F(ServiceStartLong, StaysWhenItsBrokerDoesNotComeBack) {
  write_config(config_.dump());
  start_service();
  ASSERT_TRUE(starts_to_record());
  broker_->kill();
  std::filesystem::remove(socket_);
  EXPECT_TRUE(wait_until(
      [this] {
        return !service_->running() ||
               status()["messages"].dump().find("flightd-broker cannot be reached: ") != std::string::npos;
      },
      90s))
      << log();
  ASSERT_TRUE(service_->running());
  EXPECT_TRUE(manager_->wait_for("STATUS=recording: no (flightd-broker cannot be reached: "));
  ASSERT_NO_FATAL_FAILURE(start_broker());
  EXPECT_TRUE(starts_to_record());
  EXPECT_EQ(ctl({"snapshot"}).exit_status, 0);
  end();
}

// The broker: another process listens at its socket.
TEST_F(ServiceStart, BrokerStaysUntilItsSocketIsFree) {
  const std::string path = folder_ / "broker/other";
  auto taken = listen_on(path, {.type = SOCK_SEQPACKET, .backlog = 1, .mode = 0600, .listener = "other"});
  ASSERT_TRUE(taken) << taken.error().what;
  const std::string id = std::to_string(kClientId);
  Child broker = Child::start({program_, "--config", folder_ / "broker.json", "--state-dir", folder_ / "state",
                               "--group", id, "--socket", path, "--client-uid", id},
                              {.env = {notify_socket()}});
  EXPECT_TRUE(manager_->wait_for("STATUS=recording: no (")) << broker.err();
  EXPECT_TRUE(manager_->wait_for("READY=1")) << broker.err();
  EXPECT_TRUE(broker.running());
  taken = fail(std::errc::not_connected, "closed");
  EXPECT_TRUE(manager_->wait_for("STATUS=recording ")) << broker.err();
  EXPECT_EQ(count_of(broker.err(), path), 1U) << broker.err();
  broker.signal(SIGTERM);
  EXPECT_EQ(broker.wait(30s), 0) << broker.err();
}

#if !defined(FLIGHT_SANITIZED)
// Whichever part has too little address space, systemd must not start it again and again.
TEST_F(ServiceStart, BrokerStaysWithoutMemoryAndRecordsWhenThereIsSome) {
  const std::string path = folder_ / "broker/other", id = std::to_string(kClientId);
  int stayed = 0;
  for (const std::uint64_t mib : {16, 20, 32, 96}) {
    SCOPED_TRACE(fmt::format("{} MiB", mib));
    Child broker =
        Child::start({"prlimit", fmt::format("--as={}:", mib << 20U), program_, "--config", folder_ / "broker.json",
                      "--state-dir", folder_ / "state", "--group", id, "--socket", path, "--client-uid", id},
                     {.env = {notify_socket()}});
    EXPECT_TRUE(wait_until([&] { return !broker.running() || !broker.err().empty(); }, 10s));
    // ld.so and main() before its first line.
    if (broker.err().find("flightd-broker: ") == std::string::npos) continue;
    usleep(300'000);  // a fixed time: it must not end
    EXPECT_TRUE(broker.running()) << broker.err();
    stayed += broker.err().find("; trying again") == std::string::npos ? 0 : 1;
    EXPECT_EQ(run({"prlimit", "--pid", std::to_string(broker.pid()), "--as=unlimited"}).exit_status, 0);
    EXPECT_TRUE(manager_->wait_for("STATUS=recording ")) << broker.err();
    broker.signal(SIGTERM);
    EXPECT_EQ(broker.wait(30s), 0) << broker.err();
    EXPECT_LE(count_of(broker.err(), "; trying again"), 1U) << broker.err();
    manager_->receive_all();
  }
  EXPECT_GT(stayed, 0);
}
#endif

// Not even one for its signals.
TEST_F(ServiceStart, BrokerStaysWithNoFileLeftOnTheMachineAndRecordsLater) {
  const std::string control = folder_ / "full", path = folder_ / "broker/other", id = std::to_string(kClientId);
  write_text(control, "s");
  Child broker = Child::start({folder_.load("full_table"), control, program_, "--config", folder_ / "broker.json",
                               "--state-dir", folder_ / "state", "--group", id, "--socket", path, "--client-uid", id},
                              {.env = {notify_socket(), "WATCHDOG_USEC=4000000"}});
  EXPECT_TRUE(manager_->wait_for("STATUS=recording: no (")) << broker.err();
  EXPECT_TRUE(manager_->wait_for("Too many open files in system")) << broker.err();
  EXPECT_TRUE(manager_->wait_for("READY=1")) << broker.err();
  EXPECT_TRUE(manager_->wait_for("WATCHDOG=1")) << broker.err();
  EXPECT_TRUE(broker.running());
  write_text(control, "0");
  EXPECT_TRUE(manager_->wait_for("STATUS=recording ")) << broker.err();
  EXPECT_EQ(count_of(broker.err(), "; trying again"), 1U) << broker.err();
  broker.signal(SIGTERM);
  EXPECT_EQ(broker.wait(30s), 0) << broker.err();
}

TEST_F(ServiceStart, BrokerStaysWithWrongUsage) {
  Child broker = Child::start({program_, "--socket", folder_ / "broker/other", "--group", "no-such-group"},
                              {.env = {notify_socket()}});
  EXPECT_TRUE(manager_->wait_for("STATUS=recording: no (wrong usage: ")) << broker.err();
  EXPECT_TRUE(manager_->wait_for("READY=1")) << broker.err();
  EXPECT_TRUE(broker.running());
  broker.signal(SIGTERM);
  EXPECT_EQ(broker.wait(30s), 0) << broker.err();
  EXPECT_EQ(count_of(broker.err(), "the group no-such-group does not exist"), 1U) << broker.err();
}

}  // namespace
}  // namespace flight
