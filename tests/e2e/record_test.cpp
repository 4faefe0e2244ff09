// SPDX-License-Identifier: Apache-2.0
// flightctl record: a load's rising numbers are in the parts of a recording, each once or inside a hole that a sidecar
// states, stock perf reads each part, and however a recording ends, whole parts are left.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "libcore/store/names.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/journaled.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/numbered_calls.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class Record : public testing::Test {
 protected:
  // A channel with the calls of a load, which begins with go(). It is not above the others: a worker of the recording
  // shares its CPU.
  Json calls_config(unsigned per_second, std::string_view ring) {
    closer_.emplace(
        start_load({folder_.load("closer"), std::to_string(load_cpu()), std::to_string(per_second), "200"}, 0, true));
    EXPECT_TRUE(closer_->wait_for_line("ready")) << closer_->err();
    Json config = stacks_config(49, "64K");
    config["channels"] = Json::object();
    config["channels"]["calls"] = {
        {"ring", ring},
        {"events",
         {{{"event", "raw_syscalls:sys_enter"},
           {"filter", fmt::format("id == {} && common_pid == {}", SYS_close, closer_->pid())}}}}};
    return config;
  }
  // About 2.6 MiB of a file in a second: a part of 1 MiB has some 8,000 calls.
  Json plain_calls_config(std::string_view ring = "4M") {
    Json config = calls_config(20'000, ring);
    config["snapshot"]["compression"] = "none";
    return config;
  }
  void start_calls(const Json& config) {
    ASSERT_TRUE(daemon_.start(config, options_));
    closer_->go();
  }

  // Record with `more`. Its first reply has the id.
  [[nodiscard]] std::pair<RawSocket, std::string> begin(const Json& parameters = Json::object()) const {
    RawSocket socket = RawSocket::connect(daemon_.socket());
    const Json call = {{"method", "io.flightd.Recorder.Record"}, {"parameters", parameters}, {"more", true}};
    EXPECT_TRUE(socket.call(call.dump()));
    const Json reply = Json::parse(socket.receive().value_or("{}"), nullptr, false);
    const std::string id = reply.value("/parameters/id"_json_pointer, "");
    EXPECT_FALSE(id.empty()) << reply;
    return {std::move(socket), id};
  }
  // Reads the replies to it, which come once a second, until so many events are in files.
  [[nodiscard]] static bool has_events(RawSocket& socket, std::uint64_t events) {
    const Stopwatch watch;
    while (watch.gone_by() < 60s) {
      const auto text = socket.receive();
      if (!text) return false;
      const Json reply = Json::parse(*text, nullptr, false);
      if (reply.value("/parameters/progress/events"_json_pointer, std::uint64_t(0)) >= events) return true;
    }
    return false;
  }
  // The last reply to it.
  static Json result_of(RawSocket& socket) {
    for (;;) {
      const Json reply = Json::parse(socket.receive(60s).value_or("{}"), nullptr, false);
      if (!reply.value("continues", false)) return reply.value("/parameters/recording"_json_pointer, Json::object());
      EXPECT_TRUE(reply.contains("/parameters/progress"_json_pointer)) << reply;
    }
  }
  [[nodiscard]] Json stop(const std::string& id) const { return daemon_.ctl_json({"record", "--stop", id}); }

  // The rows of the list that belong to a recording; of any, if `first` is empty.
  static std::vector<Json> rows_of(const TestDaemon& daemon, const std::string& first = {}) {
    std::vector<Json> rows;
    for (const Json& row : daemon.ctl_json({"list"}))
      if (row.contains("record") && (first.empty() || row["record"]["first"] == first)) rows.push_back(row);
    return rows;
  }
  static std::vector<Json> sidecars_of(const TestDaemon& daemon, const std::string& first) {
    std::vector<Json> sidecars;
    for (const Json& row : rows_of(daemon, first)) sidecars.push_back(daemon.ctl_json({"info", row["id"]}));
    for (std::size_t i = 0; i < sidecars.size(); ++i) {
      EXPECT_EQ(sidecars[i]["kind"], "recording");
      EXPECT_EQ(sidecars[i]["record"]["first"], first);
      EXPECT_EQ(sidecars[i]["record"]["part"], i + 1);
      EXPECT_EQ(i + 1 != sidecars.size(), sidecars[i]["record"]["ended"].is_null()) << sidecars[i]["record"];
    }
    return sidecars;
  }
  // The sum of the pauses of the load's ring.
  static std::uint64_t paused_ns(const Json& part) {
    std::uint64_t sum = 0;
    for (const Json& hole : part["holes"])
      if (hole["cause"] == "paused" && hole["cpu"] == load_cpu())
        sum += hole["end_ns"].get<std::uint64_t>() - hole["begin_ns"].get<std::uint64_t>();
    return sum;
  }
  // The number of events that were in files, by the last report of flightd before it was killed.
  static std::uint64_t events_reported(RawSocket& socket) {
    std::uint64_t most = 0;
    while (const auto text = socket.receive()) {
      const Json reply = Json::parse(*text, nullptr, false);
      most = std::max(most, reply.value("/parameters/progress/events"_json_pointer, std::uint64_t(0)));
    }
    return most;
  }
  // A pause of the load's ring is in the journal, and so is an event after `from_ns`.
  static bool has_pause_and_events(const JournalContents& journal, std::uint64_t from_ns) {
    if (journal.entries.empty() || journal.entries.back().newest_ns <= from_ns) return false;
    for (const auto& [number, notes] : journal.notes) {
      if (number >= journal.entries.size()) continue;  // its round is not written yet
      for (const JournaledHole& one : notes.holes)
        if (one.cpu == load_cpu() && one.hole.cause == HoleCause::paused) return true;
    }
    return false;
  }
  // The next flightd has neither finished nor removed it yet.
  static bool has_unfinished_part(const TestDaemon& daemon) {
    for (const auto& entry : fs::directory_iterator(daemon.snapshots_dir()))
      if (parse_part_file(entry.path().filename().string())) return true;
    return false;
  }
  // The bytes of the largest part that is not whole; 0: none is being written.
  [[nodiscard]] std::uintmax_t partial_bytes() const {
    std::uintmax_t most = 0;
    for (const auto& entry : fs::directory_iterator(daemon_.snapshots_dir())) {
      std::error_code gone;
      if (!entry.path().filename().string().starts_with(".flightd-part-")) continue;
      if (const std::uintmax_t bytes = entry.file_size(gone); !gone) most = std::max(most, bytes);
    }
    return most;
  }

  // `perf script` prints each sample, `perf report` has the load, and neither complains. Without --no-inline perf
  // starts addr2line for programs with debug information, such as flightd.
  void expect_perf_reads(const Json& part, const std::string& comm, bool every_perf = false) const {
    const Json sidecar = as_perf_sees(part);
    SCOPED_TRACE(sidecar["path"]);
    EXPECT_TRUE(every_perf ? all_count_all(folder_, sidecar) : counts_all(Verifier::installed(), folder_, sidecar));
    const Outcome report = Verifier::installed().perf(
        folder_, {"report", "-i", sidecar["path"], "--stdio", "--no-inline", "--sort", "comm"});
    EXPECT_EQ(report.exit_status, 0) << report.text();
    EXPECT_THAT(report.out, HasSubstr(comm));
    EXPECT_TRUE(stderr_is_right(report, !sidecar["holes"].empty()));
  }

  TempFolder folder_;
  StartOptions options_;
  TestDaemon daemon_{folder_};
  std::optional<Child> closer_;
};
using RecordLong = Record;

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

