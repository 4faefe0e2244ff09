// SPDX-License-Identifier: Apache-2.0
// flightctl doctor on this machine: as root and as nobody, with a running flightd and without.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

using Findings = std::map<std::string, Json>;

// The findings by their check. If a check appears several times, the last one counts.
Findings findings(const Outcome& outcome) {
  const Json json = Json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(json.is_array()) << outcome.text();
  Findings found;
  bool fails = false;
  for (const Json& finding : json) {
    EXPECT_EQ(finding.size(), 5U) << finding;
    for (const char* key : {"check", "state", "found", "why"}) EXPECT_NE(finding.value(key, ""), "") << finding;
    const std::string state = finding.value("state", "");
    EXPECT_THAT(state, AnyOf("ok", "note", "warn", "fail"));
    // Facts of the machine that flightd reports need nothing to be done.
    const bool is_fact = state == "note" && finding.value("why", "") == "reported by flightd";
    EXPECT_TRUE(state == "ok" || is_fact || !finding.value("do", "").empty()) << finding;
    fails = fails || state == "fail";
    found[finding.value("check", "")] = finding;
  }
  EXPECT_EQ(outcome.exit_status, fails ? 1 : 0) << outcome.text();
  EXPECT_EQ(outcome.err, "");
  return found;
}

class Doctor : public DaemonTest {
 protected:
  Doctor() : DaemonTest(stacks_config(99, "256K")) {}
};

TEST_F(Doctor, ShowsTheLimitsOfTheRunningProcesses) {
  Findings found = findings(daemon_.ctl({"--json", "doctor"}));
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
  found = findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_EQ(found["recording"]["state"], "warn");
  // The broker has lost what it needs: this test lowers its limit of descriptors while it runs.
  ASSERT_EQ(run({"prlimit", "--pid", std::to_string(daemon_.broker_pid()), "--nofile=200:200"}).exit_status, 0);
  found = findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_EQ(found["broker-descriptors"]["state"], "warn");
  EXPECT_THAT(found["broker-descriptors"]["found"], HasSubstr("200"));
  EXPECT_TRUE(daemon_.stop());
}

// For a moment, the kernel allows fewer samples than flightd asks for, as it does itself on a machine that is too slow.
class LowerRate {
 public:
  LowerRate() : before_(read_text(kFile)), is_set_(set("50")) {}
  LowerRate(const LowerRate&) = delete;
  LowerRate& operator=(const LowerRate&) = delete;
  ~LowerRate() { set(before_); }
  [[nodiscard]] bool is_set() const { return is_set_; }

 private:
  static constexpr const char* kFile = "/proc/sys/kernel/perf_event_max_sample_rate";
  static bool set(const std::string& text) {
    std::ofstream file(kFile);
    file << text << std::flush;
    return file.good();
  }
  std::string before_;
  bool is_set_;
};

TEST_F(Doctor, ALowLimitOfSamplesIsNotTakenForAMissingRight) {
  const LowerRate lower;
  ASSERT_TRUE(lower.is_set());
  Findings found = findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_EQ(found["perf-events"]["state"], "ok") << found["perf-events"];
  EXPECT_EQ(found["perf-max-sample-rate"]["state"], "warn");
  EXPECT_THAT(found["cap-sys-admin"]["why"], HasSubstr("(tried)"));
}

// A user without access still gets the findings about the kernel.
TEST_F(Doctor, AnotherUserSeesThePublicFacts) {
  Arguments command = daemon_.ctl_command({"--json", "doctor"});
  command.insert(command.begin(), {"setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"});
  Findings found = findings(run(command));
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

TEST_F(Doctor, WithoutADaemon) {
  ASSERT_TRUE(daemon_.stop());
  Findings found = findings(daemon_.ctl({"--json", "doctor"}));
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
