// SPDX-License-Identifier: Apache-2.0
// flightd in a PID namespace of its own: a process outside has no pid there, so flightd must not give it a name. And in
// a chroot, where it knows all of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libcore/sysinfo/pid_namespace.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Arguments kContainer{"unshare", "--pid", "--fork", "--mount-proc"};

class Container : public testing::Test {
 protected:
  // TestDaemon is not usable here: it would take the pids in the status, which are the container's, for pids of this
  // machine.
  void SetUp() override { start(stacks_config(499, "512K"), {}); }
  // `first`: the container executes it, followed by flightd's command.
  void start(const Json& config, const Arguments& first) {
    write_text(folder_ / "flightd.json", config.dump());
    Arguments command = kContainer;
    command.insert(command.end(), first.begin(), first.end());
    command.insert(command.end(), {required_env("FLIGHTD"), "--config", folder_ / "flightd.json", "--state-dir",
                                   folder_ / "state", "--runtime-dir", folder_ / "run"});
    flightd_.emplace(Child::start(command));
    ASSERT_TRUE(wait_until([&] { return ctl({"status"}).exit_status == 0; }, 30s));
  }
  // If the first process of a PID namespace exits, the kernel kills all others. The exit of unshare would not do this.
  void TearDown() override {
    const std::string first = read_text(fmt::format("/proc/{0}/task/{0}/children", flightd_->pid()));
    if (const int pid = std::atoi(first.c_str()); pid > 1) ::kill(pid, SIGKILL);
    EXPECT_TRUE(flightd_->wait(10s));
  }
  [[nodiscard]] Outcome ctl(const Arguments& arguments) const {
    Arguments command{required_env("FLIGHTCTL"), "--json", "--socket", folder_ / "run/io.flightd.Recorder"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, 60s);
  }

  TempFolder folder_;
  std::optional<Child> flightd_;
};

TEST_F(Container, ProcessesOutsideGetNoName) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "30"}, -10);
  ASSERT_TRUE(burner.wait_for_line("started"));
  // Each of these processes makes records that could be mistaken for the name of the processes outside.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run({"true"}).exit_status, 0);
  ASSERT_TRUE(burner.runs_for(500ms));  // about 250 samples
  const Outcome taken = ctl({"snapshot"});
  ASSERT_EQ(taken.exit_status, 0) << taken.text();
  burner.kill();
  const Json sidecar = Json::parse(ctl({"info", "latest"}).out);
  // The burner is in user mode. The idle tasks may have no sample.
  std::map<std::string, std::uint64_t> outside;
  for (const Json& row : sidecar["top"]) {
    if (row["pid"] != 0) continue;
    outside[row["comm"].get<std::string>()] += row["samples"].get<std::uint64_t>();
    EXPECT_EQ(row["unit"], "") << "it is processes of many units";
  }
  EXPECT_GT(outside[kOutsideName], 100U) << sidecar["top"];
  outside.erase(kOutsideName);
  outside.erase(kOutsideOrIdle);
  EXPECT_TRUE(outside.empty()) << sidecar["top"];
  EXPECT_THAT(sidecar["messages"].dump(),
              AllOf(HasSubstr("\"info\""), HasSubstr(kOutsideOrIdle), HasSubstr("flightctl doctor")));
  for (const Outcome& script : perf_of_all(folder_, {"script", "-i", sidecar["path"], "-G", "-F", "pid,comm"})) {
    SCOPED_TRACE(script.command);
    EXPECT_TRUE(prints_all(script, sidecar));
    std::size_t named = 0;
    for (const std::string& line : lines_of(script.out)) {
      if (!line.ends_with(" 0") && line.find(" 0 ") == std::string::npos) continue;
      ++named;
      EXPECT_THAT(line, HasSubstr(kOutsideOrIdle)) << "a file has one name for each pid";
    }
    EXPECT_GT(named, 100U) << script.text();
  }
}

TEST_F(Container, DoctorSaysSo) {
  Arguments command = kContainer;
  command.insert(command.end(),
                 {required_env("FLIGHTCTL"), "--json", "--socket", folder_ / "run/io.flightd.Recorder", "doctor"});
  const Outcome inside = run(command, 60s);
  EXPECT_THAT(inside.out, AllOf(HasSubstr("pid-namespace"), HasSubstr("hostPID")));
}

// It sees all processes, and its root is another one than theirs. Only the folder of the test can be written there.
TEST(Chroot, RecordsAndNamesWhatRunsOutside) {
  TempFolder folder;
  TestDaemon daemon(folder);
  Child burner = start_load({folder.load("burner"), std::to_string(load_cpu()), "60"}, kBusy);
  ASSERT_TRUE(burner.wait_for_line("started"));
  const std::string root = folder / "root";
  std::filesystem::create_directory(root);
  StartOptions options;
  options.prefix = {"unshare",
                    "--mount",
                    "--propagation",
                    "private",
                    "sh",
                    "-c",
                    "mount --rbind / \"$0\" && mount -o remount,bind,ro \"$0\" && "
                    "mount --bind \"${0%/*}\" \"$0${0%/*}\" && exec chroot \"$0\" \"$@\"",
                    root};
  ASSERT_TRUE(daemon.start(stacks_config(499, "512K"), options));
  ASSERT_TRUE(burner.runs_for(500ms));  // about 250 samples
  const Json sidecar = daemon.snapshot();
  EXPECT_THAT(sidecar["messages"].dump(), testing::Not(HasSubstr("\"severity\":\"error\"")));
  std::uint64_t samples = 0;
  for (const Json& row : sidecar["top"])
    if (row["comm"] == "burner") samples += row["samples"].get<std::uint64_t>();
  EXPECT_GT(samples, 100U) << sidecar["top"];
  burner.kill();  // perf needs a CPU
  for (const Outcome& script : perf_of_all(folder, {"script", "-i", sidecar["path"], "-G", "-F", "pid,comm"})) {
    SCOPED_TRACE(script.command);
    EXPECT_TRUE(prints_all(script, sidecar));
  }
  EXPECT_TRUE(daemon.stop());
}

