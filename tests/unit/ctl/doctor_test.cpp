// SPDX-License-Identifier: Apache-2.0
// The findings of `flightctl doctor` from given facts, so that the test can simulate every kernel.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/capability.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ctl/doctor/assess.hpp"
#include "ctl/doctor/page.hpp"
#include "libcore/base/columns.hpp"

namespace flight::ctl {
namespace {

using testing::HasSubstr;

// Debian 12 on real hardware, with the package installed and running, seen by root.
Facts healthy() {
  Facts facts;
  KernelFacts& kernel = facts.kernel;
  kernel.release = "6.1.0-28-amd64";
  kernel.machine = "x86_64";
  kernel.privileged = true;
  kernel.probe = {.opens = true, .perfmon_suffices = true, .kernel_addresses = true};
  kernel.probe.features = {.sample_cgroup = true, .format_lost = true, .hardware_pmu = true};
  kernel.paranoid = 2;
  kernel.kptr_restrict = 1;
  kernel.mlock_kb = 516;
  kernel.max_sample_rate = 100'000;
  kernel.max_stack = 127;
  kernel.unprivileged_bpf = 2;
  kernel.clocksource = "tsc";
  kernel.lockdown = "[none] integrity confidentiality";
  kernel.cpu_pmu = kernel.tracefs = kernel.psi = true;
  kernel.cgroups = CgroupMounts::v2;
  kernel.own_pid_namespace = false;
  InstallFacts& install = facts.install;
  install.root = install.user_flightd = install.user_broker = install.systemd = install.journald = true;
  install.group = install.trigger_group = {.there = true};
  install.flightd = {"/usr/lib/systemd/system/flightd.service", "enabled", "active"};
  install.broker = {"/usr/lib/systemd/system/flightd-broker.service", "static", "active"};
  install.config = {.command = "/usr/sbin/flightd --check-config --for-service", .good = true};
  install.perf_version = "perf version 6.1.187";
  DaemonFacts& daemon = facts.daemon;
  daemon.socket = "/run/flightd/io.flightd.Recorder";
  daemon.flightd = ProcessFacts{.pid = 10,
                                .uid = 990,
                                .user = "flightd",
                                .locked_kb = 9000,
                                .limit_memlock = kUnlimited,
                                .limit_rtprio = 1,
                                .limit_nice = 30,
                                .limit_nofile = 65536,
                                .nice = -10,
                                .freeze_is_realtime = true};
  daemon.broker = ProcessFacts{.pid = 11, .uid = 989, .user = "flightd-broker", .limit_nofile = 65536};
  for (const unsigned capability :
       {CAP_PERFMON, CAP_IPC_LOCK, CAP_SYSLOG, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHOWN, CAP_CHECKPOINT_RESTORE})
    daemon.broker->effective |= std::uint64_t{1} << capability;
  daemon.broker->permitted = daemon.broker->effective;
  daemon.status = Status{.version = "0.1.0", .cpus = 4, .recording = RecordingState::on};
  facts.store = {"/var/lib/flightd/snapshots", 50ULL << 30U, 100ULL << 30U, 1U << 30U, 10ULL << 30U, 15ULL << 30U};
  return facts;
}

Finding of(const Facts& facts, const std::string& check) {
  const Findings all = assess(facts);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Finding& f) { return f.check == check; });
  EXPECT_NE(found, all.end()) << check;
  return found == all.end() ? Finding{} : *found;
}
FindingState state_of(const Facts& facts, const std::string& check) { return of(facts, check).state; }

