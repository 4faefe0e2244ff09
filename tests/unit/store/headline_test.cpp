// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/headline.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A cpu-spike of 2.1 s: requested at 10.1 s and frozen at 11.1 s, because there is a `post` of a second.
Sidecar spike() {
  Sidecar s = sample_sidecar();
  s.trigger = "cpu-spike";
  s.fired = SidecarFired{"cpu.busy", 97.2, 90, 12.3, 8'000'000'000};
  s.window.end_ns = 11'100'000'000;
  s.timings_us.queued = 1'000'000;
  s.top = {{.comm = "cc1", .pid = 55, .samples = 90, .share = 0.5, .cpus_before = 0.4, .cpus_now = 0.02, .cpus = {0}},
           {.comm = "burn",
            .pid = 1234,
            .cgroup = "/system.slice/burn.service",
            .unit = "burn.service",
            .samples = 60,
            .share = 0.4,
            .share_before = 0,
            .share_now = 0.97,
            .cpus_before = 0,
            .cpus_now = 0.944,
            .cpus = {1}},
           {.comm = "kworker/0:1", .pid = 77, .samples = 3, .share = 0.1, .cpus_now = 0.032, .cpus = {0}},
           {.comm = "tiny", .pid = 78, .samples = 1, .share = 0.1, .cpus_now = 0.001}};
  return s;
}

TEST(Headline, HasReasonProcessAndBefore) {
  const std::string text = headline(spike());
  EXPECT_THAT(text, AllOf(StartsWith("cpu-spike: cpu.busy 97 % "), HasSubstr("above 90 % for 2.1 s"),
                          HasSubstr("before: 12 %")));
  EXPECT_THAT(text, AllOf(HasSubstr("burn[1234] in burn.service: 94 % of a CPU"), HasSubstr("on CPU 1 "),
                          HasSubstr("before: 0 %")));
  EXPECT_THAT(text, AllOf(HasSubstr("kworker/0:1[77]: 3.2 %"), HasSubstr("cc1[55]: 2.0 %"),
                          HasSubstr("less: cc1[55]: 40 % before"), EndsWith("now 2.0 %")));
  EXPECT_THAT(text, ContainsRegex("burn.*kworker.*cc1.*less")) << "the busiest first";
  EXPECT_THAT(text, Not(AnyOf(HasSubstr("tiny"), HasSubstr("stolen"))));
}

// What the other CPUs did is not known: they must not look idle.
TEST(Headline, SaysWhichCpusAreSampled) {
  Sidecar s = spike();
  EXPECT_EQ(sampled_cpus_text(s), "");
  s.top_cpus = "1";
  EXPECT_THAT(headline(s), AllOf(HasSubstr("burn[1234] in burn.service: 94 % of a CPU"),
                                 EndsWith("now 2.0 %; only CPU 1 is sampled")));
  s.top_cpus = "0-3,8";
  EXPECT_THAT(who_text(s), EndsWith("; only CPUs 0-3,8 are sampled"));
  s.top.clear();
  EXPECT_EQ(who_text(s), "");
  EXPECT_THAT(headline(s), EndsWith("; no process was sampled; only CPUs 0-3,8 are sampled"));
}

TEST(Headline, WithoutCpusItIsOfTheSamples) {
  Sidecar s = spike();
  for (SidecarTop& row : s.top) row.cpus_before = row.cpus_now = std::nullopt;
  EXPECT_THAT(headline(s), HasSubstr("burn[1234] in burn.service: 97 % of the samples, on CPU 1 (before: 0 %)"));
}

TEST(Headline, OfAnOldSidecarIsOfTheWholeWindow) {
  const std::string text = headline(sample_sidecar());
  EXPECT_THAT(text, AllOf(StartsWith("lopsided: cpu.lopsided 94 %"), HasSubstr("2.5 % stolen"),
                          HasSubstr("above 80 % for 3.5 s"), HasSubstr("before: 12 %")));
  EXPECT_THAT(text, AllOf(HasSubstr("hog[99] in /user.slice: 86 % of the samples"), EndsWith("on CPUs 0,1")));
}

TEST(Headline, AFallBelowAndAnUnknownBaseline) {
  Sidecar s = spike();
  s.fired = SidecarFired{"tasks.running", 3, 5, std::nan(""), 0};
  EXPECT_THAT(why_text(s), AllOf(StartsWith("tasks.running 3 "), HasSubstr("below 5)"),
                                 Not(AnyOf(HasSubstr("before"), HasSubstr(" for ")))));
}

TEST(Headline, ATracepointHasNoThreshold) {
  Sidecar s = spike();
  s.fired = SidecarFired{"oom:mark_victim", 0, 0, 0, 0};
  EXPECT_THAT(headline(s), StartsWith("cpu-spike: oom:mark_victim; burn[1234]"));
}

TEST(Headline, OfAPersonsSnapshot) {
  Sidecar s = spike();
  s.trigger = "manual";
  s.fired.reset();
  EXPECT_THAT(headline(s), StartsWith("manual: why; burn[1234]"));
  s.reason = "";
  EXPECT_THAT(headline(s), StartsWith("manual: requested by flightctl[12], uid 1000; burn[1234]"));
  s.requests.push_back(s.requests[0]);
  EXPECT_THAT(headline(s), HasSubstr("uid 1000, and 1 more; "));
  s.requests.clear();
  EXPECT_THAT(headline(s), StartsWith("manual; burn[1234]"));
  s.top.clear();
  EXPECT_THAT(headline(s), AllOf(StartsWith("manual; "), HasSubstr("no process"),
                                 Not(AnyOf(HasSubstr("burn"), HasSubstr("requested")))));
}

TEST(Headline, TheCgroupStandsWhereThereIsNoUnit) {
  Sidecar s = spike();
  s.top[1].unit = "";
  s.top[1].cgroup = "/docker/" + std::string(64, 'a');
  EXPECT_THAT(headline(s), HasSubstr("burn[1234] in /docker/aaaaaaaaaaaa…aaa"));
  s.top[1].cgroup = "/";
  EXPECT_THAT(headline(s), HasSubstr("burn[1234]: 94 %"));
  s.top[1].cpus = {0, 1, 2, 3, 4};
  EXPECT_THAT(headline(s), HasSubstr("on 5 CPUs"));
}

// As flightd 0.2 writes it: the 24 workers of gunicorn beside one busy process of payroll, a stray process and kernel
// threads.
Sidecar ranked() {
  Sidecar s = spike();
  s.top_units = {
      {.name = "gunicorn.service",
       .unit = "gunicorn.service",
       .program = "gunicorn",
       .processes = 24,
       .pid = 55,
       .pid_share = 0.05,
       .samples = 100,
       .share = 0.3,
       .cpus_before = 0.02,
       .cpus_now = 1.2,
       .cpus = {0, 1}},
      {.name = "burn.service",
       .unit = "burn.service",
       .program = "burn",
       .processes = 1,
       .pid = 1234,
       .pid_share = 1,
       .samples = 60,
       .share = 0.2,
       .cpus_before = 0,
       .cpus_now = 0.94,
       .cpus = {1}},
      {.name = "", .program = "kworker", .processes = 3, .pid = 77, .samples = 10, .share = 0.1, .cpus_now = 0.5}};
  s.top_programs = {
      {.name = "gunicorn",
       .unit = "gunicorn.service",
       .program = "gunicorn",
       .units = 1,
       .processes = 24,
       .pid = 55,
       .cpus_now = 1.2},
      {.name = "kworker",
       .program = "kworker",
       .units = 1,
       .processes = 3,
       .pid = 77,
       .pid_share = 0.4,
       .cpus_now = 0.3},
      {.name = "stray", .program = "stray", .units = 0, .processes = 1, .pid = 9, .pid_share = 1, .cpus_now = 0.2}};
  return s;
}

TEST(Headline, AProcessThatCallsItselfOtherwiseIsNamedWithItsExecutable) {
  Sidecar s = ranked();
  s.top = {{.comm = "sshd", .pid = 1234}};
  s.top_units.erase(s.top_units.begin());
  s.top_units[0].path = "/usr/bin/burn";
  EXPECT_THAT(who_text(s), StartsWith("sshd (burn)[1234] in burn.service: 94 %"));
  s.top[0].comm = "burn";
  EXPECT_THAT(who_text(s), StartsWith("burn[1234] in burn.service: 94 %"));
  s.top[0].comm = "a-name-of-fifte";
  s.top_units[0].program = "a-name-of-fifteen";
  EXPECT_THAT(who_text(s), StartsWith("a-name-of-fifte[1234] in burn.service: 94 %")) << "truncated";
  s.top.push_back({.comm = "sshd", .pid = 1234});
  EXPECT_THAT(who_text(s), StartsWith("a-name-of-fifteen[1234]")) << "which of the two?";
}

TEST(Headline, OnlyAKernelThreadIsInBrackets) {
  Sidecar s = ranked();
  s.top_units.clear();
  s.top_programs = {{.name = "[unknown]",
                     .program = "[unknown]",
                     .processes = 1,
                     .pid = 9,
                     .comm = "[kworker/0:1]",
                     .cpus_now = 0.9}};
  SidecarGroup& row = s.top_programs[0];
  EXPECT_THAT(who_text(s), StartsWith("\"[kworker/0:1]\"[9]: 90 %"));
  row.path = "/home/eve/x", row.program = "x";
  EXPECT_THAT(who_text(s), StartsWith("\"[kworker/0:1]\" (x)[9]: 90 %"));
  row.path = "", row.program = "[unknown]", row.comm = "kworker/0:1";
  EXPECT_THAT(who_text(s), StartsWith("kworker/0:1[9]: 90 %"));
  row.named_by = NamedBy::kernel;
  EXPECT_THAT(who_text(s), StartsWith("[kworker/0:1][9]: 90 %"));
  row.comm = "[lost]", row.named_by = NamedBy::flightd;
  EXPECT_THAT(who_text(s), StartsWith("[lost][9]: 90 %"));
  row.named_by = NamedBy::process;
  EXPECT_THAT(who_text(s), StartsWith("\"[lost]\"[9]: 90 %"));
  s.forks = SidecarForks{.all = {.count = 900, .per_second = 500},
                         .by_pid = {{.name = "[kworker/0:1]", .pid = 9, .count = 900}}};
  EXPECT_THAT(forks_text(s), EndsWith(" by \"[kworker/0:1]\"[9]"));
  s.fired.reset();
  s.reason = "";
  s.requests = {{.uid = 1000, .pid = 9, .comm = "[kworker/0:1]"}};
  EXPECT_EQ(why_text(s), "requested by \"[kworker/0:1]\"[9], uid 1000");
}

// The pid of one that has ended is used again.
TEST(Headline, ARowOfAnotherProcessWithThePidDoesNotNameIt) {
  Sidecar s = ranked();
  s.top_units.erase(s.top_units.begin());
  s.top_units[0].path = "/usr/bin/burn";
  s.top_units[0].comm = "burner";
  s.top = {{.comm = "sshd", .pid = 1234}};
  EXPECT_THAT(who_text(s), StartsWith("burner (burn)[1234] in burn.service: 94 %"));
  s.top.push_back({.comm = "burner", .pid = 1234});
  EXPECT_THAT(who_text(s), StartsWith("burner (burn)[1234]")) << "it is known which of the two";
}

TEST(Headline, UnitsComeBeforeProcesses) {
  const std::string text = who_text(ranked());
  EXPECT_THAT(text, AllOf(StartsWith("gunicorn.service: 120 % of a CPU"), HasSubstr("on CPUs 0,1,"),
                          HasSubstr(" 24 processes"), HasSubstr(" gunicorn (before: 2.0 %)")));
  EXPECT_THAT(
      text, AllOf(HasSubstr(" burn[1234]: 94 %"), EndsWith(" kworker: 30 %"), ContainsRegex("before.*burn.*kworker")));
}

TEST(Headline, AProcessThatIsMostOfItsUnitIsNamed) {
  Sidecar s = ranked();
  s.top_units[0].pid = 56;
  s.top_units[0].pid_share = 0.9;
  EXPECT_THAT(who_text(s), StartsWith("gunicorn.service: 120 % of a CPU, on CPUs 0,1, mostly gunicorn[56] (before"));
  s.top_units.erase(s.top_units.begin());
  EXPECT_THAT(who_text(s), StartsWith("burn[1234] in burn.service: 94 % of a CPU, on CPU 1 (before: 0 %)"));
}

TEST(Headline, Pid0IsNotAProcess) {
  Sidecar s = ranked();
  s.top_units.clear();
  s.top_programs = {{.name = "outside this container", .processes = 2, .pid = 0, .pid_share = 0.97, .cpus_now = 1.07}};
  s.top[0] = {.comm = "outside this container", .pid = 0, .cpus_now = 1.06};
  const auto only = [](const std::string& name) {
    return AllOf(
        StartsWith(name + ": "), HasSubstr(": 107 %"), HasSubstr("of a CPU"),
        Not(AnyOf(HasSubstr("["), HasSubstr("process"), HasSubstr("mostly"), HasSubstr("before"), HasSubstr("then"))));
  };
  EXPECT_THAT(who_text(s), only("outside this container"));
  s.top_programs[0].pid_share = 0.3;
  EXPECT_THAT(who_text(s), only("outside this container"));
  s.top_programs[0].processes = 1;
  EXPECT_THAT(who_text(s), only("outside this container"));
  s.top_programs[0].name = s.top[0].comm = "outside this container, or idle";
  EXPECT_THAT(who_text(s), only("outside this container, or idle"));
}

TEST(Headline, ALongNameDoesNotHideWhoseUnitItIs) {
  Sidecar s = ranked();
  s.top_units[0].name = "user@1000/payroll" + std::string(80, '-') + ".service";
  EXPECT_THAT(who_text(s), testing::MatchesRegex("user@1000/payroll-+…-+.service: 120 %.*"));
  s.top_units[0].name = "docker-3f2a91c7d8e0/payroll" + std::string(80, '-') + ".service";
  EXPECT_THAT(who_text(s), testing::MatchesRegex("docker-3f2a91c7d8e0/.*….*ice: 120 %.*"));
}

TEST(Headline, AProgramInManyUnitsStandsWhereNoUnitShowsIt) {
  Sidecar s = ranked();
  s.top_programs[0].units = 24;
  s.top_programs[0].cpus_now = 1.9;
  EXPECT_THAT(who_text(s), StartsWith("gunicorn: 190 % of a CPU, 24 processes in 24 units, then gunicorn.service"));
}

// No row of units shows these programs: one is in the root cgroup, of the other it is not known.
TEST(Headline, WhatIsInNoUnitIsNamedByItsProgram) {
  Sidecar s = ranked();
  s.top_units = {{.name = std::string(kUnknownUnit), .program = "a", .processes = 2, .pid = 8, .cpus_now = 1.5},
                 {.name = "", .cgroup = "/", .program = "b", .processes = 2, .pid = 9, .cpus_now = 1.4}};
  for (SidecarGroup& row : s.top_units) row.unit = row.name;
  s.top_programs = {
      {.name = "a", .unit = std::string(kUnknownUnit), .program = "a", .processes = 2, .pid = 8, .cpus_now = 1.5},
      {.name = "b", .cgroup = "/", .program = "b", .processes = 2, .pid = 9, .cpus_now = 1.4}};
  EXPECT_THAT(who_text(s), AllOf(StartsWith("a: 150 % of a CPU, 2 processes"), HasSubstr("then b: 140 %")));
  EXPECT_THAT(who_text(s), Not(HasSubstr("unknown")));
}

TEST(Headline, AForkStormNamesTheForker) {
  Sidecar s = ranked();
  SidecarForks& forks = s.forks.emplace();
  forks.all = {.count = 60000, .per_second = 2000, .per_second_before = 2.04, .per_second_now = 2999.8};
  forks.by_unit = {{.name = "healthcheck.service", .count = 59000}};
  forks.by_program = {{.name = "sh", .unit = "healthcheck.service", .count = 59000}};
  forks.by_pid = {{.name = "healthcheck.sh", .pid = 312, .count = 58000}};
  const auto fast = AllOf(StartsWith("3,000 forks/s "), HasSubstr("before: 2.0)"));
  EXPECT_THAT(forks_text(s), AllOf(fast, HasSubstr(" healthcheck.service "), EndsWith("(healthcheck.sh[312])")));
  EXPECT_THAT(headline(s), EndsWith("; " + forks_text(s)));
  forks.by_pid[0].count = 20;  // each forks a few
  EXPECT_THAT(forks_text(s), AllOf(fast, HasSubstr(" healthcheck.service "), EndsWith("(sh)")));
  forks.by_unit[0].name = "";
  EXPECT_THAT(forks_text(s), AllOf(fast, EndsWith(" sh"), Not(HasSubstr("service"))));
  forks.by_unit[0].name = kUnknownForker;
  EXPECT_THAT(forks_text(s), AllOf(fast, EndsWith(" sh"), Not(HasSubstr("unknown"))));
  forks.all.per_second_now = 3;
  EXPECT_THAT(forks_text(s),
              AllOf(StartsWith("2,000 forks/s "), HasSubstr("now: 3.0)"), EndsWith(" sh"), Not(HasSubstr("before"))))
      << "in the window, and no longer";
  forks.all.per_second_now = 2999.8;
  forks.complete = false;
  EXPECT_THAT(forks_text(s), StartsWith("at least 3,000 forks/s"));
  forks.all.per_second_before = std::nullopt;
  EXPECT_THAT(forks_text(s), AllOf(HasSubstr("at least 3,000 forks/s"), EndsWith(" sh"),
                                   Not(AnyOf(HasSubstr("before"), HasSubstr("now")))))
      << "the time before is not wholly known";
  forks.all.per_second_now = forks.all.per_second = 99;
  EXPECT_EQ(forks_text(s), "");
}

TEST(Headline, AForkStormNamesTheUnitThatMadeMostOfTheKnownForks) {
  Sidecar s = ranked();
  SidecarForks& forks = s.forks.emplace();
  forks.all = {.count = 1222, .per_second = 305};
  forks.by_unit = {{.name = std::string(kUnknownForker), .count = 612}, {.name = "healthcheck.service", .count = 609}};
  forks.unit_unknown = 612;
  EXPECT_EQ(forks_text(s), "305 forks/s, at least 609 of 1,222 by healthcheck.service");
  forks.by_unit[0].count = forks.unit_unknown = 800;
  forks.by_unit[1].count = 421;
  EXPECT_EQ(forks_text(s), "305 forks/s, at least 421 of 1,222 by healthcheck.service");
  forks.by_unit[0].count = forks.unit_unknown = 1000;
  forks.by_unit[1].count = 221;
  EXPECT_EQ(forks_text(s), "305 forks/s") << "too few are known";
  forks.by_unit = {{.name = "a.service", .count = 400}, {.name = "b.service", .count = 390}};
  forks.unit_unknown = 432;
  EXPECT_EQ(forks_text(s), "305 forks/s");
}

TEST(Headline, LongNamesDoNotCutTheForks) {
  Sidecar s = ranked();
  s.reason = std::string(500, 'r');
  s.fired.reset();
  for (SidecarGroup& row : s.top_units) row.name = row.program = std::string(100, 'u');
  s.forks = SidecarForks{.all = {.count = 9, .per_second = 500, .per_second_now = 500}};
  s.trigger = std::string(100, 't');
  s.top_units[0].cpus_before = 0.5;
  EXPECT_THAT(headline(s), EndsWith("; 500 forks/s"));
  EXPECT_LE(columns(headline(s)), kMaxHeadlineColumns);
}

TEST(Headline, WithoutUnitsProgramsAreNamed) {
  Sidecar s = ranked();
  s.top_units.clear();
  for (SidecarGroup& row : s.top_programs) row.unit = row.cgroup = "", row.units = 0;
  EXPECT_THAT(who_text(s), StartsWith("gunicorn: 120 % of a CPU"));
}

TEST(Headline, IsBoundedAndLeavesNothingThatMisleads) {
  Sidecar s = spike();
  const std::string evil = "\x1b[2J\n\xe2\x80\xae" + std::string(5000, 'x') + "日本";
  s.trigger = s.reason = s.fired->metric = evil;
  for (SidecarTop& row : s.top) row.comm = row.unit = row.cgroup = evil;
  Sidecar units = ranked();
  for (auto* rows : {&units.top_units, &units.top_programs})
    for (SidecarGroup& row : *rows) row.name = row.unit = row.cgroup = row.program = evil;
  units.forks = SidecarForks{.all = {.count = 1, .per_second = 500}, .by_unit = {{.name = evil, .count = 1}}};
  EXPECT_TRUE(is_printable(headline(units))) << headline(units);
  EXPECT_LE(columns(headline(units)), kMaxHeadlineColumns);
  for (int fired = 0; fired < 2; ++fired) {
    const std::string text = headline(s);
    EXPECT_TRUE(is_printable(text)) << text;
    EXPECT_LE(columns(text), kMaxHeadlineColumns);
    EXPECT_THAT(text, HasSubstr("[1234]"));
    s.fired.reset();
  }
  for (const double odd : {std::nan(""), -1e308, 1e308, HUGE_VAL}) {
    Sidecar strange = spike();
    strange.fired = SidecarFired{"cpu.busy", odd, odd, odd, UINT64_MAX};
    strange.window.end_ns = UINT64_MAX;
    strange.timings_us.queued = UINT64_MAX;
    for (SidecarTop& row : strange.top) row.cpus_now = row.share = odd;
    EXPECT_LE(columns(headline(strange)), kMaxHeadlineColumns);
    strange.top_units = strange.top_programs = ranked().top_units;
    for (SidecarGroup& row : strange.top_units) row.cpus_now = row.share = row.pid_share = odd;
    strange.forks = SidecarForks{.all = {.per_second = odd, .per_second_before = odd, .per_second_now = odd}};
    EXPECT_LE(columns(headline(strange)), kMaxHeadlineColumns);
  }
}

}  // namespace
}  // namespace flight
