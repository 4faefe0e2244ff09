// SPDX-License-Identifier: Apache-2.0
// flightctl record: what a recording has, stock perf reads it, and however it is ended, a whole part is left.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "tests/e2e/numbered_calls.hpp"
#include "tests/e2e/record_fixture.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(Record, ForSomeTimeIsOneFileThatPerfReads) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "256K")));
  Child recorder = Child::start(daemon_.ctl_command({"--json", "record", "--for", "2s", "--reason", "the test"}));
  ASSERT_TRUE(wait_until([&] { return partial_bytes() > 0; }, 20s)) << recorder.err();
  EXPECT_TRUE(rows_of(daemon_).empty()) << "a part that is not whole is listed";
  // It begins meanwhile: its names come from the records that are written as they come.
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "20"});
  const Outcome outcome = recorder.finish(30s);
  burner.kill();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["ended"], "asked");
  EXPECT_GE(result["progress"]["seconds"], 2.0);
  ASSERT_EQ(result["paths"].size(), 1U);
  const std::vector<Json> sidecars = sidecars_of(daemon_, result["id"]);
  ASSERT_EQ(sidecars.size(), 1U);
  const Json& sidecar = sidecars[0];
  EXPECT_EQ(sidecar["path"], result["paths"][0]);
  EXPECT_EQ(sidecar["samples"], result["progress"]["events"]);
  EXPECT_EQ(sidecar["record"]["ended"], "asked");
  EXPECT_EQ(sidecar["reason"], "the test");
  EXPECT_EQ(sidecar["capture"], "live");
  expect_perf_reads(sidecar, "burner");
  std::size_t hot = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"]))
    if (sample.comm == "burner" && sample.has_symbol() && sample.dso.ends_with("/burner")) ++hot;
  EXPECT_GT(hot, 100U);
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

// However long its files take.
TEST_F(Record, ThePastEndsWhenItIsAskedFor) {
  ASSERT_TRUE(daemon_.start(stacks_config(99, "64K")));
  ASSERT_TRUE(wait_until([&] { return history_seconds(daemon_.status()) > 0.3; }, 20s)) << "the past is held";
  RawSocket socket = RawSocket::connect(daemon_.socket());
  ASSERT_EQ(::kill(daemon_.broker_pid(), SIGSTOP), 0);  // it makes the files
  const std::uint64_t before_ns = now_ns(), past_ns = 200'000'000;
  const Json call = {{"method", "io.flightd.Recorder.Record"}, {"parameters", {{"past_ns", past_ns}}}, {"more", true}};
  EXPECT_TRUE(socket.call(call.dump()));
  usleep(1'000'000);  // a fixed time: the files take so long
  const std::uint64_t after_ns = now_ns();
  ASSERT_EQ(::kill(daemon_.broker_pid(), SIGCONT), 0);
  const Json reply = Json::parse(socket.receive(20s).value_or("{}"), nullptr, false);
  const std::string id = reply.value("/parameters/id"_json_pointer, "");
  ASSERT_FALSE(id.empty()) << reply;
  EXPECT_EQ(stop(id)["ended"], "asked");
  const Json window = daemon_.ctl_json({"info", id})["window"];
  EXPECT_GE(window["begin_ns"], before_ns - past_ns);
  EXPECT_LT(window["begin_ns"], after_ns - past_ns);
  EXPECT_TRUE(daemon_.stop());
}