TEST_F(Record, PartsHaveEachNumberOnceUntilCtrlC) {
  start_calls(plain_calls_config("16M"));  // of some six seconds
  ASSERT_TRUE(wait_until([&] { return daemon_.snapshot()["samples"] > 10'000; }, 20s));
  const std::string copy = folder_ / "copy";
  Child recorder = Child::start(daemon_.ctl_command(
      {"--json", "record", "--past", "2s", "--switch-size", "1M", "--channel", "calls", "-o", copy}));
  ASSERT_TRUE(wait_until([&] { return rows_of(daemon_).size() >= 2; }, 30s)) << recorder.err() << daemon_.log();
  const Json meanwhile = daemon_.snapshot({"--capture", "pause"});
  EXPECT_EQ(meanwhile["capture"], "live");
  EXPECT_THAT(meanwhile["messages"].dump(), HasSubstr("copied live"));
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(30s);
  closer_->kill();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const Json result = Json::parse(outcome.out);
  const std::string id = result["id"];
  EXPECT_EQ(result["ended"], "asked");

  const std::vector<Json> parts = sidecars_of(daemon_, id);
  ASSERT_GE(parts.size(), 3U);
  EXPECT_EQ(parts.size(), result["paths"].size());
  EXPECT_EQ(parts.back()["record"]["ended"], "asked");
  EXPECT_EQ(expect_each_once(parts), result["progress"]["events"]);
  const Json& first = parts.front();
  EXPECT_LT(first["window"]["begin"], first["requests"][0]["time"]) << "the past is missing";
  for (const Json& part : parts) expect_perf_reads(part, "closer");

  // Each part was copied when it was whole; `get` of the first one copies all of them, too.
  EXPECT_EQ(daemon_.ctl({"get", id, "-o", copy + "-again"}).exit_status, 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string suffix = i == 0 ? "" : fmt::format(".{}", i + 1), all = read_text(parts[i]["path"]);
    EXPECT_FALSE(all.empty());
    EXPECT_TRUE(read_text(copy + suffix) == all) << copy + suffix;
    EXPECT_TRUE(read_text(copy + "-again" + suffix) == all) << copy + "-again" + suffix;
  }
  const std::string list = daemon_.ctl({"list"}).out;
  EXPECT_EQ(count_of(list, "record"), 1U) << list;
  EXPECT_THAT(list, HasSubstr(fmt::format("{} parts", parts.size())));
  EXPECT_EQ(daemon_.ctl({"remove", id}).exit_status, 0);
  EXPECT_TRUE(rows_of(daemon_).empty());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(RecordLong, CompressedPartsHaveEachNumberOnce) {
  start_calls(calls_config(sanitized() ? 20'000 : 200'000, "16M"));
  const Json result = daemon_.ctl_json({"record", "--for", "10s", "--switch-size", "1M"});
  closer_->kill();
  EXPECT_EQ(result["ended"], "asked");
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_EQ(expect_each_once(parts), result["progress"]["events"]);
  std::uint64_t lost = 0;
  for (const Json& part : parts)
    for (const Json& hole : part["holes"]) lost += hole["lost"].get<std::uint64_t>();
  EXPECT_EQ(lost, result["progress"]["lost"]);
  for (const Json& part : parts) expect_perf_reads(part, "closer", &part == &parts.back());
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

// It has other rings then: its part ends, and the next one begins.
TEST_F(RecordLong, AReloadThatChangesAChannelBeginsAnotherPart) {
  Json config = plain_calls_config();
  start_calls(config);
  auto begun = begin();
  const std::string& id = begun.second;
  ASSERT_TRUE(has_events(begun.first, 2000));
  config["channels"]["calls"]["ring"] = "8M";
  write_text(folder_ / "flightd.json", config.dump(2));
  const Outcome reload = daemon_.ctl({"reload"});
  EXPECT_EQ(reload.exit_status, 0) << reload.text();
  ASSERT_TRUE(wait_until([&] { return rows_of(daemon_, id).size() == 1; }, 20s)) << daemon_.log();
  const std::uint64_t events_before = daemon_.ctl_json({"info", id})["samples"];
  ASSERT_TRUE(has_events(begun.first, events_before + 2000)) << "in the second part";
  EXPECT_EQ(stop(id)["ended"], "asked");
  const std::vector<Json> parts = sidecars_of(daemon_, id);
  ASSERT_EQ(parts.size(), 2U);
  for (const Json& part : parts) {
    EXPECT_GT(part["samples"], 1000U);
    expect_perf_reads(part, "closer");
  }
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(RecordLong, EndsAtItsMaximum) {
  start_calls(plain_calls_config());
  const Json result = daemon_.ctl_json({"record", "--for", "60s", "--max-size", "16M", "--switch-size", "4M"}, 120s);
  EXPECT_EQ(result["ended"], "max_size");
  EXPECT_GE(result["progress"]["bytes"], 16U << 20U);
  EXPECT_LT(result["progress"]["bytes"], 20U << 20U);
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  EXPECT_GE(parts.size(), 2U);
  EXPECT_EQ(parts.back()["record"]["ended"], "max_size");
  EXPECT_TRUE(daemon_.stop());
}

class RecordOnSmallDiskLong : public Record {
 protected:
  void SetUp() override {
    ASSERT_EQ(mkdir(disk_.c_str(), 0755), 0);
    ASSERT_TRUE(mount_tmpfs(disk_, "size=16m"));
    options_.state_dir = disk_ + "/state";
  }
  void TearDown() override { unmount(disk_); }
  std::string disk_ = folder_ / "disk";
};

TEST_F(RecordOnSmallDiskLong, EndsWithWholePartsWhenItIsFull) {
  Json config = plain_calls_config();
  config["store"]["keep_free"] = "0";
  start_calls(config);
  const Outcome outcome = daemon_.ctl({"--json", "record", "--for", "60s", "--switch-size", "3M"}, 120s);
  EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
  const Json result = Json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(result.is_object()) << outcome.text();
  EXPECT_EQ(result["ended"], "disk");
  EXPECT_FALSE(result["warnings"].empty());
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_GT(expect_each_once(parts), 10'000U);
  for (const Json& part : parts) expect_perf_reads(part, "closer");
  EXPECT_EQ(daemon_.ctl({"remove", result["id"]}).exit_status, 0);
  EXPECT_TRUE(daemon_.goes_on());
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

// The part that was open has its holes, too: they were written with its rounds.
TEST_F(RecordLong, AKilledFlightdLeavesItsHoles) {
  const Json config = plain_calls_config();
  start_calls(config);
  const auto begun = begin();
  const std::string& id = begun.second;
  ASSERT_TRUE(closer_->runs_for(300ms)) << "thousands of calls";
  EXPECT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  usleep(500'000);  // a fixed time: the length of the hole is checked
  EXPECT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  const std::uint64_t resumed_ns = now_ns();
  const auto is_journaled = [&] { return has_pause_and_events(journal_in(daemon_.snapshots_dir()), resumed_ns); };
  ASSERT_TRUE(wait_until(is_journaled, 30s)) << daemon_.log();
  daemon_.process().kill();
  closer_->kill();
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(config, options_));
  const auto is_finished = [&] {
    const std::vector<Json> rows = rows_of(next, id);
    return !rows.empty() && rows.back()["record"]["ended"] == "killed";
  };
  ASSERT_TRUE(wait_until(is_finished, 30s)) << next.log();
  const std::vector<Json> parts = sidecars_of(next, id);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0]["record"]["holes_known"], true);
  EXPECT_GT(parts[0]["window"]["end_ns"], resumed_ns);
  EXPECT_GT(paused_ns(parts[0]), 400'000'000U) << parts[0]["holes"];
  EXPECT_GT(expect_each_once(parts), 1000U);
  EXPECT_TRUE(next.stop());
}

// The part that was open is finished by the next flightd.
TEST_F(Record, AKilledFlightdLeavesWholeParts) {
  const Json config = plain_calls_config();
  start_calls(config);
  Child recorder = Child::start(daemon_.ctl_command({"record", "--switch-size", "4M"}));
  ASSERT_TRUE(wait_until([&] { return !rows_of(daemon_).empty(); }, 30s)) << recorder.err() << daemon_.log();
  const std::string id = rows_of(daemon_)[0]["id"];
  // More than what it begins with, which is the names of all processes.
  ASSERT_TRUE(wait_until([&] { return partial_bytes() > 2U << 20U && partial_bytes() < 7U << 19U; }, 20s));
  daemon_.process().kill();
  closer_->kill();
  EXPECT_EQ(recorder.finish(20s).exit_status, 1);
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(config, options_));
  const auto last = [&] {
    const std::vector<Json> rows = rows_of(next, id);
    return rows.empty() ? Json() : rows.back()["record"]["ended"];
  };
  EXPECT_TRUE(wait_until([&] { return last() == "killed"; }, 30s)) << next.log();
  const std::vector<Json> parts = sidecars_of(next, id);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_GT(parts.back()["samples"], 1000U);
  expect_each_once(parts);
  for (const Json& part : parts) expect_perf_reads(part, "closer");
  EXPECT_TRUE(no_partials(next.snapshots_dir()));
  EXPECT_THAT(next.log(), HasSubstr("was finished: flightd was killed"));
  EXPECT_GT(std::stoul(next.snapshot()["id"].get<std::string>()), std::stoul(parts.back()["id"].get<std::string>()));
  EXPECT_TRUE(next.stop());
}

// From before its first file to its third part. FLIGHT_RECORD_SEED repeats a run. A round is in the file or is not:
// what is missing comes after all that is there, and is no more than what came after the last report.
TEST_F(RecordLong, KilledAtAnyMomentLosesOnlyItsLastRound) {
  const char* chosen = std::getenv("FLIGHT_RECORD_SEED");
  const std::uint64_t seed = chosen == nullptr ? std::random_device()() : std::strtoull(chosen, nullptr, 10);
  fmt::print("FLIGHT_RECORD_SEED={}\n", seed);
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<useconds_t> moments(0, 4'000'000);
  std::uint64_t events = 0;
  for (int i = 0; i < (sanitized() ? 3 : 25) && !HasFailure(); ++i) {
    const useconds_t moment_us = moments(generator);
    Json config = plain_calls_config("16M");  // of some six seconds: the reader cannot be late
    config["record"]["layout"] = generator() % 2 == 0 ? "file" : "directory";
    if (generator() % 2 == 0) config["snapshot"]["compression"] = "zstd";
    SCOPED_TRACE(
        fmt::format("{}: killed after {} us, {} {}", i, moment_us, config["record"].dump(), config["snapshot"].dump()));
    std::uint64_t reported = 0, killed_ns = 0;
    {
      TestDaemon killed(folder_);
      ASSERT_TRUE(killed.start(config));
      closer_->go();
      RawSocket client = RawSocket::connect(killed.socket());
      const Json call = {
          {"method", "io.flightd.Recorder.Record"}, {"parameters", {{"part_bytes", 1U << 20U}}}, {"more", true}};
      ASSERT_TRUE(client.call(call.dump()));
      usleep(moment_us);  // a fixed time: the moment is what varies
      killed_ns = now_ns();
      killed.process().kill();
      reported = events_reported(client);
    }
    TestDaemon next(folder_);
    ASSERT_TRUE(next.start(config));
    ASSERT_TRUE(wait_until([&] { return !has_unfinished_part(next); }, 60s)) << next.log();
    const std::vector<Json> rows = rows_of(next);
    std::uint64_t found = 0;
    if (!rows.empty()) {
      const std::vector<Json> parts = sidecars_of(next, rows[0]["record"]["first"]);
      ASSERT_EQ(parts.size(), rows.size());
      EXPECT_EQ(parts.back()["record"]["ended"], "killed");
      found = expect_each_once(parts);
      for (const Json& part : parts) expect_perf_reads(part, "closer");
      const std::uint64_t end_ns = parts.back()["window"]["end_ns"];
      fmt::print("the last one {} ms before the kill\n", (killed_ns - std::min(killed_ns, end_ns)) / 1'000'000);
      EXPECT_EQ(next.ctl({"remove", rows[0]["id"]}).exit_status, 0);
    }
    EXPECT_GE(found, reported) << "flightd said that they are in files";
    events += found;
    EXPECT_TRUE(no_partials(next.snapshots_dir()));
    EXPECT_TRUE(next.stop());
    closer_->kill();
  }
  if (!sanitized()) {
    EXPECT_GT(events, 100'000U);
  }
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