TEST(Doctor, TheConfigurationIsCheckedAsTheServiceReadsIt) {
  Facts facts = healthy();
  facts.install.config.good = false;
  facts.install.config.error = error_in(
      "2026-11-25T23:25:16.464 flightd warning: no cycles\n"
      "2026-11-25T23:25:16.469 flightd error: the user flightd cannot read it: /etc/flightd/flightd.json\n");
  const Finding finding = of(facts, "configuration");
  EXPECT_EQ(finding.state, FindingState::fail);
  EXPECT_EQ(finding.found, "the user flightd cannot read it: /etc/flightd/flightd.json");
  EXPECT_EQ(error_in("flightd: --for-service is unknown\n"), "flightd: --for-service is unknown");
  EXPECT_THAT(finding.advice, HasSubstr("flightd --check-config --for-service"));
  facts.install.config = {};  // another user than root, or no unit
  const Findings all = assess(facts);
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const Finding& f) { return f.check == "configuration"; }));

  const auto shown = [](const std::string& argv) {
    return check_command("{ path=/usr/sbin/flightd ; argv[]=" + argv + " ; ignore_errors=no ; start_time=[n/a] }");
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(shown("/usr/sbin/flightd --broker /run/flightd-broker/socket"),
            (Words{"/usr/sbin/flightd", "--check-config", "--for-service"}));
  EXPECT_EQ(
      shown("/opt/flightd --config=/etc/my.json --broker /run/b --state-dir /srv/f"),
      (Words{"/opt/flightd", "--check-config", "--for-service", "--config=/etc/my.json", "--state-dir", "/srv/f"}));
  EXPECT_EQ(shown("/usr/sbin/flightd --runtime-dir /run/other"),
            (Words{"/usr/sbin/flightd", "--check-config", "--for-service", "--runtime-dir", "/run/other"}));
  EXPECT_EQ(shown("/usr/bin/env flightd --config x"), Words{});
  EXPECT_EQ(check_command(""), Words{});
}

TEST(Doctor, AHealthyMachineIsAllOk) {
  for (const Finding& finding : assess(healthy())) {
    EXPECT_EQ(finding.state, FindingState::ok) << finding.check << ": " << finding.found << ": " << finding.advice;
    EXPECT_NE(finding.found, "") << finding.check;
    EXPECT_NE(finding.why, "") << finding.check;
    EXPECT_EQ(finding.advice, "") << finding.check;
    for (const char c : finding.found + finding.why) EXPECT_TRUE(c >= ' ' && c < 0x7f) << finding.check << ": ASCII";
  }
}

