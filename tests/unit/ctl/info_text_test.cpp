// SPDX-License-Identifier: Apache-2.0
// The text of `flightctl info` and `status`: its content, and its width, which no user's names can increase beyond a
// terminal's.
#include "ctl/info_text.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "ctl/sparkline.hpp"
#include "ctl/status_text.hpp"
#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const ctl::Screen kUtf8(true), kAscii(false);

// A "lopsided" that began 40 s into the last minute, was detected 3 s later and frozen at the end of the minute.
Sidecar lopsided() {
  Sidecar s = sample_sidecar();
  s.fired = SidecarFired{"cpu.lopsided", 93.5, 80, 1.25, 40'000'000'000};
  s.window = {20'000'000'000, 60'000'000'000, 40, "2026-11-20T03:11:24.000Z", "2026-11-20T03:12:04.000Z"};
  s.timings_us.queued = 17'000'000;
  s.compared = SidecarCompared{20'000'000'000, 40'000'000'000, 60'000'000'000};
  s.top = {{.comm = "cc1", .pid = 55, .samples = 900, .share = 0.5, .cpus_before = 0.4, .cpus_now = 0.02, .cpus = {0}},
           {.comm = "burn",
            .pid = 1234,
            .cgroup = "/system.slice/burn.service",
            .unit = "burn.service",
            .samples = 600,
            .share = 0.45,
            .cpus_before = 0.0,
            .cpus_now = 0.97,
            .cpus = {1}}};
  SidecarMetrics& metrics = s.metrics.emplace();
  metrics.recent = {.begin_ns = 0, .step_ns = 100'000'000, .values = {{"cpu.lopsided", {}}, {"cpu.busy", {}}}};
  for (int step = 0; step < 600; ++step) {
    metrics.recent.values[0].second.push_back(step < 400 ? 1.5 : 94);
    metrics.recent.values[1].second.push_back(50);
  }
  return s;
}

void expect_on_the_screen(const std::string& text, std::size_t width = 80) {
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text.back(), '\n');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const bool is_command = line.starts_with("  flightctl report ");  // to be copied as a whole
    EXPECT_LE(columns(line), is_command ? 80U : width) << line;
    EXPECT_TRUE(is_printable(line)) << line;
    at = end + 1;
  }
}

