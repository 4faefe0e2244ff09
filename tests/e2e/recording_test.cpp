// SPDX-License-Identifier: Apache-2.0
// pause, resume, monitor, pin, get: the methods of the control socket besides taking snapshots.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class Recorder : public DaemonTest {
 protected:
  Recorder() : DaemonTest(stacks_config(499, "256K")) {}
  std::vector<std::string> files_of(const std::string& id) const { return files("-" + id + "."); }
};

TEST_F(Recorder, PauseRecordsNothingAndReportsIt) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "60"});
  ASSERT_TRUE(burner.runs_for(300ms));
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  const std::uint64_t paused_ns = now_ns();
  Json status = daemon_.status();
  EXPECT_EQ(status["recording"], "paused");
  EXPECT_THAT(status["warnings"].dump(),
              AllOf(HasSubstr("paused since 20"), HasSubstr("flightctl resume"), HasSubstr("uid 0")));
  EXPECT_EQ(daemon_.ctl({"pause"}).exit_status, 0) << "twice is no error";
  ASSERT_TRUE(burner.runs_for(200ms));

  const Json held = daemon_.snapshot({"--reason", "while paused"});
  EXPECT_GT(held["samples"], 0);
  EXPECT_THAT(held["warnings"].dump(), HasSubstr("is paused since"));
  for (const NamedSample& sample : counted_samples(folder_, held)) EXPECT_LT(sample.time_ns, paused_ns);

  const std::uint64_t resumed_ns = now_ns();
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  EXPECT_TRUE(records(daemon_.status()));
  EXPECT_THAT(daemon_.status()["warnings"].dump(), testing::Not(HasSubstr("paused")));
  ASSERT_TRUE(burner.runs_for(300ms));
  const Json after = daemon_.snapshot();
  EXPECT_THAT(after["warnings"].dump(), AllOf(HasSubstr("was paused from 20"), HasSubstr(" to 20")));
  std::size_t later = 0;
  for (const NamedSample& sample : named_samples(folder_, after["path"])) {
    EXPECT_TRUE(sample.time_ns < paused_ns || sample.time_ns > resumed_ns) << sample.time_ns;
    later += sample.time_ns > resumed_ns ? 1U : 0U;
  }
  EXPECT_GT(later, 10U);
  // A window after the gap is complete.
  EXPECT_FALSE(daemon_.snapshot({"--last", "300ms"}).contains("warnings"));
}

// A process that starts during a pause still has its name.
TEST_F(Recorder, ProcessesOfThePauseAreKnownAfterIt) {
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "60"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  const std::uint64_t resumed_ns = now_ns();
  ASSERT_TRUE(burner.runs_for(500ms));
  const Json sidecar = daemon_.snapshot();
  std::size_t found = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid != burner.pid()) continue;
    // While events are being switched on, no name is better than a possibly wrong one.
    const bool unknown = sample.comm == "[lost]" || sample.comm == fmt::format(":{}", burner.pid());
    EXPECT_TRUE(sample.comm == "burner" || (unknown && sample.time_ns < resumed_ns))
        << sample.line << "\nafter the resume: " << (sample.time_ns >= resumed_ns);
    ++found;
  }
  EXPECT_GT(found, 10U);
}