// Each row changes one fact: one finding reports it and says what to do.
TEST(Doctor, EachFaultHasAFindingWithAdvice) {
  struct Row {
    const char* check;
    FindingState state;
    const char* advice;
    void (*change)(Facts&);
  };
  using enum FindingState;
  const std::vector<Row> rows{
      {"kernel", fail, "newer kernel", [](Facts& f) { f.kernel.release = "5.4.0"; }},
      {"kernel", fail, "newer kernel", [](Facts& f) { f.kernel.release = "4.19.0-26"; }},
      {"kernel", note, "try it", [](Facts& f) { f.kernel.machine = "riscv64"; }},
      {"perf-events", fail, "seccomp",
       [](Facts& f) { f.kernel.probe.opens = false, f.kernel.probe.error = "Operation not permitted"; }},
      {"perf-events", fail, "CONFIG_PERF_EVENTS",
       [](Facts& f) { f.kernel.probe.opens = false, f.kernel.paranoid = std::nullopt; }},
      {"perf-events", note, "sudo", [](Facts& f) { f.kernel.probe.opens = f.kernel.privileged = false; }},
      {"lockdown", fail, "integrity", [](Facts& f) { f.kernel.lockdown = "none integrity [confidentiality]"; }},
      {"perf-event-paranoid", note, "paranoid=2", [](Facts& f) { f.kernel.paranoid = -1; }},
      {"perf-event-paranoid", note, "cap-sys-admin", [](Facts& f) { f.kernel.paranoid = 3; }},
      {"event-features", note, "newer", [](Facts& f) { f.kernel.probe.features.format_lost = false; }},
      {"pmu", note, "virtual machine", [](Facts& f) { f.kernel.probe.features.hardware_pmu = false; }},
      {"nohz-full", note, "period",
       [](Facts& f) {
         f.kernel.nohz_full = {2, 3, 5};
       }},
      {"kernel-symbols", warn, "kptr_restrict=1", [](Facts& f) { f.kernel.kptr_restrict = 2; }},
      {"kernel-symbols", warn, "CAP_SYSLOG", [](Facts& f) { f.kernel.probe.kernel_addresses = false; }},
      {"pid-namespace", warn, "hostPID", [](Facts& f) { f.kernel.own_pid_namespace = true; }},
      {"perf-event-mlock-kb", note, "516", [](Facts& f) { f.kernel.mlock_kb = 64; }},
      {"perf-max-sample-rate", warn, "max_sample_rate", [](Facts& f) { f.kernel.max_sample_rate = 50; }},
      {"perf-event-max-stack", note, "max_stack", [](Facts& f) { f.kernel.max_stack = 16; }},
      {"perf-event-max-contexts", warn, "max_contexts_per_stack=8", [](Facts& f) { f.kernel.max_contexts = 0; }},
      {"tracefs", warn, "mount", [](Facts& f) { f.kernel.tracefs = false; }},
      {"psi", warn, "psi=1", [](Facts& f) { f.kernel.psi = false; }},
      {"oom-killer", note, "signal:signal_generate", [](Facts& f) { f.kernel.oom_killers = {"earlyoom"}; }},
      {"cgroup", note, "unified", [](Facts& f) { f.kernel.cgroups = CgroupMounts::v1; }},
      {"cgroup", note, "unified", [](Facts& f) { f.kernel.cgroups = CgroupMounts::hybrid; }},
      {"cgroup", warn, "umount", [](Facts& f) { f.kernel.cgroups_unread = "/sys/fs/cgroup is on fuse.lxcfs"; }},
      {"clocksource", warn, "tsc", [](Facts& f) { f.kernel.clocksource = "hpet"; }},
      {"unprivileged-bpf", note, "bpf_disabled=1", [](Facts& f) { f.kernel.unprivileged_bpf = 0; }},
      {"users", fail, "sysusers", [](Facts& f) { f.install.user_broker = false; }},
      {"users", warn, "getent", [](Facts& f) { f.install.no_accounts = "look up the user flightd: no answer"; }},
      {"group-flightd", note, "groupadd", [](Facts& f) { f.install.group.there = false; }},
      {"group-flightd", note, "log in again", [](Facts& f) { f.install.root = false, f.install.group.listed = true; }},
      {"group-flightd-trigger", note, "usermod", [](Facts& f) { f.install.root = false; }},
      {"unit-flightd", note, "package", [](Facts& f) { f.install.flightd = {}; }},
      {"unit-flightd", note, "enable", [](Facts& f) { f.install.flightd.enabled = "disabled"; }},
      {"unit-flightd", fail, "journalctl", [](Facts& f) { f.install.flightd.active = "failed"; }},
      {"journal", note, "stderr", [](Facts& f) { f.install.journald = false; }},
      {"perf", note, "linux-perf", [](Facts& f) { f.install.perf_version = std::nullopt; }},
      {"perf", warn, "newer", [](Facts& f) { f.install.perf_version = "perf version 5.10.218"; }},
      {"socket", fail, "journalctl", [](Facts& f) { f.daemon.socket_error = "Connection refused"; }},
      {"socket", fail, "systemctl enable",
       [](Facts& f) { f.daemon.socket_error = "No such file", f.daemon.no_socket = true; }},
      {"socket", warn, "--socket",
       [](Facts& f) { f.daemon.socket_error = "No such file", f.daemon.no_socket = true, f.install.flightd = {}; }},
      {"flightd-user", note, "\"user\"", [](Facts& f) { f.daemon.flightd->uid = 0; }},
      {"flightd-user", note, "useradd", [](Facts& f) { f.daemon.flightd->user = "nobody"; }},
      {"flightd-capabilities", warn, "CapabilityBoundingSet", [](Facts& f) { f.daemon.flightd->permitted = 1; }},
      {"flightd-realtime", warn, "LimitRTPRIO", [](Facts& f) { f.daemon.flightd->freeze_is_realtime = false; }},
      {"flightd-memory-lock", warn, "LimitMEMLOCK", [](Facts& f) { f.daemon.flightd->locked_kb = 0; }},
      {"flightd-memory-lock", note, "LimitMEMLOCK", [](Facts& f) { f.daemon.flightd->limit_memlock = 8U << 20U; }},
      {"flightd-nice", note, "LimitNICE", [](Facts& f) { f.daemon.flightd->nice = 0; }},
      {"flightd-descriptors", warn, "LimitNOFILE", [](Facts& f) { f.daemon.flightd->limit_nofile = 256; }},
      {"broker-descriptors", warn, "LimitNOFILE", [](Facts& f) { f.daemon.broker->limit_nofile = 256; }},
      {"broker-capabilities", warn, "AmbientCapabilities",
       [](Facts& f) { f.daemon.broker->effective &= ~(std::uint64_t{1} << CAP_SYSLOG); }},
      {"broker-capabilities", fail, "AmbientCapabilities", [](Facts& f) { f.daemon.broker->effective = 0; }},
      {"broker-capabilities", note, "sudo", [](Facts& f) { f.daemon.broker.reset(); }},
      {"recording", warn, "resume",
       [](Facts& f) { f.daemon.status->recording = RecordingState::paused, f.daemon.status->paused = true; }},
      {"recording", fail, "remove the cause", [](Facts& f) { f.daemon.status->recording = RecordingState::off; }},
      {"recording", fail, "cpu-clock", [](Facts& f) { f.daemon.status->recording = RecordingState::silent; }},
      {"recording", note, "sudo",
       [](Facts& f) { f.daemon.status.reset(), f.daemon.status_refused = "uid 1 may not call GetStatus"; }},
      {"recording", fail, "journalctl",
       [](Facts& f) { f.daemon.status.reset(), f.daemon.status_error = "flightd did not answer within 10 s"; }},
      {"status", warn, "troubleshooting", [](Facts& f) { f.daemon.status->warnings = {"rings were halved"}; }},
      {"status", fail, "troubleshooting", [](Facts& f) { f.daemon.status->errors = {"the disk is full"}; }},
      {"status", note, "", [](Facts& f) { f.daemon.status->notes = {"no PMU here"}; }},
      {"disk", warn, "keep_free", [](Facts& f) { f.store.free_bytes = 14ULL << 30U; }},
      {"disk", fail, "free some space", [](Facts& f) { f.store.free_bytes = 1U << 20U; }},
      {"disk", fail, "findmnt", [](Facts& f) { f.store.silent = true; }},
      {"disk", note, "in bytes", [](Facts& f) { f.store.total_bytes = f.store.free_bytes = 0; }},
      {"store", warn, "max_use", [](Facts& f) { f.store.used_bytes = 11ULL << 30U; }},
      {"store", note, "keep_free", [](Facts& f) { f.store.free_bytes = 8ULL << 30U, f.store.keep_free_bytes = 1; }},
  };
  for (const Row& row : rows) {
    Facts facts = healthy();
    row.change(facts);
    const Finding finding = of(facts, row.check);
    SCOPED_TRACE(fmt::format("{}: {}: {}: {}", row.check, finding.found, finding.why, finding.advice));
    EXPECT_EQ(to_string(finding.state), to_string(row.state));
    EXPECT_THAT(finding.advice, HasSubstr(row.advice));
    EXPECT_NE(finding.found, "");
    EXPECT_NE(finding.why, "");
  }
}