// Its snapshot and its recording have each number between them, some of them twice.
TEST_F(RecordLong, ATriggersGoesOnFromItsSnapshot) {
  Json config = calls_config(20'000, "16M");  // of some six seconds: the recording begins before the ring turns
  config["triggers"]["probe"] = {{"external", true}, {"action", {{"record", "2s"}}}};
  start_calls(config);
  ASSERT_TRUE(wait_until([&] { return daemon_.snapshot()["samples"] > 10'000; }, 20s));
  const Json fired = daemon_.ctl_json({"fire", "probe", "--reason", "p99 is 1200 ms"});
  const Json snapshot = daemon_.ctl_json({"info", fired["id"]});
  const auto has_ended = [&] {
    const std::vector<Json> rows = rows_of(daemon_);
    return !rows.empty() && !rows.back()["record"]["ended"].is_null();
  };
  ASSERT_TRUE(wait_until(has_ended, 30s)) << daemon_.log();
  closer_->kill();
  EXPECT_EQ(snapshot["trigger"], "probe");
  EXPECT_EQ(snapshot["capture"], "live");
  const std::string id = rows_of(daemon_).front()["id"];
  const std::vector<Json> parts = sidecars_of(daemon_, id);
  EXPECT_EQ(parts.back()["record"]["ended"], "asked");
  EXPECT_EQ(parts.front()["reason"], "trigger probe: p99 is 1200 ms");
  EXPECT_EQ(parts.front()["requests"][0]["comm"], "flightd");
  EXPECT_GT(expect_each_once(parts), 10'000U) << "in two seconds";
  const std::vector<NumberedCall> before = numbered_calls(snapshot), after = numbered_calls(parts.front());
  ASSERT_TRUE(!before.empty() && !after.empty());
  EXPECT_LE(after.front().number, before.back().number + 1) << "what came between is missing";
  EXPECT_GT(after.back().number, before.back().number);
  expect_perf_reads(parts.front(), "closer");
  EXPECT_THAT(daemon_.log(), HasSubstr(fmt::format("recording {} of trigger probe ended (asked)", id)));
  EXPECT_TRUE(daemon_.stop());
}

// How often the threads that read the rings of a recording have waited; 0: there are none.
std::size_t waits_of_readers(pid_t pid) {
  constexpr std::string_view kWaits = "\nvoluntary_ctxt_switches:\t";
  std::size_t waits = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    const std::string status = read_text(entry.path().string() + "/status");
    if (!status.starts_with("Name:\tstream-") || status.starts_with("Name:\tstream-writer")) continue;
    if (const std::size_t at = status.find(kWaits); at != std::string::npos)
      waits += std::stoul(status.substr(at + kWaits.size()));
  }
  return waits;
}

// Nothing is recorded yet: the heads of the rings are noted once a second, and nobody reads.
TEST_F(Record, OnAnIdleMachineItsReadersSleep) {
  ASSERT_TRUE(daemon_.start(calls_config(100, "256K"), options_));
  auto begun = begin();
  RawSocket& socket = begun.first;
  const auto sleep_for_seconds = [&] {
    const std::size_t before = waits_of_readers(daemon_.pid());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(socket.receive()) << "one reply comes each second";
    return before != 0 && waits_of_readers(daemon_.pid()) == before;
  };
  EXPECT_TRUE(wait_until(sleep_for_seconds, 60s));
  const std::size_t asleep = waits_of_readers(daemon_.pid());
  closer_->go();
  EXPECT_TRUE(has_events(socket, 10));
  EXPECT_GT(waits_of_readers(daemon_.pid()), asleep);
  EXPECT_EQ(stop(begun.second)["ended"], "asked");
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Record, StopEndsItAndAThirdOneIsRefused) {
  ASSERT_TRUE(daemon_.start(stacks_config(99, "64K")));
  auto [first, first_id] = begin();
  auto [second, second_id] = begin({{"for_ns", 60'000'000'000}});
  const Outcome third = daemon_.ctl({"record", "--for", "1s"});
  EXPECT_EQ(third.exit_status, 1);
  EXPECT_THAT(third.err, HasSubstr(fmt::format("2 recordings run already ({}, {})", first_id, second_id)));
  EXPECT_EQ(stop(first_id)["ended"], "asked");
  EXPECT_EQ(result_of(first)["id"], first_id);
  const Outcome again = daemon_.ctl({"record", "--stop", first_id});
  EXPECT_EQ(again.exit_status, 1);
  EXPECT_THAT(again.err, HasSubstr(fmt::format("no recording {} is running; these are: {}", first_id, second_id)));
  // The end of flightd ends the other one in order.
  daemon_.process().signal(SIGTERM);
  EXPECT_EQ(result_of(second)["ended"], "asked");
  EXPECT_EQ(daemon_.process().wait(20s), 0) << daemon_.log();
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
}

TEST_F(Record, EndsWithItsClient) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "64K")));
  Child recorder = Child::start(daemon_.ctl_command({"record"}));
  ASSERT_TRUE(wait_until([&] { return partial_bytes() > 0; }, 20s)) << recorder.err();
  recorder.kill();
  ASSERT_TRUE(wait_until([&] { return rows_of(daemon_).size() == 1; }, 20s)) << daemon_.log();
  EXPECT_EQ(rows_of(daemon_)[0]["record"]["ended"], "asked");
  EXPECT_TRUE(daemon_.stop());
}

// As Ctrl-C: its terminal goes away, or somebody ends flightctl.
TEST_F(RecordLong, ASignalEndsItInOrder) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "64K")));
  for (const int number : {SIGHUP, SIGTERM}) {
    SCOPED_TRACE(number);
    // This test may ignore it, as programs of nohup(1) do.
    Child recorder =
        Child::start(daemon_.ctl_command({"--json", "record"}), {.prepare = [] { std::signal(SIGHUP, SIG_DFL); }});
    // The first progress comes a second after the id.
    ASSERT_TRUE(wait_until([&] { return daemon_.status().dump().find(" in 1 part;") != std::string::npos; }, 20s))
        << recorder.err();
    recorder.signal(number);
    const Outcome outcome = recorder.finish(30s);
    ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
    EXPECT_EQ(Json::parse(outcome.out)["ended"], "asked");
  }
  EXPECT_EQ(rows_of(daemon_).size(), 2U);
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