TEST_F(Recorder, MonitorPrintsALineForEachEvent) {
  Child monitor = Child::start(daemon_.ctl_command({"--json", "monitor"}));
  Child plain = Child::start(daemon_.ctl_command({"monitor"}));
  ASSERT_TRUE(monitor.wait_for_line(R"({"event":"monitoring")"));
  ASSERT_TRUE(wait_until([&] { return plain.out().find("monitoring") != std::string::npos; }, 20s));
  const Json sidecar = daemon_.snapshot({"--reason", "watched"});
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  fs::rename(daemon_.snapshots_dir(), folder_ / "state/elsewhere");
  write_text(daemon_.snapshots_dir(), "in its place");
  EXPECT_EQ(daemon_.ctl({"snapshot"}).exit_status, 1);
  EXPECT_THAT(daemon_.status()["warnings"].dump(), HasSubstr("degraded (disk)"));
  fs::remove(daemon_.snapshots_dir());
  fs::rename(folder_ / "state/elsewhere", daemon_.snapshots_dir());
  (void)daemon_.snapshot();
  // While the store is synced, it may not answer in time.
  EXPECT_TRUE(
      wait_until([&] { return daemon_.status()["warnings"].dump().find("degraded") == std::string::npos; }, 20s));
  ASSERT_TRUE(wait_until([&] { return monitor.out().find("recovered") != std::string::npos; }, 20s));
  std::vector<std::string> events;
  for (const std::string& line : lines_of(monitor.out())) {
    const Json event = Json::parse(line, nullptr, false);
    ASSERT_TRUE(event.is_object() && event.contains("event") && event.contains("time")) << line;
    events.push_back(event["event"]);
    if (events.back() == "snapshot_finished" && event["id"] == sidecar["id"]) {
      EXPECT_EQ(event["reason"], "watched");
      EXPECT_EQ(event["path"], sidecar["path"]);
    }
  }
  EXPECT_THAT(events, testing::ElementsAre("monitoring", "snapshot_begun", "snapshot_finished", "recording_paused",
                                           "recording_resumed", "snapshot_begun", "snapshot_failed", "degraded",
                                           "snapshot_begun", "snapshot_finished", "recovered"));
  EXPECT_TRUE(wait_until([&] { return count_lines(plain.out()) >= events.size(); }, 20s));
  EXPECT_EQ(count_lines(plain.out()), events.size());
  EXPECT_THAT(plain.out(), AllOf(HasSubstr("  snapshot begun"), HasSubstr("  recording paused"),
                                 testing::Not(HasSubstr("snapshot_"))));
  EXPECT_TRUE(daemon_.stop());
  EXPECT_EQ(monitor.finish(10s).exit_status, 1) << "flightd has ended";
}

TEST(RecorderOfARenamedMachine, ASnapshotHasTheNameOfItsMoment) {
  TempFolder folder;
  TestDaemon daemon(folder);
  StartOptions options;
  options.prefix = {"unshare", "--uts", "--"};
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K"), options));
  const Outcome renamed = run({"nsenter", "-t", std::to_string(daemon.pid()), "-u", "sh", "-c",
                               "echo renamed-machine > /proc/sys/kernel/hostname"});
  ASSERT_EQ(renamed.exit_status, 0) << renamed.text();
  const Json sidecar = daemon.snapshot();
  EXPECT_EQ(sidecar["host"], "renamed-machine");
  const std::string path = sidecar["path"];
  EXPECT_THAT(fs::path(path).filename().string(), HasSubstr("renamed-machine"));
  const Outcome header = Verifier::installed().perf(folder, {"report", "--header-only", "-i", path});
  EXPECT_THAT(header.out, HasSubstr("hostname : renamed-machine")) << header.text();
  EXPECT_TRUE(daemon.stop());
}

