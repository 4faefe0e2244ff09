// SPDX-License-Identifier: Apache-2.0
// What scripts rely on: signals, shared snapshots, an answer at any time, names, keys, list, info, remove.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <regex>
#include <set>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using Keys = std::set<std::string>;
namespace fs = std::filesystem;

Keys keys(const Json& object) {
  Keys found;
  for (const auto& [key, value] : object.items()) found.insert(key);
  return found;
}

class Control : public DaemonTest {
 protected:
  Control() : DaemonTest(stacks_config(199, "256K")) {}
};

using ControlLong = Control;

TEST_F(Control, SidecarHasExactlyItsKeys) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "30"});
  ASSERT_TRUE(burner.runs_for(300ms));
  Json sidecar = daemon_.snapshot({"--reason", "which keys?"});
  burner.kill();
  Keys expected = {
      "id",        "path",          "host",     "boot_id", "kernel",      "version",    "config_digest", "trigger",
      "fired",     "reason",        "requests", "capture", "compression", "size_bytes", "raw_bytes",     "samples",
      "window",    "common_window", "blackout", "holes",   "rings",       "tracker",    "timings_us",    "compared",
      "top_units", "top_programs",  "top",      "forks",   "recording"};
  Keys found = keys(sidecar);
  found.erase("messages");  // only if there is one
  found.erase("warnings");  // only if the snapshot is incomplete
  found.erase("metrics");   // only if metrics have been read
  found.erase("stacks");    // only if a sample has callers in a program
  found.erase("kallsyms");  // only if the kernel's symbols could be read
  EXPECT_EQ(found, expected);
  Keys window = {"begin_ns", "end_ns", "seconds", "begin", "end"};
  EXPECT_EQ(keys(sidecar["window"]), window);
  EXPECT_EQ(keys(sidecar["common_window"]), window);
  EXPECT_EQ(keys(sidecar["compared"]), (Keys{"before_begin_ns", "now_begin_ns", "now_end_ns"}));
  EXPECT_EQ(keys(sidecar["blackout"]), (Keys{"max_us", "lost", "lost_exact"}));
  ASSERT_EQ(sidecar["rings"].size(), usable_cpus().size());
  EXPECT_EQ(keys(sidecar["rings"][0]), (Keys{"channel", "cpu", "ring_bytes", "oldest_ns", "newest_ns", "records",
                                             "samples", "blackout_us", "lost", "torn_bytes", "unknown_ids"}));
  EXPECT_EQ(keys(sidecar["tracker"]), (Keys{"processes", "exited", "stale", "evicted", "lost", "unsure"}));
  EXPECT_EQ(keys(sidecar["timings_us"]), (Keys{"queued", "freeze", "walk", "merge", "write", "total"}));
  ASSERT_FALSE(sidecar["top"].empty());
  EXPECT_EQ(keys(sidecar["top"][0]), (Keys{"comm", "pid", "cgroup", "unit", "units", "samples", "share", "share_before",
                                           "share_now", "cpus_before", "cpus_now", "cpus"}));
  ASSERT_EQ(sidecar["requests"].size(), 1U);
  EXPECT_EQ(keys(sidecar["requests"][0]), (Keys{"uid", "pid", "comm", "time", "reason"}));
  EXPECT_EQ(sidecar["requests"][0]["comm"], "flightctl");
  EXPECT_EQ(sidecar["requests"][0]["uid"], 0);
  EXPECT_EQ(sidecar["trigger"], "manual");
  EXPECT_EQ(sidecar["reason"], "which keys?");
  EXPECT_EQ(sidecar["fired"], nullptr);
  // The JSON file beside the snapshot and `info` have the same content.
  std::string beside = sidecar["path"];
  beside.replace(beside.rfind(".perf.data"), std::string::npos, ".json");
  EXPECT_EQ(Json::parse(read_text(beside), nullptr, false), sidecar);
  EXPECT_EQ(daemon_.ctl_json({"info", sidecar["id"]}), sidecar);
  EXPECT_EQ(daemon_.ctl_json({"info", "latest"}), sidecar);
  EXPECT_EQ(fs::file_size(sidecar["path"].get<std::string>()), sidecar["size_bytes"]);
}