class InfoText : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(InfoText, ReadsLikeAReportWithTheAnswerFirst) {
  const std::string text = ctl::info_text(lopsided(), kUtf8);
  expect_on_the_screen(text);
  EXPECT_THAT(text,
              testing::StartsWith(R"(burn[1234] in burn.service: 97 % of a CPU, on CPU 1 (before: 0 %), then cc1[55]:
2.0 %; less: cc1[55]: 40 % before, now 2.0 %
snapshot 42: lopsided on web3, 2026-11-20 03:12:04
  cpu.lopsided 94 % (above 80 % for 3.0 s, before: 1.2 %)

cpu.lopsided, the last 60 s:
  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁████████████████████  1.5 % .. 94 %
                                           ^ fired 03:11:47

top processes:
  now: the 20 s since 03:11:44, when it began; before: the 20 s until then; in
  percent of one CPU; samples: in percent of the window's
  PROCESS   PID    NOW  BEFORE  SAMPLES  CPUS  UNIT OR CGROUP
  burn     1234   97 %     0 %     45 %  1     burn.service
  cc1        55  2.0 %    40 %     50 %  0

window:          2026-11-20 03:11:24 .. 2026-11-20 03:12:04 (40.0 s)
all rings cover: 2026-11-20 03:12:02 .. 2026-11-20 03:12:03 (1.5 s)
samples:         7
)"));
}

TEST_F(InfoText, UnitsAndProgramsStandAboveProcesses) {
  Sidecar s = lopsided();
  s.top_units = {{.name = "gunicorn.service",
                  .program = "gunicorn",
                  .processes = 24,
                  .share = 0.5,
                  .cpus_before = 0.1,
                  .cpus_now = 1.2,
                  .cpus = {0, 1}},
                 {.name = "", .program = "kworker", .processes = 3, .share = 0.1, .cpus_now = 0.02}};
  s.top_programs = {{.name = "gunicorn", .unit = "gunicorn.service", .units = 1, .processes = 24, .cpus_now = 1.2},
                    {.name = "python3",
                     .unit = "docker-" + std::string(64, 'a') + ".scope",
                     .container = std::string(64, 'a'),
                     .cgroup = "/system.slice/docker-" + std::string(64, 'a') + ".scope",
                     .units = 1,
                     .processes = 1},
                    {.name = "sh", .units = 3, .processes = 4, .cpus_now = 0.5}};
  SidecarForks& forks = s.forks.emplace();
  forks.all = {.count = 60000, .per_second = 1500, .per_second_before = 2, .per_second_now = 3000};
  forks.by_unit = {{.name = "", .count = 3}, {.name = "health.service", .count = 59997, .per_second_now = 2999}};
  forks.by_pid = {{.name = "sh", .pid = 312, .unit = "health.service", .count = 59997, .per_second_now = 2999}};
  const std::string text = ctl::info_text(s, kUtf8);
  expect_on_the_screen(text);
  EXPECT_THAT(text, HasSubstr(R"(
top units:
  now: the 20 s since 03:11:44, when it began; before: the 20 s until then; in
  percent of one CPU; samples: in percent of the window's
  UNIT              PROCESSES    NOW  BEFORE  SAMPLES  CPUS  MOSTLY
  gunicorn.service         24  120 %    10 %     50 %  0,1   gunicorn
  no unit                   3  2.0 %       -     10 %        kworker

top programs:
  PROGRAM   PROCESSES    NOW  BEFORE  SAMPLES  CPUS  UNIT
  gunicorn         24  120 %       -      0 %        gunicorn.service
  sh                4   50 %       -      0 %        3 units
  python3           1      -       -      0 %        docker-aaaaaaaaaaaa

top processes:
  PROCESS   PID    NOW  BEFORE  SAMPLES  CPUS  UNIT OR CGROUP
)"));
  EXPECT_THAT(text, HasSubstr(R"(
forks of processes per second, by unit, program and process; 60000 in the
window:
  WHO FORKS       PID    NOW  BEFORE  WINDOW  COUNT  UNIT
  no unit                  -       -     0.0      3
  health.service       2,999       -     0.0  59997
  sh              312  2,999       -     0.0  59997  health.service
)"));
}

// An earlier flightd wrote one row for both.
TEST_F(InfoText, AnUnknownUnitIsNotTheRootCgroup) {
  Sidecar s = lopsided();
  s.top_units = {{.name = "", .cgroup = "/", .program = "[kworker]", .processes = 3, .cpus_now = 0.5},
                 {.name = std::string(kUnknownUnit), .program = "gone", .processes = 2, .cpus_now = 0.4}};
  s.top_programs = {{.name = "[kworker]", .cgroup = "/", .processes = 3, .cpus_now = 0.5},
                    {.name = "gone", .unit = std::string(kUnknownUnit), .processes = 2, .cpus_now = 0.4}};
  s.top[0].unit = kUnknownUnit;
  SidecarForks& forks = s.forks.emplace();
  forks.all = {.count = 5, .per_second = 1};
  forks.by_unit = {{.name = "", .cgroup = "/", .count = 3}, {.name = std::string(kUnknownUnit), .count = 2}};
  const std::string text = ctl::info_text(s, kUtf8);
  expect_on_the_screen(text);
  for (const char* row :
       {"\n  root cgroup +3 +50 % .*  \\[kworker\\]\n", "\n  unit unknown +2 +40 % .*  gone\n",
        "\n  \\[kworker\\] +3 +50 % .*  /\n", "\n  gone +2 +40 % .*  \\[unknown\\]\n",
        "\n  cc1 +55 .*  \\[unknown\\]\n", "\n  root cgroup +- +- +0.0 +3\n", "\n  unit unknown +- +- +0.0 +2\n"})
    EXPECT_THAT(text, testing::ContainsRegex(row));
}

TEST_F(InfoText, WhatIsOutsideOfTheContainerFitsIntoTheTable) {
  Sidecar s = lopsided();
  s.top_units = {{.name = "", .program = "outside this container", .processes = 1, .cpus_now = 1.2},
                 {.name = "a-service-with-a-long-name.service", .program = "a", .processes = 1, .cpus_now = 1.2}};
  EXPECT_THAT(ctl::info_text(s, kUtf8), testing::ContainsRegex("  no unit  .*  outside\n"));
}

TEST_F(InfoText, OnlyAKernelThreadIsInBrackets) {
  Sidecar s = lopsided();
  s.top = {{.comm = "kworker/0:1", .pid = 11, .named_by = NamedBy::kernel, .share = 0.1},
           {.comm = "[kworker/0:1]", .pid = 12, .share = 0.1},
           {.comm = "kworker/0:1", .pid = 13, .share = 0.1},
           {.comm = "[exiting]", .pid = 0, .share = 0.1}};
  SidecarForks& forks = s.forks.emplace();
  forks.all = {.count = 2, .per_second = 1};
  forks.by_pid = {{.name = "kthreadd", .pid = 2, .named_by = NamedBy::kernel, .count = 1},
                  {.name = "[kthreadd]", .pid = 3, .count = 1}};
  s.requests = {{.uid = 1000, .pid = 9, .comm = "[kworker/0:2]"}};
  const std::string text = ctl::info_text(s, kUtf8);
  expect_on_the_screen(text);
  for (const char* row :
       {"\n  \\[kworker/0:1\\] +11 ", "\n  \"\\[kworker/0:1\\]\" +12 ", "\n  kworker/0:1 +13 ", "\n  \\[exiting\\] +-",
        "\n  \\[kthreadd\\] +2 ", "\n  \"\\[kthreadd\\]\" +3 ", "asked by: +\"\\[kworker/0:2\\]\" \\(pid 9"})
    EXPECT_THAT(text, testing::ContainsRegex(row));
}

TEST_F(InfoText, AUsersUnitIsNotShownAsTheSystems) {
  Sidecar s = lopsided();
  const std::string cgroup = "/user.slice/user-1000.slice/user@1000.service/app.slice/pay.service";
  s.top_programs = {{.name = "eve", .unit = "pay.service", .cgroup = cgroup, .units = 1, .processes = 2}};
  s.top[0].unit = "pay.service", s.top[0].cgroup = cgroup;
  const std::string text = ctl::info_text(s, kUtf8);
  EXPECT_THAT(text, testing::ContainsRegex("eve  .*  user@1000/pay.service\n"));
  EXPECT_THAT(text, testing::ContainsRegex(s.top[0].comm + "  .*  user@1000/pay.service\n"));
  s.top[0].units = 2;
  EXPECT_THAT(ctl::info_text(s, kUtf8), testing::HasSubstr("  user@1000/pay.service (2 units)\n"));
}

TEST_F(InfoText, LongUnitNamesStayDistinct) {
  Sidecar s = lopsided();
  for (const char* unit : {"flightd.service", "flightd-broker.service", "a-service-with-quite-a-long-name.service"})
    s.top_units.push_back(
        {.name = unit, .program = "a-program-of-it", .processes = 1, .cpus_now = 1, .cpus = {0, 1, 2, 3}});
  const std::string text = ctl::info_text(s, kUtf8);
  expect_on_the_screen(text);
  EXPECT_THAT(text, AllOf(HasSubstr("\n  flightd.service "), HasSubstr("\n  flightd-broker.service "),
                          HasSubstr("-a-long-name  "), Not(HasSubstr("long-name.service"))));
}

TEST_F(InfoText, TheRowWithoutANameIsAlwaysShown) {
  Sidecar s = lopsided();
  for (int i = 0; i < 12; ++i)
    s.top_programs.push_back({.name = fmt::format("busy{}", i), .processes = 1, .share = 0.01, .cpus_now = 0.5});
  s.top_programs.push_back({.name = "[unknown]", .processes = 8000, .share = 0.5, .cpus_now = 0.01});
  const std::string text = ctl::info_text(s, kUtf8);
  expect_on_the_screen(text);
  EXPECT_THAT(text, HasSubstr("  [unknown]       8000  1.0 %       -     50 %"));
  EXPECT_THAT(text, HasSubstr("busy6 "));
  EXPECT_THAT(text, testing::Not(HasSubstr("busy7 "))) << "as many rows as ever";
}

TEST_F(InfoText, ShowsLossesRequestersTimingsAndPath) {
  const std::string text = ctl::info_text(lopsided(), kAscii);
  expect_on_the_screen(text);
  EXPECT_THAT(text,
              AllOf(HasSubstr("at least 3 events in the longest blackout of 52.5 us; 40 bytes"), HasSubstr("1 hole"),
                    HasSubstr("asked by:        flightctl (pid 12, uid 1000) at 2026-11-20 03:12:04: slow\n"),
                    HasSubstr("took:"), HasSubstr("1 forgotten; stale"),
                    HasSubstr("file:            flight-web3-20261120T031204.123Z-manual-42.perf.data\n"),
                    HasSubstr("in:              /s\n"), HasSubstr("warnings:\n  one\n")));
  EXPECT_THAT(text, HasSubstr("to look into it:\n  flightctl report 42\n  perf report -i "));
  EXPECT_THAT(text, AllOf(HasSubstr("_____"), HasSubstr("#####"), Not(HasSubstr("▁"))));
}

TEST_F(InfoText, CallersThatWereDroppedAreALine) {
  Sidecar s = lopsided();
  const auto text = [&s](std::uint64_t checked, std::uint64_t unchecked, std::uint64_t garbage) {
    s.stacks = SidecarStacks{.checked = checked, .unchecked = unchecked, .callers = 4000, .garbage_frames = garbage};
    std::string out = ctl::info_text(s, kUtf8);
    expect_on_the_screen(out);
    return out;
  };
  EXPECT_THAT(text(900, 0, 3700), HasSubstr("callers:         3700 of 4000 were no code, and were dropped"));
  EXPECT_THAT(text(900, 0, 3700), Not(HasSubstr("not checked")));
  EXPECT_THAT(text(900, 30, 3700), HasSubstr("30 samples"));
  EXPECT_THAT(text(10, 900, 0), HasSubstr("callers:         those of 900 samples were not checked\n"));
  EXPECT_THAT(text(900, 30, 0), Not(HasSubstr("callers:"))) << "nothing was found, in nearly all of them";
}

// flightd was killed while it wrote the second one.
TEST_F(InfoText, DoesNotClaimThatAPartHasNoHoles) {
  Sidecar part = lopsided();
  part.record = SidecarRecord{.first = "42", .part = 1, .ended = "killed"};
  part.holes.clear();
  for (const bool known : {true, false}) {
    part.record->holes_known = known;
    const std::string text = ctl::info_text(part, kAscii);
    expect_on_the_screen(text);
    EXPECT_THAT(text, HasSubstr(known ? "losses:          0 events in 0 holes\n"
                                      : "losses:          at least 0 events in 0 holes, others are not known\n"));
  }
}

TEST_F(InfoText, OfAnOldSidecarPrintsFine) {
  const std::string text = ctl::info_text(sample_sidecar(), kUtf8);
  expect_on_the_screen(text);
  EXPECT_THAT(text, AllOf(HasSubstr("  hog       99    -       -     86 %  0,1   /user.slice\n"),
                          Not(HasSubstr("now: the")), Not(HasSubstr("the last"))));
  Sidecar bare;
  bare.id = "1", bare.path = "/p", bare.trigger = "manual";
  expect_on_the_screen(ctl::info_text(bare, kUtf8));
}

TEST_F(InfoText, WithoutTheFiredMetricItDrawsHowBusyTheCpusWere) {
  Sidecar s = lopsided();
  s.fired->metric = "oom:mark_victim";
  EXPECT_THAT(ctl::metric_part(s, kUtf8), AllOf(HasSubstr("cpu.busy, the last 60 s"), HasSubstr("^")));
  s.fired.reset();
  EXPECT_THAT(ctl::metric_part(s, kUtf8), AllOf(HasSubstr("cpu.busy"), Not(HasSubstr("^"))));
  s.metrics->recent.values.clear();
  EXPECT_EQ(ctl::metric_part(s, kUtf8), "");
}

TEST_F(InfoText, HowMuchOfTheBusyTimeWasStolenStandsBelowIt) {
  Sidecar s = lopsided();
  s.metrics->recent.values.push_back({"cpu.steal", std::vector<double>(600, 0.4)});
  s.fired.reset();
  EXPECT_THAT(ctl::metric_part(s, kUtf8), Not(HasSubstr("stolen")));
  s.metrics->recent.values.back().second[599] = 48;
  EXPECT_THAT(ctl::metric_part(s, kUtf8),
              AllOf(HasSubstr("cpu.busy, the last 60 s:"),
                    testing::EndsWith("50 % .. 50 %\n  of it 0.4 % .. 48 % stolen by the hypervisor\n")));
  expect_on_the_screen(ctl::info_text(s, kUtf8));
  s.fired = lopsided().fired;
  EXPECT_THAT(ctl::metric_part(s, kUtf8), AllOf(HasSubstr("cpu.lopsided"), Not(HasSubstr("stolen"))));
}

TEST_F(InfoText, ALongConditionIsDrawnOverTenMinutes) {
  Sidecar s = lopsided();
  s.metrics->recent.begin_ns = 50'000'000'000;
  s.metrics->minutes = {.begin_ns = 0, .step_ns = 1'000'000'000, .values = {{"cpu.lopsided", {1, 2, 3}}}};
  EXPECT_THAT(ctl::metric_part(s, kUtf8), HasSubstr("cpu.lopsided, the last 3.0 s:"));
}

TEST_F(InfoText, ALongPathIsCutWhereAShellJoinsIt) {
  Sidecar s = lopsided();
  s.path = "/" + std::string(300, 'x') + "/y.perf.data";
  const std::string text = ctl::info_text(s, kUtf8);
  expect_on_the_screen(text);
  std::string joined = text.substr(text.find("perf report"));
  for (std::size_t at = 0; (at = joined.find("\\\n")) != std::string::npos;) joined.erase(at, 2);
  EXPECT_EQ(joined, "perf report -i " + s.path + "\n");
  s.path = "/a b'c/" + std::string(300, 'x');
  expect_on_the_screen(ctl::info_text(s, kUtf8));
}

TEST_F(InfoText, LongNamesDoNotWidenIt) {
  std::mt19937 random(4);
  const std::vector<std::string> pieces{"x", "日本語", " ",     "\n", "\x1b[2J",     "\xff",
                                        "é", "🔥",      "word ", "\t", "\xe2\x80\xae"};
  const auto hostile = [&] {
    std::string out;
    for (auto left = random() % 300; left > 0; --left) out += pieces[random() % pieces.size()];
    return out;
  };
  const auto number = [&] { return std::uint64_t{random()} << (random() % 33U); };
  const auto real = [&] {
    const std::vector<double> odd{0, 1e308, -1e308, std::nan(""), HUGE_VAL, 0.5, 97.3, 1e15};
    return odd[random() % odd.size()];
  };
  for (int round = 0; round < 100; ++round) {
    Sidecar s = lopsided();
    for (std::string* text : {&s.id, &s.path, &s.host, &s.kernel, &s.version, &s.trigger, &s.reason, &s.capture,
                              &s.compression, &s.window.begin, &s.window.end, &s.fired->metric})
      if (random() % 2 == 0) *text = hostile();
    s.fired->value = real(), s.fired->threshold = real(), s.fired->baseline = real(), s.fired->since_ns = number();
    s.window.seconds = real(), s.window.end_ns = number(), s.blackout.max_us = real(), s.blackout.lost = number();
    s.timings_us = {number(), number(), number(), number(), number(), number()};
    s.size_bytes = number(), s.raw_bytes = number(), s.tracker.processes = number();
    s.compared = SidecarCompared{number(), number(), number()};
    for (SidecarTop& row : s.top) {
      row.comm = hostile(), row.cgroup = hostile(), row.unit = hostile(),
      row.pid = static_cast<std::uint32_t>(random());
      row.cpus_now = real(), row.cpus_before = real(), row.share = real();
      row.cpus.assign(random() % 9, static_cast<int>(random()));
    }
    for (SidecarRing& ring : s.rings) {
      ring = {hostile(), static_cast<int>(random()), number(), number(), number(), number(), number(), real()};
      ring.lost = number(), ring.torn_bytes = number(), ring.unknown_ids = number();
    }
    s.holes.assign(random() % 20, {hostile(), static_cast<int>(random()), number(), number(), number()});
    s.requests.assign(random() % 20, {static_cast<std::uint32_t>(random()), 1, hostile(), hostile(), hostile()});
    s.warnings.assign(random() % 3, hostile());
    s.metrics->recent.begin_ns = number(), s.metrics->recent.step_ns = number();
    s.metrics->recent.values[0] = {s.fired->metric, std::vector<double>(random() % 700, real())};
    SCOPED_TRACE(round);
    expect_on_the_screen(ctl::info_text(s, round % 2 == 0 ? kUtf8 : kAscii));
    Status status;
    status.version = hostile();
    status.uptime_seconds = real();
    status.channels = {{hostile(), {{hostile(), real(), real()}, {hostile(), real(), real()}}, real(), real()}};
    status.last_snapshot = hostile();
    status.last = StatusLast{hostile(), hostile(), number(), number(), number(), number(), number(), number()};
    status.warnings = {hostile()};
    status.flightd = status.broker = {7, real(), number(), real()};
    expect_on_the_screen(ctl::status_text(status, wall_now(), kUtf8));
    if (HasFailure()) break;
  }
}

// A page of 60 KB is wrapped like a short one: characters stay whole, and none is lost.
TEST_F(InfoText, AReasonOfAnyLengthIsWrapped) {
  for (const std::string character : {"x", "é", "😀", "漢", "ab "}) {
    Sidecar s = lopsided();
    s.fired.reset();
    s.reason.clear();
    while (s.reason.size() < 60'000) s.reason += character;
    const std::string text = ctl::info_text(s, kUtf8);
    expect_on_the_screen(text);
    std::size_t count = 0;
    for (std::size_t at = text.find(character); at != std::string::npos; at = text.find(character, at + 1)) ++count;
    EXPECT_GE(count + (character == "ab " ? s.reason.size() : 0), s.reason.size() / character.size()) << character;
  }
}

TEST(Sparkline, ABurstIsVisibleAndUnknownValuesAreBlank) {
  std::vector<double> values(600, 2);
  values[305] = 100;  // 100 ms
  values[0] = std::nan("");
  const auto line = ctl::sparkline(values, 60, 100, false);
  EXPECT_EQ(line.bars, std::string(30, '_') + "#" + std::string(29, '_'));
  EXPECT_EQ(line.least, 2);
  EXPECT_EQ(line.most, 100);
  const double nan = std::nan("");
  EXPECT_EQ(ctl::sparkline({nan, 0, 50, 100}, 60, 100, true).bars, " ▁▅█");
  EXPECT_EQ(ctl::sparkline({nan, nan}, 60, 100, true).cells, 0U);
  EXPECT_EQ(ctl::sparkline({}, 60, 100, true).cells, 0U);
  EXPECT_EQ(ctl::sparkline({200, 100}, 60, 100, false).bars, "#=");
  EXPECT_EQ(ctl::sparkline({0, 0}, 60, 0, false).bars, "__");
}

TEST_F(InfoText, SaysWhichCpusAreRecorded) {
  Sidecar s = lopsided();
  s.channel_cpus = {{"net", "0-3,8"}, {"disk", "1"}};
  s.top_cpus = "0-3,8";
  const std::string text = ctl::info_text(s, kUtf8);
  expect_on_the_screen(text);
  EXPECT_THAT(text, testing::ContainsRegex("recorded CPUs: +net: 0-3,8; disk: 1; other channels: all\n"));
  EXPECT_THAT(text, testing::ContainsRegex("only\\s+CPUs\\s+0-3,8\\s+are\\s+sampled\n"));
  s.channel_cpus.assign(100, {std::string(300, 'x') + "\n", std::string(9000, '1')});
  s.top_cpus = std::string(9000, '2');
  expect_on_the_screen(ctl::info_text(s, kUtf8));
}

TEST_F(InfoText, ItsBriefFormFitsOnAScreen) {
  Sidecar s = lopsided();
  for (int i = 0; i < 8; ++i)
    s.top_units.push_back(
        {.name = fmt::format("web{}.service", i), .program = "web", .processes = 1, .cpus_now = 1.0 - i * 0.1});
  s.rings.assign(64, s.rings[0]);
  const std::string whole = ctl::info_text(s, kUtf8), brief = ctl::info_brief(s, kUtf8, 23);
  expect_on_the_screen(brief);
  EXPECT_GT(ctl::count_lines(whole), 80U);
  EXPECT_LE(ctl::count_lines(brief), 23U) << brief;
  EXPECT_EQ(brief.substr(0, 60), whole.substr(0, 60)) << "the answer first";
  EXPECT_THAT(brief,
              AllOf(HasSubstr("\nsnapshot 42: lopsided on web3, 2026-11-20 03:12:04\n"), HasSubstr("\ntop units:\n"),
                    HasSubstr("\n  web0.service "), HasSubstr("\nwindow: "), HasSubstr("\nlosses: "),
                    HasSubstr("\nwarnings:\n  one\n"), Not(HasSubstr("rings:")),
                    testing::EndsWith("\nAll of it: `flightctl info --all 42`; in perf: `flightctl report 42`.\n")));
  // What is less important is there if there is room.
  EXPECT_THAT(ctl::info_brief(s, kUtf8, 50), AllOf(HasSubstr("cpu.lopsided, the last 60 s:"),
                                                   HasSubstr("\n  web5.service "), Not(HasSubstr("\n  web6"))));
  for (const std::size_t width : {20U, 40U, 80U, 300U})
    expect_on_the_screen(ctl::info_brief(s, ctl::Screen(true, width), 23), width);
  // However long each part is.
  s.fired.reset();
  s.reason.clear();
  for (int i = 0; i < 100; ++i) s.reason += "a long story ";
  s.warnings.assign(20, std::string(300, 'w'));
  for (int i = 0; i < 20; ++i) s.warnings.push_back(fmt::format("names: {} {}", i, std::string(300, 'n')));
  for (auto& row : s.top_units) row.name = std::string(200, 'u') + row.name;
  EXPECT_LE(ctl::count_lines(ctl::info_brief(s, kUtf8, 23)), 23U);
  EXPECT_THAT(ctl::info_brief(s, kUtf8, 23),
              testing::ContainsRegex("\n  a long story [a-z ]*\n  a long story [a-z ]* \\.\\.\\.\n"));
  Sidecar bare;
  bare.id = "1", bare.path = "/p", bare.trigger = "manual";
  expect_on_the_screen(ctl::info_brief(bare, kUtf8, 23));
}

TEST_F(InfoText, SeveralFitOnAScreenTogether) {
  Sidecar s = lopsided();
  s.warnings.assign(9, std::string(300, 'w'));
  for (const std::size_t count : {2U, 3U, 5U, 40U}) {
    SCOPED_TRACE(count);
    std::vector<Sidecar> several(count, s);
    for (std::size_t i = 0; i < count; ++i) several[i].id = std::to_string(i + 1);
    const std::string page = ctl::info_briefs(several, kUtf8, 23);
    expect_on_the_screen(page);
    EXPECT_LE(ctl::count_lines(page), 23U) << page;
    EXPECT_TRUE(page.starts_with("snapshot 1: lopsided on web3, 2026-11-20 03:12:04\n")) << page;
    EXPECT_THAT(page, AllOf(HasSubstr("\n\nsnapshot 2: lopsided"), HasSubstr("\nAll of one: `flightctl info ID`;")));
    if (count <= 3) {
      EXPECT_THAT(page, AllOf(HasSubstr(fmt::format("\n\nsnapshot {}: ", count)), Not(HasSubstr(" more\n"))));
    }
  }
  EXPECT_THAT(ctl::info_briefs(std::vector<Sidecar>(40, s), kUtf8, 23), HasSubstr("\nand 36 more\n"));
}

TEST(Screen, TheFirstLinesOfATextSayThatThereAreMore) {
  EXPECT_EQ(ctl::first_lines("one\ntwo\nthree\n", 3, 20), "one\ntwo\nthree\n");
  EXPECT_EQ(ctl::first_lines("one\ntwo\nthree\n", 2, 20), "one\ntwo ...\n");
  EXPECT_EQ(ctl::first_lines("one\ntwo\nthree\n", 1, 6), "on ...\n");
  EXPECT_EQ(ctl::first_lines("one\ntwo\n", 0, 20), "");
  EXPECT_EQ(ctl::first_lines("", 5, 20), "");
  EXPECT_EQ(ctl::count_lines("one\ntwo\n"), 2U);
}

TEST_F(InfoText, IsMadeForTheTerminalsWidth) {
  Sidecar s = lopsided();
  s.top_units = {{.name = "gunicorn-of-the-web-shop.service", .program = "gunicorn", .processes = 24, .cpus_now = 1.2}};
  s.holes = {{.channel = "stacks", .cpu = 1, .begin_ns = 5'000'000'000, .end_ns = 5'000'042'000, .lost = 2}};
  s.warnings = {"names: something about them is less than it should be", "and something else, too"};
  std::size_t lines = 1000;
  for (const std::size_t width : {20U, 21U, 40U, 60U, 79U, 80U, 120U, 200U, 300U}) {
    SCOPED_TRACE(width);
    for (const bool utf8 : {true, false}) {
      const std::string text = ctl::info_text(s, ctl::Screen(utf8, width));
      expect_on_the_screen(text, width);
      EXPECT_THAT(text, testing::ContainsRegex("snapshot\\s42:\\slopsided"));
    }
    const std::string text = ctl::info_text(s, ctl::Screen(true, width));
    const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    EXPECT_LE(count, lines) << "a wider page is no longer";
    lines = count;
  }
  const std::string narrow = ctl::info_text(s, ctl::Screen(true, 40));
  EXPECT_THAT(narrow,
              testing::ContainsRegex("\n  \xe2\x96\x81[^\n]*\n +(\\^ )?fired 03:11:47[^\n]*\n  1.5 % .. 94 %\n"));
}

TEST(StatusText, IsMadeForTheTerminalsWidth) {
  Status status;
  status.version = "0.1.0", status.uptime_seconds = 3600, status.cpus = 2;
  status.recording = RecordingState::on;
  status.channels = {{"stacks", {{"cpu-clock", 99, 30000}}, 12, 40},
                     {"a-long-name", {{"sched:sched_process_wakeup", 9, 30}}, 12, 40}};
  status.last_snapshot = "7";
  status.last = StatusLast{"2026-11-20T03:12:04Z", "lopsided", 1000, 50, 2000, 3000, 4000, 10050};
  status.warnings = {"something is less than it should be"};
  const WallTime now = parse_time("2026-11-20T03:24:04Z", {}).value();
  for (const std::size_t width : {20U, 40U, 79U, 80U, 120U, 300U}) {
    SCOPED_TRACE(width);
    expect_on_the_screen(ctl::status_text(status, now, ctl::Screen(true, width)), width);
  }
}

TEST(Screen, AFoldedTableHasTheLastCellBelow) {
  const std::vector<std::vector<std::string>> rows{
      {"ID", "TRIGGER", "REASON"}, {"12", "cpu-spike", "checkout is slow"}, {"13", "manual", ""}};
  EXPECT_EQ(ctl::Screen(false, 31).folded_table(rows, {0}, {1}),
            "ID  TRIGGER    REASON\n12  cpu-spike  checkout is slow\n13  manual\n");
  EXPECT_EQ(ctl::Screen(false, 30).folded_table(rows, {0}, {1}),
            "ID  TRIGGER\n    REASON\n12  cpu-spike\n    checkout is slow\n13  manual\n");
  EXPECT_EQ(ctl::Screen(false, 20).folded_table(rows, {0}, {1}),
            "ID  TRIGGER\n    REASON\n12  cpu-spike\n    checkout is slow\n13  manual\n");
}

TEST(StatusText, SaysWhichCpusAChannelRecords) {
  Status status;
  status.recording = RecordingState::on, status.cpus = 1;
  status.channels = {{"net", {{"cycles", 99, 30000}}, 12, 40, "0-3,8"}, {"sched", {{"x:y", 9, 30}}, 12, 40}};
  const std::string text = ctl::status_text(status, {});
  expect_on_the_screen(text);
  EXPECT_THAT(text, AllOf(HasSubstr("recording 1 CPU, "), HasSubstr("Channel net records only the CPUs 0-3,8.\n"),
                          Not(HasSubstr("Channel sched"))));
}

// A snapshot of all channels has only so much: in an earlier version the longest history was the first number.
TEST(StatusText, BeginsWithTheShortestHistoryAndItsChannel) {
  Status status;
  status.recording = RecordingState::on, status.cpus = 2, status.uptime_seconds = 3600;
  status.channels = {
      {"stacks", {{"cycles", 99, 30000}}, 120, 400}, {"net", {{"x:y", 9000, 300000}}, 13, 500}, {"disk", {}, 0, 0}};
  const std::string text = ctl::status_text(status, {});
  EXPECT_THAT(text, HasSubstr(": recording 2 CPUs, 13 s held (channel net), up 60 min\n")) << "disk has no ring";
  status.channels = {{"disk", {}, 0, 0}};
  EXPECT_THAT(ctl::status_text(status, {}), HasSubstr(": recording 2 CPUs, up 60 min\n"));
}

TEST(StatusText, NoSampleIsReportedOnlyWithoutARate) {
  Status status;
  status.recording = RecordingState::unproven, status.cpus = 2;
  status.channels = {{"stacks", {{"cycles", 0, 0}}, 12, 40}, {"sched", {{"sched:sched_switch", 0, 0}}, 12, 40}};
  EXPECT_THAT(ctl::status_text(status, {}), HasSubstr("recording 2 CPUs (no sample yet), "));
  status.channels[1].events[0].per_second = 192;
  const std::string text = ctl::status_text(status, {});
  expect_on_the_screen(text);
  EXPECT_THAT(text, AllOf(HasSubstr("recording 2 CPUs (sampling unproven so far), "), HasSubstr("192"),
                          Not(HasSubstr("no sample"))));
}

TEST(StatusText, ShowsTheLastSnapshotWithItsAgeAndTimings) {
  Status status;
  status.version = "0.1.0", status.uptime_seconds = 3600, status.cpus = 2;
  status.recording = RecordingState::on;
  status.channels = {{"stacks", {{"cpu-clock", 99, 30000}}, 12, 40}};
  const WallTime now = parse_time("2026-11-20T03:24:04Z", {}).value();
  EXPECT_THAT(ctl::status_text(status, now), HasSubstr("last snapshot: none yet\n"));
  status.last_snapshot = "7";
  status.last = StatusLast{"2026-11-20T03:12:04Z", "lopsided", 1000, 50, 2000, 3000, 4000, 10050};
  status.warnings = {"one"};
  const std::string text = ctl::status_text(status, now);
  expect_on_the_screen(text);
  EXPECT_THAT(text, AllOf(HasSubstr("flightd 0.1.0: recording 2 CPUs, 12 s held, up 60 min\n"),
                          HasSubstr("stacks   cpu-clock        99.0    29.3K      12 s     40 s\n"),
                          HasSubstr("7, 12 min ago (lopsided); took 10.05 ms: queued 1.00 ms, freeze\n"),
                          Not(HasSubstr("Rates")), HasSubstr("warnings:\n  one\n")));
  // flightd was restarted an hour ago, the broker was not.
  status.flightd = {10, 36, 12U << 20U, 3600};
  status.broker = {11, 864, 12U << 20U, 86400};
  EXPECT_THAT(ctl::status_text(status, now), AllOf(HasSubstr("pid 10, 36.00 s of CPU (1.00 % of one)"),
                                                   HasSubstr("pid 11, 864.00 s of CPU (1.00 % of one)")));
  status.broker.uptime_seconds = 0;
  EXPECT_THAT(ctl::status_text(status, now), HasSubstr("pid 11, 864.00 s of CPU, 12.0M resident"));
  // The clock was set: the times that it shows do not give the age.
  status.last->age_seconds = 90;
  for (const char* time : {"2026-11-20T03:12:04Z", "2026-11-20T04:12:04Z", "?"}) {
    status.last->time = time;
    EXPECT_THAT(ctl::status_text(status, now), HasSubstr("7, 90 s ago (lopsided); took")) << time;
  }
  status.uptime_seconds = 4;
  EXPECT_THAT(ctl::status_text(status, now), testing::ContainsRegex("Rates\\s+cover\\s+only\\s+4.0\\s+s"));
}

}  // namespace
}  // namespace flight