TEST_F(Recorder, PinsAreKeptWithTheSnapshot) {
  const std::string one = daemon_.snapshot()["id"], other = daemon_.snapshot()["id"];
  EXPECT_EQ(daemon_.ctl_json({"pin", one}), Json::array({one}));
  EXPECT_EQ(daemon_.ctl({"pin", one}).exit_status, 0) << "twice is no error";
  EXPECT_EQ(daemon_.ctl_json({"list"})[0]["pinned"], true);
  EXPECT_EQ(daemon_.ctl_json({"list"})[1]["pinned"], false);
  EXPECT_THAT(daemon_.ctl({"list"}).out, HasSubstr("present pinned"));
  EXPECT_EQ(files_of(one).size(), 3U);
  // After a restart of flightd the snapshot is still pinned.
  ASSERT_TRUE(daemon_.stop());
  ASSERT_TRUE(daemon_.start(stacks_config(499, "256K")));
  EXPECT_EQ(daemon_.ctl_json({"list"})[0]["pinned"], true);
  EXPECT_EQ(daemon_.ctl({"unpin", one, "latest"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl_json({"list"})[0]["pinned"], false);
  EXPECT_EQ(files_of(one).size(), 2U);
  // remove deletes pinned snapshots too.
  EXPECT_EQ(daemon_.ctl({"pin", "latest"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"rm", other}).exit_status, 0);
  EXPECT_TRUE(files_of(other).empty()) << files_of(other).front();
  Outcome unknown = daemon_.ctl({"--json", "pin", "999"});
  EXPECT_EQ(unknown.exit_status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NoSuchSnapshot"));
}

TEST_F(Recorder, GetMakesAFileOfTheCallersOwn) {
  const Json sidecar = daemon_.snapshot();
  const std::string bytes = read_text(sidecar["path"]), name = fs::path(sidecar["path"].get<std::string>()).filename();
  // flightd's own user, who may not open root's file with perf.
  ChildOptions in_scratch;
  in_scratch.prepare = [&] { (void)!chdir((folder_ / "scratch").c_str()); };
  const Arguments command = own_user_command({"get"});
  const Outcome got = run(command, 60s, in_scratch);
  EXPECT_EQ(got.exit_status, 0) << got.text();
  EXPECT_EQ(got.out, name + "\n");
  struct stat info {};
  ASSERT_EQ(stat((folder_ / ("scratch/" + name)).c_str(), &info), 0);
  EXPECT_NE(info.st_uid, 0U);
  EXPECT_EQ(info.st_mode & 07777U, 0640U);
  EXPECT_TRUE(read_text(folder_ / ("scratch/" + name)) == bytes);
  const Outcome again = run(command, 60s, in_scratch);
  EXPECT_EQ(again.exit_status, 1);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(daemon_.ctl({"get", sidecar["id"], "-o", "-"}).out, bytes);
}

// A failed or interrupted get leaves no incomplete file.
TEST_F(Recorder, GetLeavesNothingHalf) {
  const Json sidecar = daemon_.snapshot();
  const std::string disk = folder_ / "disk";
  fs::create_directory(disk);
  ASSERT_TRUE(mount_tmpfs(disk, "size=8k"));
  const Outcome full = daemon_.ctl({"get", "latest", "-o", disk + "/copy"});
  EXPECT_EQ(full.exit_status, 1) << full.text();
  EXPECT_THAT(full.err, HasSubstr("No space left"));
  EXPECT_TRUE(fs::is_empty(disk));
  unmount(disk);

  // A snapshot whose file is missing.
  fs::remove(sidecar["path"].get<std::string>());
  const Outcome gone = daemon_.ctl({"--json", "get", sidecar["id"], "-o", folder_ / "scratch/copy"});
  EXPECT_EQ(gone.exit_status, 1);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("NoSuchSnapshot"), HasSubstr("data file")));
  EXPECT_FALSE(fs::exists(folder_ / "scratch/copy"));
}

using RecorderRestart = OwnBroker;

// The broker survives its client. If the client is killed or exits while recording is paused, the broker resumes it.
TEST_F(RecorderRestart, ANewFlightdRecordsAgain) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  ASSERT_EQ(daemon.ctl({"pause"}).exit_status, 0);
  EXPECT_EQ(daemon.status()["recording"], "paused");
  daemon.process().kill();
  ASSERT_TRUE(daemon.start(config_, options_));
  EXPECT_TRUE(records(daemon.status()));
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "30"});
  ASSERT_TRUE(burner.runs_for(500ms));
  const std::vector<NamedSample> samples = named_samples(folder_, daemon.snapshot()["path"]);
  EXPECT_GT(
      std::count_if(samples.begin(), samples.end(), [&](const NamedSample& one) { return one.pid == burner.pid(); }),
      5);
  EXPECT_TRUE(daemon.stop());
}

TEST(OnStop, OneLastSnapshotWhereTheConfigurationSaysSo) {
  TempFolder folder;
  Json config = stacks_config(499, "256K");
  config["snapshot"]["on_stop"] = true;
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(config));
  EXPECT_TRUE(daemon.stop()) << daemon.log();
  std::vector<std::string> last;
  for (const auto& entry : fs::directory_iterator(daemon.snapshots_dir()))
    if (entry.path().extension() == ".json") last.push_back(entry.path());
  ASSERT_EQ(last.size(), 1U) << daemon.log();
  const Json sidecar = Json::parse(read_text(last[0]));
  EXPECT_EQ(sidecar["trigger"], "stop");
  EXPECT_THAT(sidecar["reason"].get<std::string>(), HasSubstr("SIGTERM"));
  EXPECT_TRUE(counts_all(Verifier::installed(), folder, sidecar));
}

}  // namespace
}  // namespace flight