TEST_F(Control, FileNamesAreAsSpecified) {
  Json first = daemon_.snapshot(), second = daemon_.snapshot();
  static const std::regex name(R"(flight-[A-Za-z0-9._-]{1,64}-\d{8}T\d{6}\.\d{3}Z-manual-(\d+)\.perf\.data)");
  for (const Json& sidecar : {first, second}) {
    fs::path path = sidecar["path"].get<std::string>();
    EXPECT_EQ(path.parent_path(), daemon_.snapshots_dir());
    std::string file = path.filename();
    std::smatch match;
    ASSERT_TRUE(std::regex_match(file, match, name)) << file;
    EXPECT_EQ(match.str(1), sidecar.value("id", ""));
  }
  EXPECT_EQ(std::stoul(second["id"].get<std::string>()), std::stoul(first["id"].get<std::string>()) + 1);
}

TEST_F(Control, Usr2TakesASnapshot) {
  daemon_.process().signal(SIGUSR2);
  ASSERT_TRUE(wait_until([&] { return files(".perf.data").size() == 1; }, 30s));
  Json list = daemon_.ctl_json({"list"});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["trigger"], "signal");
  EXPECT_NE(list[0]["path"].get<std::string>().find("-signal-"), std::string::npos);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, daemon_.ctl_json({"info", "latest"})));
}

TEST_F(Control, TermFinishesTheSnapshotUnderWay) {
  RawSocket asker = RawSocket::connect(daemon_.socket());
  ASSERT_TRUE(asker.call(
      R"({"method":"io.flightd.Recorder.TakeSnapshot","parameters":{"reason":"the last one","post_usec":30000000}})"));
  // After two more replies flightd has read the call.
  for (int i = 0; i < 2; ++i) (void)daemon_.status();
  EXPECT_TRUE(files(".perf.data").empty());
  EXPECT_TRUE(daemon_.stop());
  std::string answer = asker.receive().value_or("no answer");
  Json sidecar = Json::parse(answer, nullptr, false)["parameters"]["snapshot"];
  ASSERT_TRUE(sidecar.is_object()) << answer;
  EXPECT_EQ(sidecar["reason"], "the last one");
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
  EXPECT_TRUE(files(".partial").empty());
  EXPECT_EQ(files(".json").size(), 1U);
  EXPECT_EQ(files(".perf.data").size(), 1U);
}

TEST_F(ControlLong, TwentyAskersMakeAtMostTwoFiles) {
  // The first request waits for its --post time. So all others arrive before it ends, and share the second snapshot.
  // Some of them come from the daemon's own user.
  const char* post = sanitized() ? "8s" : "3s";
  std::vector<Child> askers;
  for (int i = 0; i < 20; ++i) {
    const Arguments words = {"--json", "snapshot", "--post", post, "--reason", fmt::format("asker {}", i)};
    askers.push_back(Child::start(i % 2 == 1 ? own_user_command(words) : daemon_.ctl_command(words)));
  }
  std::set<std::string> ids;
  std::set<pid_t> pids;
  for (Child& asker : askers) {
    pids.insert(asker.pid());
    Outcome answer = asker.finish(60s);
    ASSERT_EQ(answer.exit_status, 0) << answer.text();
    ids.insert(Json::parse(answer.out, nullptr, false).value("id", "?"));
  }
  EXPECT_LE(ids.size(), 2U);
  EXPECT_EQ(files(".perf.data").size(), ids.size());
  std::multiset<std::string> reasons;
  std::set<pid_t> recorded;
  for (const std::string& id : ids) {
    const Json sidecar = daemon_.ctl_json({"info", id});
    for (const Json& request : sidecar["requests"]) {
      reasons.insert(request["reason"]);
      recorded.insert(request["pid"].get<pid_t>());
    }
  }
  EXPECT_EQ(reasons.size(), 20U) << "every asker is in a sidecar, once";
  for (int i = 0; i < 20; ++i) EXPECT_EQ(reasons.count(fmt::format("asker {}", i)), 1U) << i;
  EXPECT_EQ(recorded, pids);
}

TEST_F(Control, StatusIsAnsweredWhileASnapshotRuns) {
  const char* post = sanitized() ? "8s" : "3s";
  Child asker = Child::start(daemon_.ctl_command({"--json", "snapshot", "--post", post}));
  std::size_t answers = 0;
  while (asker.running()) {
    Json status = daemon_.status();
    if (!asker.running()) break;
    EXPECT_TRUE(records(status));
    (void)daemon_.ctl_json({"list"});
    ++answers;
  }
  EXPECT_GT(answers, 3U);
  Outcome answer = asker.finish(10s);
  EXPECT_EQ(answer.exit_status, 0) << answer.text();
  EXPECT_GE(Json::parse(answer.out, nullptr, false)["timings_us"]["total"], 3'000'000) << "the aftermath is in it";
}