// What it does not read is dropped: the recording goes on, and when its client goes on, too, it gets all parts.
TEST_F(RecordLong, AStoppedClientDoesNotHoldItUp) {
  start_calls(plain_calls_config());
  const std::string copy = folder_ / "copy";
  Child recorder = Child::start(daemon_.ctl_command({"--json", "record", "--switch-size", "1M", "-o", copy}));
  ASSERT_TRUE(wait_until([&] { return !rows_of(daemon_).empty(); }, 30s)) << recorder.err() << daemon_.log();
  recorder.signal(SIGSTOP);
  const std::size_t before = rows_of(daemon_).size();
  ASSERT_TRUE(wait_until([&] { return rows_of(daemon_).size() >= before + 5; }, 60s)) << daemon_.log();
  recorder.signal(SIGCONT);
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(60s);
  closer_->kill();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["ended"], "asked");
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  EXPECT_EQ(expect_each_once(parts), result["progress"]["events"]);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string suffix = i == 0 ? "" : fmt::format(".{}", i + 1);
    EXPECT_TRUE(read_text(copy + suffix) == read_text(parts[i]["path"])) << copy + suffix;
  }
  EXPECT_TRUE(daemon_.stop());
}

// Its pty(7) is closed: a SIGHUP, and EIO for what it writes. Under nohup(1) the recording goes on.
TEST_F(RecordLong, ItsTerminalGoesAway) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "64K")));
  std::size_t recordings = 0;
  for (const bool is_ignored : {false, true}) {
    SCOPED_TRACE(is_ignored);
    UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_EQ(::grantpt(terminal.get()), 0);
    ASSERT_EQ(::unlockpt(terminal.get()), 0);
    const std::string path = ::ptsname(terminal.get());
    const auto become = [path, is_ignored] {
      std::signal(SIGHUP, is_ignored ? SIG_IGN : SIG_DFL);
      ::setsid();
      const int fd = ::open(path.c_str(), O_RDWR);  // controls the session that has no terminal yet
      for (const int to : {0, 1, 2}) ::dup2(fd, to);
    };
    Child recorder = Child::start(daemon_.ctl_command({"record"}), {.env = {"TERM=xterm"}, .prepare = become});
    ASSERT_TRUE(wait_until([&] { return daemon_.status().dump().find(" in 1 part;") != std::string::npos; }, 20s));
    terminal.reset();
    if (is_ignored) {
      const std::size_t rounds = journal_in(daemon_.snapshots_dir()).entries.size();
      EXPECT_TRUE(wait_for_rounds(daemon_.snapshots_dir(), rounds + 3)) << "it goes on";
      EXPECT_TRUE(recorder.running());
      recorder.signal(SIGTERM);
    }
    EXPECT_TRUE(recorder.wait(30s)) << "flightctl did not end";
    ++recordings;
    ASSERT_TRUE(wait_until([&] { return rows_of(daemon_).size() == recordings; }, 20s)) << daemon_.log();
    EXPECT_EQ(rows_of(daemon_).back()["record"]["ended"], "asked");
  }
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Record, APauseIsAHole) {
  start_calls(plain_calls_config());
  auto [client, id] = begin();
  ASSERT_TRUE(closer_->runs_for(300ms)) << "thousands of calls";
  EXPECT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  usleep(500'000);  // a fixed time: the length of the hole is checked
  EXPECT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  ASSERT_TRUE(closer_->runs_for(300ms));
  EXPECT_EQ(stop(id)["ended"], "asked");
  const std::vector<Json> parts = sidecars_of(daemon_, id);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_GT(paused_ns(parts[0]), 400'000'000U) << parts[0]["holes"];
  EXPECT_GT(expect_each_once(parts), 1000U);
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Record, WithoutSuchAChannelIsRefused) {
  ASSERT_TRUE(daemon_.start(stacks_config(99, "64K")));
  const Outcome outcome = daemon_.ctl({"record", "--for", "1s", "--channel", "nothing"});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no channel 'nothing'"), HasSubstr("stacks")));
  EXPECT_TRUE(rows_of(daemon_).empty());
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
