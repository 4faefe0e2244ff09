// SPDX-License-Identifier: Apache-2.0
// flightctl doctor on this machine: as root and as nobody, with a running flightd and without.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/doctor_findings.hpp"

namespace flight {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class Doctor : public DaemonTest {
 protected:
  Doctor() : DaemonTest(stacks_config(99, "256K")) {}
};

TEST_F(Doctor, ShowsTheLimitsOfTheRunningProcesses) {
  DoctorFindings found = doctor_findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_EQ(found["socket"]["state"], "ok");
  EXPECT_EQ(found["perf-events"]["state"], "ok") << "tried";
  EXPECT_EQ(found["recording"]["state"], "ok");
  EXPECT_THAT(found["flightd-user"]["found"], HasSubstr(fmt::format("pid {}, user nobody", daemon_.pid())));
  EXPECT_EQ(found["flightd-capabilities"]["found"], "none");
  EXPECT_THAT(found["broker-capabilities"]["found"], HasSubstr(fmt::format("pid {}", daemon_.broker_pid())));
  EXPECT_EQ(found["broker-capabilities"]["state"], "ok");
  EXPECT_THAT(found["cap-sys-admin"]["why"], HasSubstr("(tried)"));
  // The policy of the freeze thread by chrt(1).
  Outcome policy = run(
      {"bash", "-c",
       fmt::format("for t in /proc/{}/task/*; do grep -qx freeze $t/comm && chrt -p ${{t##*/}}; done", daemon_.pid())});
  EXPECT_EQ(found["flightd-realtime"]["state"], policy.out.find("SCHED_FIFO") != std::string::npos ? "ok" : "warn")
      << policy.text();
  const std::string locked = run({"grep", "VmLck", fmt::format("/proc/{}/status", daemon_.pid())}).out;
  EXPECT_EQ(found["flightd-memory-lock"]["found"].get<std::string>().starts_with("nothing"),
            locked.find("\t       0 kB") != std::string::npos)
      << locked;
  EXPECT_TRUE(found.contains("disk"));
  EXPECT_TRUE(found.contains("store"));
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  found = doctor_findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_EQ(found["recording"]["state"], "warn");
  // The broker has lost what it needs: this test lowers its limit of descriptors while it runs.
  ASSERT_EQ(run({"prlimit", "--pid", std::to_string(daemon_.broker_pid()), "--nofile=200:200"}).exit_status, 0);
  found = doctor_findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_EQ(found["broker-descriptors"]["state"], "warn");
  EXPECT_THAT(found["broker-descriptors"]["found"], HasSubstr("200"));
  EXPECT_TRUE(daemon_.stop());
}

// A user without access still gets the findings about the kernel.
TEST_F(Doctor, AnotherUserSeesThePublicFacts) {
  Arguments command = daemon_.ctl_command({"--json", "doctor"});
  command.insert(command.begin(), {"setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"});
  DoctorFindings found = doctor_findings(run(command));
  EXPECT_EQ(found["socket"]["state"], "ok");
  EXPECT_EQ(found["recording"]["state"], "note");
  EXPECT_THAT(found["recording"]["found"], HasSubstr("may not call"));
  EXPECT_THAT(found["flightd-user"]["found"], HasSubstr(fmt::format("pid {},", daemon_.pid())));
  EXPECT_EQ(found["flightd-capabilities"]["state"], "ok");
  EXPECT_EQ(found["broker-capabilities"]["state"], "ok");
  EXPECT_THAT(found["perf-events"]["state"], AnyOf("note", "ok"));  // "ok": with paranoid at 0 every user may record
  EXPECT_THAT(found["cap-sys-admin"]["why"], testing::Not(HasSubstr("tried")));
  EXPECT_TRUE(daemon_.stop());
}

using DoctorLong = Doctor;

// As where a directory server does not answer.
TEST_F(DoctorLong, AUserDatabaseThatHangsIsAFinding) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0644), 0);
  Arguments command{"unshare",
                    "--mount",
                    "--propagation",
                    "private",
                    "sh",
                    "-c",
                    "mount --bind \"$0\" /etc/group && mount --bind \"$0\" /etc/passwd && exec \"$@\"",
                    fifo};
  const Arguments doctor = daemon_.ctl_command({"--json", "doctor"});
  command.insert(command.end(), doctor.begin(), doctor.end());
  DoctorFindings found = doctor_findings(run(command, 60s));
  EXPECT_EQ(found["users"]["state"], "warn");
  EXPECT_THAT(found["users"]["found"], HasSubstr("in /etc/nsswitch.conf hangs"));
  EXPECT_FALSE(found.contains("group-flightd")) << "it is not known";
  EXPECT_THAT(found["flightd-user"]["found"], HasSubstr("user 65534"));
  EXPECT_EQ(found["recording"]["state"], "ok");
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Doctor, WithoutADaemon) {
  ASSERT_TRUE(daemon_.stop());
  DoctorFindings found = doctor_findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_THAT(found["socket"]["state"], AnyOf("warn", "fail"));  // "fail" if flightd is a service of this machine
  EXPECT_FALSE(found.contains("flightd-user"));
  EXPECT_EQ(found["perf-events"]["state"], "ok");
  const Outcome page = daemon_.ctl({"doctor"});
  EXPECT_EQ(count_lines(page.out), found.size() + 1) << page.out;
  for (const std::string& line : lines_of(page.out))
    EXPECT_THAT(line, testing::MatchesRegex("(ok|note|warn|fail) .*|[0-9]+ ok, [0-9]+ note, [0-9]+ warn, [0-9]+ fail"));
  EXPECT_THAT(page.out, HasSubstr("\nok    perf-event-mlock-kb: "));
}

}  // namespace
}  // namespace flight
