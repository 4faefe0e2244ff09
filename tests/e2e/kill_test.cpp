// SPDX-License-Identifier: Apache-2.0
// kill -9: a broker that flightd forked ends with it. A separate broker continues recording, and a client that died
// between PAUSE and RESUME leaves no ring paused for the next client.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "libcore/broker/client.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

TEST(Kill, OwnBrokerEndsWithFlightd) {
  TempFolder folder;
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K")));
  std::vector<pid_t> children = living_children_of(daemon.pid());
  ASSERT_EQ(children, std::vector<pid_t>{daemon.broker_pid()});
  daemon.process().kill();
  EXPECT_TRUE(wait_until([&] { return !process_exists(children[0]); }, 20s)) << "broker " << children[0] << " is left";
}

// A stopped process does not see the end of a connection, and flightd, which is nobody, may not kill root's.
TEST(Kill, AStoppedBrokerEndsWithItsFlightd) {
  TempFolder folder;
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K")));
  const pid_t broker = daemon.broker_pid();
  ASSERT_EQ(kill(broker, SIGSTOP), 0);
  daemon.process().kill();
  EXPECT_TRUE(wait_until([&] { return !process_exists(broker); }, 20s)) << "broker " << broker << " is left";
}

TEST(KillLong, AStoppedBrokerIsKilledWhenFlightdHasWaitedForIt) {
  TempFolder folder;
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K")));
  const pid_t broker = daemon.broker_pid();
  ASSERT_EQ(kill(broker, SIGSTOP), 0);
  daemon.process().signal(SIGTERM);
  EXPECT_EQ(daemon.process().wait(20s), 0);
  EXPECT_THAT(daemon.log(), testing::HasSubstr(fmt::format("flightd-broker (pid {}) has not ended within", broker)));
  EXPECT_TRUE(wait_until([&] { return !process_exists(broker); }, 20s)) << "broker " << broker << " is left";
}