TEST_F(Control, StatusShowsTheRecording) {
  Json status = daemon_.status();
  Keys expected = {"version",   "uptime_seconds", "cpus", "recording",     "paused",   "rings",   "channels",
                   "snapshots", "store",          "self", "last_snapshot", "warnings", "messages"};
  EXPECT_EQ(keys(status), expected);
  EXPECT_EQ(status["paused"], false);
  EXPECT_EQ(status["rings"].size(), usable_cpus().size());
  for (const Json& ring : status["rings"]) {
    EXPECT_EQ(keys(ring), (Keys{"channel", "cpu", "ring_bytes", "history_seconds"}));
    EXPECT_EQ(ring["ring_bytes"], 256 << 10);
  }
  ASSERT_EQ(status["channels"].size(), 1U);
  EXPECT_EQ(keys(status["channels"][0]), (Keys{"name", "events", "history_seconds"}));
  EXPECT_EQ(keys(status["channels"][0]["events"][0]), (Keys{"event", "per_second", "bytes_per_second"}));
  EXPECT_EQ(keys(status["self"]),
            (Keys{"flightd", "broker", "staging_bytes", "ring_bytes", "tracker_bytes", "tracker_max_bytes"}));
  EXPECT_EQ(status["self"]["flightd"]["pid"], daemon_.pid());
  EXPECT_EQ(living_children_of(daemon_.pid()), std::vector<pid_t>{daemon_.broker_pid()});
  EXPECT_EQ(status["last_snapshot"], nullptr);
  EXPECT_EQ(daemon_.ctl({"status"}).exit_status, 0);
}

TEST_F(Control, ListInfoRemove) {
  EXPECT_EQ(daemon_.ctl_json({"list"}), Json::array());
  Json first = daemon_.snapshot({"--reason", "one"}), second = daemon_.snapshot({"--reason", "two"});
  Json list = daemon_.ctl_json({"list"});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["id"], first["id"]);
  EXPECT_EQ(list[1]["id"], second["id"]);
  list[0].erase("units");  // written only if samples have cgroups
  EXPECT_EQ(keys(list[0]),
            (Keys{"id", "path", "time", "trigger", "reason", "size_bytes", "samples", "seconds", "pinned", "state"}));
  EXPECT_EQ(list[0]["reason"], "one");
  EXPECT_EQ(list[0]["state"], "present");
  Outcome bare = run({required_env("FLIGHTCTL"), "--socket", daemon_.socket()});
  EXPECT_EQ(bare.exit_status, 0) << bare.text();
  EXPECT_EQ(bare.out, daemon_.ctl({"list"}).out) << "a bare flightctl lists";

  fs::remove(second["path"].get<std::string>());
  EXPECT_EQ(daemon_.ctl_json({"list"})[1]["state"], "missing");
  Outcome removed = daemon_.ctl({"remove", second["id"]});
  EXPECT_EQ(removed.exit_status, 0) << removed.text();
  EXPECT_EQ(daemon_.ctl_json({"list"}).size(), 1U);
  Json third = daemon_.snapshot();
  EXPECT_GT(std::stoul(third["id"].get<std::string>()), std::stoul(second["id"].get<std::string>()))
      << "an id is never used twice";
}

TEST_F(Control, OutputGoesToTheGivenFile) {
  std::string copy = folder_ / "scratch/copy.perf.data";
  Json sidecar = daemon_.snapshot({"-o", copy});
  EXPECT_EQ(read_text(copy), read_text(sidecar["path"]));
  Outcome to_stdout = daemon_.ctl({"snapshot", "-o", "-"});
  EXPECT_EQ(to_stdout.exit_status, 0) << to_stdout.err;
  EXPECT_TRUE(to_stdout.out.starts_with("PERFILE2")) << to_stdout.out.substr(0, 200);
  EXPECT_EQ(to_stdout.out, read_text(daemon_.ctl_json({"info", "latest"})["path"]));
}

