// SPDX-License-Identifier: Apache-2.0
// flightd in a PID namespace of its own: a process outside has no pid there, so flightd must not give it a name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>

#include "libcore/sysinfo/pid_namespace.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const Arguments kContainer{"unshare", "--pid", "--fork", "--mount-proc"};

class Container : public testing::Test {
 protected:
  // TestDaemon is not usable here: it would take the pids in the status, which are the container's, for pids of this
  // machine.
  void SetUp() override {
    write_text(folder_ / "flightd.json", stacks_config(499, "512K").dump());
    Arguments command = kContainer;
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
  usleep(1'500'000);
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
  for (const Verifier& verifier : Verifier::all()) {
    SCOPED_TRACE(verifier.name());
    EXPECT_TRUE(counts_all(verifier, folder_, sidecar));
    const Outcome script = verifier.perf(folder_, {"script", "-i", sidecar["path"], "-G", "-F", "pid,comm"});
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

}  // namespace
}  // namespace flight