// `timeout` and Ctrl-C signal both processes: the current snapshot is still finished, and its sidecar says what is
// missing.
TEST(Kill, SigtermToBothFinishesTheSnapshotUnderWay) {
  TempFolder folder;
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K")));
  RawSocket asker = RawSocket::connect(daemon.socket());
  ASSERT_TRUE(
      asker.call(R"({"method":"io.flightd.Recorder.TakeSnapshot","parameters":{"post_usec":60000000},"more":true})"));
  ASSERT_THAT(asker.receive().value_or("no answer"), testing::HasSubstr(R"("waiting")"));
  kill(daemon.broker_pid(), SIGTERM);
  usleep(100'000);
  EXPECT_TRUE(daemon.stop());
  Json answer;
  do {
    answer = Json::parse(asker.receive().value_or("{}"), nullptr, false);
  } while (answer.value("continues", false));
  const Json sidecar = answer.value("/parameters/snapshot"_json_pointer, Json());
  ASSERT_TRUE(sidecar.is_object()) << answer << daemon.log();
  EXPECT_THAT(sidecar["warnings"].dump(), testing::HasSubstr("`post`"));
  EXPECT_TRUE(counts_all(Verifier::installed(), folder, sidecar));
}

TEST(Kill, NextFlightdStartsWhereOneWasKilled) {
  TempFolder folder;
  std::string id;
  {
    TestDaemon daemon(folder);
    ASSERT_TRUE(daemon.start(stacks_config(99, "64K")));
    id = daemon.snapshot()["id"];
    // flightd is killed while it writes a snapshot: its socket and perhaps a .partial file remain.
    Child asker = Child::start(daemon.ctl_command({"snapshot", "--post", "60s"}));
    usleep(200'000);
    daemon.process().kill();
    EXPECT_EQ(asker.finish(20s).exit_status, 1);
  }
  TestDaemon next(folder);
  ASSERT_TRUE(next.start(stacks_config(99, "64K")));
  EXPECT_EQ(next.ctl_json({"list"}).size(), 1U);
  EXPECT_GT(std::stoul(next.snapshot()["id"].get<std::string>()), std::stoul(id));
  EXPECT_TRUE(next.stop());
}

class KillBesideABroker : public OwnBroker {
 protected:
  // Every CPU is busy, so a ring whose head does not move is paused.
  void expect_all_rings_advance() {
    std::vector<Child> burners;
    for (int cpu : usable_cpus()) {
      burners.push_back(start_load({folder_.load("burner"), std::to_string(cpu), "90"}));
      ASSERT_TRUE(burners.back().wait_for_line("started"));
    }
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(config_, options_));
    std::uint64_t from_ns = now_ns();
    Json sidecar;
    bool advanced = wait_until(
        [&] {
          sidecar = daemon.snapshot();
          for (const Json& ring : sidecar["rings"]) {
            if (ring["newest_ns"] <= from_ns) return false;
          }
          return true;
        },
        sanitized() ? 60s : 10s);
    burners.clear();  // perf needs a CPU
    EXPECT_TRUE(advanced) << sidecar["rings"].dump(2);
    EXPECT_EQ(sidecar["rings"].size(), usable_cpus().size());
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
    daemon.process().signal(SIGTERM);
    EXPECT_EQ(daemon.process().wait(20s), 0);
    EXPECT_TRUE(broker_->running()) << "it does not end with a client that it did not come from";
  }
};

using KillBesideABrokerLong = KillBesideABroker;

// The worst client: it dies when it has paused every ring that it got.
TEST_F(KillBesideABroker, PausedRingsOfADeadClientAreResumed) {
  pid_t client = fork();
  if (client == 0) {
    if (setgid(kClientId) != 0 || setuid(kClientId) != 0) _exit(10);
    auto broker = BrokerClient::connect(socket_);
    if (!broker) _exit(11);
    auto attachment = broker->attach();
    if (!attachment) _exit(12);
    for (const UniqueFd& owner : attachment->owners) {
      if (ioctl(owner.get(), PERF_EVENT_IOC_PAUSE_OUTPUT, 1) != 0) _exit(13);
    }
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(client, &status, 0), client);
  ASSERT_TRUE(WIFSIGNALED(status)) << "step " << WEXITSTATUS(status) - 10;
  expect_all_rings_advance();
}

TEST_F(KillBesideABrokerLong, FlightdKilledDuringSnapshotsLeavesNothingPaused) {
  for (int round = 0; round < (sanitized() ? 3 : 8); ++round) {
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(config_, options_));
    // Each time flightd is killed at another moment of a snapshot; the scheduler decides at which.
    Child asker = Child::start(daemon.ctl_command({"snapshot"}));
    usleep(static_cast<useconds_t>(round) * 7'000);
    daemon.process().kill();
    (void)asker.finish(20s);
  }
  EXPECT_TRUE(broker_->running());
  expect_all_rings_advance();
}

// The history survives flightd's death: the next flightd finds samples from before its start.
TEST_F(KillBesideABroker, HistoryOutlivesFlightd) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "30"});
  const auto started = burner.wait_for_line("started");
  ASSERT_TRUE(started);
  const std::uint64_t began_ns = number_in(*started, "time");
  {
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(config_, options_));
    daemon.process().kill();
  }
  ASSERT_TRUE(burner.runs_for(200ms));
  std::uint64_t restarted_ns = now_ns();
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(config_, options_));
  Json sidecar = next.snapshot();
  burner.kill();
  std::size_t older = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid != burner.pid() || sample.time_ns < began_ns || sample.time_ns > restarted_ns) continue;
    ++older;
    EXPECT_EQ(sample.comm, "burner");
    EXPECT_TRUE(sample.has_symbol()) << sample.dso;
  }
  EXPECT_GT(older, 20U);
  next.process().signal(SIGTERM);
  EXPECT_EQ(next.process().wait(20s), 0);
}

}  // namespace
}  // namespace flight