// Each perf reads the plain file as it reads the other one.
TEST_F(ControlLong, APlainCopyHasTheSameContent) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "30"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  const Json sidecar = daemon_.snapshot({"--post", "1s"});
  const std::string plain = folder_ / "scratch/plain.perf.data";
  const Outcome got = daemon_.ctl({"get", sidecar["id"], "--plain", "-o", plain});
  ASSERT_EQ(got.exit_status, 0) << got.text();
  EXPECT_GT(fs::file_size(plain), sidecar["raw_bytes"].get<std::uint64_t>());
  for (const Verifier& verifier : Verifier::all()) {
    const auto script = [&](const std::string& file) {
      return verifier.perf(folder_, {"script", "-i", file, "-F", "comm,tid,cpu,time,event,ip"});
    };
    const Outcome expected = script(sidecar["path"]), found = script(plain);
    EXPECT_EQ(found.out, expected.out) << verifier.name();
    EXPECT_EQ(found.err, expected.err) << verifier.name();
    EXPECT_GE(count_lines(found.out), sidecar["samples"].get<std::size_t>()) << verifier.name();
    const Outcome header = verifier.perf(folder_, {"report", "-i", plain, "--header-only"});
    EXPECT_EQ(header.out.find("compressed"), std::string::npos) << header.text();
  }
  const Outcome piped = daemon_.ctl({"get", sidecar["id"], "--plain", "-o", "-"});
  EXPECT_EQ(piped.exit_status, 0) << piped.err;
  EXPECT_EQ(piped.out, read_text(plain));
  const Outcome again = daemon_.ctl({"get", sidecar["id"], "--plain", "-o", plain});
  EXPECT_NE(again.exit_status, 0) << "it exists";
}

TEST_F(Control, WindowsAreAsRequested) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "30"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_TRUE(wait_until([&] { return history_seconds(daemon_.status()) > 2.3; }, 20s));
  Json last = daemon_.snapshot({"--last", "1s"});
  Json since = daemon_.snapshot({"--since", "-2s", "--until", "-1s"});
  burner.kill();  // perf needs a CPU
  EXPECT_NEAR(last["window"]["seconds"], 1.0, 0.2);
  std::uint64_t begin = last["window"]["begin_ns"], end = last["window"]["end_ns"];
  for (const NamedSample& sample : named_samples(folder_, last["path"])) {
    EXPECT_GE(sample.time_ns, begin);
    EXPECT_LE(sample.time_ns, end);
  }
  EXPECT_NEAR(since["window"]["seconds"], 1.0, 0.2);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, since));
}

TEST_F(Control, LiveCaptureNeverPauses) {
  Json sidecar = daemon_.snapshot({"--capture", "live"});
  EXPECT_EQ(sidecar["capture"], "live");
  EXPECT_EQ(sidecar["blackout"]["max_us"], 0.0);
  EXPECT_EQ(sidecar["blackout"]["lost"], 0);
  EXPECT_TRUE(all_count_all(folder_, sidecar));
}

TEST_F(Control, IntrospectionIsServed) {
  RawSocket socket = RawSocket::connect(daemon_.socket());
  ASSERT_TRUE(socket.connected());
  ASSERT_TRUE(socket.call(R"({"method":"org.varlink.service.GetInfo"})"));
  Json info = Json::parse(socket.receive().value_or(""), nullptr, false);
  EXPECT_THAT(info["parameters"]["interfaces"].dump(), testing::HasSubstr("io.flightd.Recorder"));
  ASSERT_TRUE(socket.call(
      R"({"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"io.flightd.Recorder"}})"));
  Json description = Json::parse(socket.receive().value_or(""), nullptr, false);
  EXPECT_THAT(description["parameters"]["description"].dump(), testing::HasSubstr("method TakeSnapshot"));
  // `more`: progress, then the snapshot.
  ASSERT_TRUE(
      socket.call(R"({"method":"io.flightd.Recorder.TakeSnapshot","more":true,"parameters":{"reason":"raw"}})"));
  Json reply;
  std::size_t progress = 0;
  do {
    reply = Json::parse(socket.receive().value_or("{}"), nullptr, false);
    progress += reply.value("continues", false) ? 1U : 0U;
  } while (reply.value("continues", false));
  EXPECT_EQ(reply["parameters"]["snapshot"]["reason"], "raw") << reply;
  EXPECT_GT(progress, 0U);
}

TEST_F(Control, OthersMayOnlyIntrospect) {
  struct stat info {};
  ASSERT_EQ(stat(daemon_.socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666U);
  ASSERT_EQ(stat(daemon_.runtime_dir().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755U);
  Arguments as_stranger = {"setpriv", "--reuid=54322", "--regid=54322", "--clear-groups", "--"};
  Arguments command = daemon_.ctl_command({"--json", "status"});
  as_stranger.insert(as_stranger.end(), command.begin(), command.end());
  Outcome outcome = run(as_stranger);
  EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, testing::HasSubstr("PermissionDenied"));
}

}  // namespace
}  // namespace flight