// The trigger of flightd.json(5) sees the kills of both.
TEST(Doctor, AnOomKillerThatATriggerWatchesIsNoFinding) {
  Facts facts = healthy();
  facts.kernel.oom_killers = {"earlyoom", "nohang"};
  const auto named = [&facts] {
    std::vector<std::string> out;
    for (const Finding& finding : assess(facts))
      if (finding.check == "oom-killer") out.push_back(finding.found);
    return out;
  };
  EXPECT_THAT(named(), testing::ElementsAre("earlyoom runs", "nohang runs"));
  facts.daemon.event_triggers = {
      "oom:mark_victim",
      R"(signal:signal_generate if (sig == 9 || sig == 15) && (COMM == "earlyoom" || COMM == "systemd-oomd"))"};
  EXPECT_THAT(named(), testing::ElementsAre("nohang runs"));
  facts.daemon.event_triggers = {"signal:signal_generate"};
  EXPECT_THAT(named(), testing::IsEmpty());
}

// Findings that are ok also name what flightd takes from other programs, and how to give it back.
TEST(Doctor, WhatFlightdHoldsIsNamed) {
  const Finding pmu = of(healthy(), "pmu");
  EXPECT_EQ(to_string(pmu.state), to_string(FindingState::ok));
  EXPECT_THAT(pmu.why, HasSubstr("takes one counter of each CPU from others: configure cpu-clock"));
  const Finding depth = of(healthy(), "perf-event-max-stack");
  EXPECT_EQ(to_string(depth.state), to_string(FindingState::ok));
  EXPECT_THAT(depth.why, HasSubstr("while flightd records: stop flightd to change it"));
}