// Since Linux 6.14 a PID namespace has a pid_max of its own; before, it was the whole machine's.
bool has_pid_max_of_its_own() {
  utsname kernel{};
  int major = 0, minor = 0;
  return ::uname(&kernel) == 0 && std::sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 14));
}

// There are a hundred numbers, from 300 on, so that each is used again several times a second.
class FewNumbersLong : public Container {
 protected:
  void SetUp() override {
    if (!has_pid_max_of_its_own()) GTEST_SKIP() << "needs Linux 6.14: a pid_max for each PID namespace";
    start(stacks_config(1999, "2M"), {"sh", "-c", "echo 400 >/proc/sys/kernel/pid_max && exec \"$@\"", "sh"});
  }
  void TearDown() override {
    if (has_pid_max_of_its_own()) Container::TearDown();
  }
  // In the container, with `count` children.
  [[nodiscard]] Child start_forker(const std::string& count) const {
    const std::string first = read_text(fmt::format("/proc/{0}/task/{0}/children", flightd_->pid()));
    return start_load({"nsenter", "--target", std::to_string(std::atoi(first.c_str())), "--pid", "--mount",
                       folder_.load("forker"), std::to_string(load_cpu()), count, "2"},
                      kBusy);
  }
  void expect_own_names(const Child& forker, const std::string& file) const {
    SCOPED_TRACE(file);
    std::map<int, std::set<std::string>> holders;
    for (const std::string& line : lines_of(forker.out()))
      if (line.starts_with("tiny-")) holders[std::stoi(line.substr(10))].insert(line.substr(0, 9));
    ASSERT_GT(holders.size(), 10U);
    EXPECT_GT(holders.rbegin()->second.size(), 5U) << "numbers were used again";
    std::vector<NamedSample> samples = named_samples(folder_, file);
    std::stable_sort(samples.begin(), samples.end(),
                     [](const NamedSample& a, const NamedSample& b) { return a.time_ns < b.time_ns; });
    std::size_t tiny = 0;
    std::string newest;
    for (const NamedSample& sample : samples) {
      if (sample.symbol == "hot_in_tiny") {
        EXPECT_TRUE(sample.comm.starts_with("tiny-")) << sample.line;
      }
      if (!sample.comm.starts_with("tiny-")) continue;
      ++tiny;
      EXPECT_TRUE(holders[sample.pid].contains(sample.comm)) << sample.line;
      EXPECT_GE(sample.comm, newest) << sample.line;
      newest = sample.comm;
    }
    EXPECT_GT(tiny, 1000U);
  }
};

// The forker's children run one after the other, so the numbers in their names never decrease in time.
TEST_F(FewNumbersLong, EveryHolderHasItsOwnName) {
  Child forker = start_forker("1500");
  ASSERT_EQ(forker.wait(60s), 0) << forker.err();
  const Outcome taken = ctl({"snapshot"});
  ASSERT_EQ(taken.exit_status, 0) << taken.text();
  expect_own_names(forker, Json::parse(ctl({"info", "latest"}).out)["path"]);
}

// Of those that are forked in the pause there is no record, and they have the numbers of earlier ones.
TEST_F(FewNumbersLong, EveryHolderHasItsOwnNameInARecordingOverAPause) {
  Child forker = start_forker("3000");
  ASSERT_TRUE(forker.wait_for_line("started")) << forker.err();
  Child recorder = Child::start({required_env("FLIGHTCTL"), "--json", "--socket", folder_ / "run/io.flightd.Recorder",
                                 "record", "--past", "1s", "--for", "4s"});
  ASSERT_TRUE(wait_until([&] { return ctl({"status"}).out.find(" in 1 part;") != std::string::npos; }, 30s));
  EXPECT_EQ(ctl({"pause"}).exit_status, 0);
  usleep(500'000);  // a fixed time: some 200 children
  EXPECT_EQ(ctl({"resume"}).exit_status, 0);
  const Outcome recorded = recorder.finish(60s);
  ASSERT_EQ(recorded.exit_status, 0) << recorded.text();
  const Outcome taken = ctl({"snapshot"});
  ASSERT_EQ(taken.exit_status, 0) << taken.text();
  ASSERT_EQ(forker.wait(60s), 0) << forker.err();
  const Json result = Json::parse(recorded.out);
  ASSERT_EQ(result["paths"].size(), 1U) << result;
  expect_own_names(forker, result["paths"][0]);
  expect_own_names(forker, Json::parse(ctl({"info", "latest"}).out)["path"]);
}

}  // namespace
}  // namespace flight