// Kernels of Debian and Ubuntu, and other kernels.
TEST(Doctor, CapSysAdminIsWhereTheKernelAsksForIt) {
  using enum FindingState;
  constexpr std::uint64_t kSysAdmin = std::uint64_t{1} << CAP_SYS_ADMIN;
  Facts facts = healthy();
  facts.kernel.paranoid = 3;
  facts.kernel.probe.perfmon_suffices = false;
  Finding finding = of(facts, "cap-sys-admin");
  EXPECT_EQ(finding.state, fail) << "needed, and the broker has it not";
  EXPECT_THAT(finding.advice, HasSubstr("perf_event_paranoid=2"));
  facts.daemon.broker->permitted |= kSysAdmin;
  EXPECT_EQ(state_of(facts, "cap-sys-admin"), ok);
  // The result of an attempt decides: a kernel.org kernel at 3.
  facts.kernel.probe.perfmon_suffices = true;
  EXPECT_EQ(state_of(facts, "cap-sys-admin"), warn) << "it holds what it does not need";
  facts.daemon.broker->permitted &= ~kSysAdmin;
  EXPECT_EQ(state_of(facts, "cap-sys-admin"), ok);
  facts.install.sys_admin_drop_in = true;
  finding = of(facts, "cap-sys-admin");
  EXPECT_EQ(finding.state, note);
  EXPECT_THAT(finding.advice, testing::AllOf(HasSubstr("not needed"), HasSubstr("ln -s /dev/null")));
  // No attempt was possible and no flightd runs: the value of the sysctl decides.
  facts.daemon.broker.reset();
  facts.kernel.probe.perfmon_suffices.reset();
  EXPECT_EQ(state_of(facts, "cap-sys-admin"), ok) << "a drop-in at 3";
  facts.install.sys_admin_drop_in = false;
  EXPECT_EQ(state_of(facts, "cap-sys-admin"), fail);
  facts.kernel.paranoid = 2;
  EXPECT_EQ(state_of(facts, "cap-sys-admin"), ok);
}

TEST(Doctor, ReadsProcAsItIs) {
  const std::string limits =
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max locked memory         8388608              8388608              bytes     \n"
      "Max nice priority         30                   30                   \n"
      "Max realtime priority     unlimited            unlimited            \n";
  EXPECT_EQ(soft_limit(limits, "Max locked memory"), 8388608U);
  EXPECT_EQ(soft_limit(limits, "Max nice priority"), 30U);
  EXPECT_EQ(soft_limit(limits, "Max realtime priority"), kUnlimited);
  EXPECT_EQ(soft_limit(limits, "Max open files"), std::nullopt);
  EXPECT_EQ(soft_limit("", "Max open files"), std::nullopt);
  EXPECT_EQ(soft_limit("Max open files", "Max open files"), std::nullopt);
  const std::string status =
      "Name:\tflightd\nUid:\t990\t990\t990\t990\nVmLck:\t    9000 kB\nCapEff:\t0000004002180000\nX:\t\n";
  EXPECT_EQ(status_value(status, "VmLck"), "9000 kB");
  EXPECT_EQ(status_value(status, "CapEff"), "0000004002180000");
  EXPECT_EQ(status_value(status, "Uid"), "990\t990\t990\t990");
  for (const char* key : {"Cap", "X", "ame", "flightd"}) EXPECT_EQ(status_value(status, key), "") << key;
}

TEST(Doctor, ReadsACommandLine) {
  using namespace std::string_literals;
  const std::string line = "/usr/sbin/flightd\0--broker\0/run/wall\0--state-dir\0/srv/a b\0"s;
  EXPECT_EQ(option_value(line, "--state-dir"), "/srv/a b");
  EXPECT_EQ(option_value("flightd\0--state-dir=/x\0"s, "--state-dir"), "/x");
  for (const std::string& none : {""s, "flightd\0"s, "flightd\0--state-dir\0"s, "flightd\0--state-dirs\0/x\0"s})
    EXPECT_EQ(option_value(none, "--state-dir"), "");
}

TEST(Doctor, JsonHasItsKeys) {
  const auto json = nlohmann::json::parse(to_json(Findings{{"psi", FindingState::warn, "no\xff", "why", "boot"}}));
  EXPECT_EQ(json,
            nlohmann::json::parse(R"([{"check":"psi","state":"warn","found":"no\ufffd","why":"why","do":"boot"}])"));
}

Finding finding_of(FindingState state, const std::string& check) {
  return {.check = check,
          .state = state,
          .found = "what was found",
          .why = "this is what it means for flightd, for its snapshots, and for whoever reads them some day",
          .advice = "do something"};
}

TEST(DoctorPage, HasTheWorstFirstWhereThereIsLittleRoom) {
  Findings findings;
  for (int i = 0; i < 30; ++i) findings.push_back(finding_of(FindingState::ok, fmt::format("good{}", i)));
  for (int i = 0; i < 20; ++i) findings.push_back(finding_of(FindingState::note, fmt::format("note{}", i)));
  findings.push_back(finding_of(FindingState::warn, "late"));
  findings.push_back(finding_of(FindingState::fail, "broken"));
  const Screen screen(true, 80);
  const std::string brief = doctor_brief(findings, screen, 23);
  EXPECT_LE(count_lines(brief), 23U) << brief;
  EXPECT_THAT(brief, testing::StartsWith("fail  broken: what was found (this is what it means"));
  EXPECT_THAT(brief, testing::ContainsRegex("\nwarn  late: what was found \\(this is"));
  EXPECT_THAT(brief, HasSubstr("\nnote  note0: what was found. To do: do something\nnote  note1: "));
  EXPECT_THAT(brief, HasSubstr("\nnote  also: note"));
  EXPECT_THAT(brief, HasSubstr("note19\n"));
  EXPECT_EQ(brief.find("good"), std::string::npos);
  EXPECT_THAT(brief, testing::EndsWith("\n30 ok, 20 note, 1 warn, 1 fail\n"
                                       "Each of them, with its reason: `flightctl doctor --all`.\n"));
  // As many as there are, if there is room for them.
  EXPECT_EQ(doctor_brief(findings, screen, 200).find("also:"), std::string::npos);
  findings.assign(25, finding_of(FindingState::ok, "good"));
  EXPECT_EQ(doctor_brief(findings, screen, 23),
            "25 ok, 0 note, 0 warn, 0 fail\n"
            "Each of them, with its reason: `flightctl doctor --all`.\n");
}

TEST(DoctorPage, FitsOnANarrowTerminal) {
  const Findings findings(20, finding_of(FindingState::warn, "late"));
  std::istringstream page(doctor_page(findings, Screen(true, 20), true));
  for (std::string line; std::getline(page, line);) EXPECT_LE(line.size(), 20U) << line;
}

TEST(DoctorPage, IsALineForEachInAPipe) {
  const Findings findings{finding_of(FindingState::ok, "good"), finding_of(FindingState::warn, "late\nline")};
  const Screen screen(true, 80);
  const std::string lines = doctor_page(findings, screen, false), page = doctor_page(findings, screen, true);
  EXPECT_EQ(count_lines(lines), 3U);
  EXPECT_THAT(lines, testing::StartsWith("ok    good: what was found (this is what"));
  EXPECT_THAT(lines, HasSubstr("some day). To do: do something\nwarn  late?line: "));
  EXPECT_GT(count_lines(page), 3U);
  for (std::size_t at = 0; at < page.size(); at = page.find('\n', at) + 1)
    EXPECT_LE(columns(page.substr(at, page.find('\n', at) - at)), 80U);
}

}  // namespace
}  // namespace flight::ctl
