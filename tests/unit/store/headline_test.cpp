// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/headline.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
using testing::Not;

// A cpu-spike of 2.1 s: asked for at 10.1 s, frozen at 11.1 s, for there is a `post` of a second.
Sidecar spike() {
  Sidecar s = sample_sidecar();
  s.trigger = "cpu-spike";
  s.fired = SidecarFired{"cpu.busy", 97.2, 90, 12.3, 8'000'000'000};
  s.window.end_ns = 11'100'000'000;
  s.timings_us.queued = 1'000'000;
  s.top = {{.comm = "cc1", .pid = 55, .samples = 90, .share = 0.5, .cpu_before = 0.4, .cpu_now = 0.02, .cpus = {0}},
           {.comm = "burn",
            .pid = 1234,
            .cgroup = "/system.slice/burn.service",
            .unit = "burn.service",
            .samples = 60,
            .share = 0.4,
            .share_before = 0,
            .share_now = 0.97,
            .cpu_before = 0,
            .cpu_now = 0.944,
            .cpus = {1}},
           {.comm = "kworker/0:1", .pid = 77, .samples = 3, .share = 0.1, .cpu_now = 0.032, .cpus = {0}},
           {.comm = "tiny", .pid = 78, .samples = 1, .share = 0.1, .cpu_now = 0.001}};
  return s;
}

TEST(Headline, SaysWhatFiredWhoItIsAndWhatWasBefore) {
  EXPECT_EQ(
      headline(spike()),
      "cpu-spike: cpu.busy 97 % (above 90 % for 2.1 s, before: 12 %); burn[1234] in burn.service: 94 % of a CPU, "
      "on CPU 1 (before: 0 %), then kworker/0:1[77]: 3.2 %, cc1[55]: 2.0 %; less: cc1[55]: 40 % before, now 2.0 %");
}

TEST(Headline, WithoutCpusItIsOfTheSamples) {
  Sidecar s = spike();
  for (SidecarTop& row : s.top) row.cpu_before = row.cpu_now = std::nullopt;
  EXPECT_THAT(headline(s), HasSubstr("burn[1234] in burn.service: 97 % of the samples, on CPU 1 (before: 0 %)"));
}

TEST(Headline, OfAnOldSidecarIsOfTheWholeWindow) {
  EXPECT_EQ(headline(sample_sidecar()),
            "lopsided: cpu.lopsided 94 % (above 80 % for 3.5 s, before: 12 %); hog[99] in /user.slice: 86 % of the "
            "samples, on CPUs 0,1");
}

TEST(Headline, AFallBelowAndAnUnknownBaseline) {
  Sidecar s = spike();
  s.fired = SidecarFired{"tasks.running", 3, 5, std::nan(""), 0};
  EXPECT_EQ(why_text(s), "tasks.running 3 (below 5)");
}

TEST(Headline, ATracepointHasNoThreshold) {
  Sidecar s = spike();
  s.fired = SidecarFired{"oom:mark_victim", 0, 0, 0, 0};
  EXPECT_THAT(headline(s), testing::StartsWith("cpu-spike: oom:mark_victim; burn[1234]"));
}

TEST(Headline, OfAPersonsSnapshot) {
  Sidecar s = spike();
  s.trigger = "manual";
  s.fired.reset();
  EXPECT_THAT(headline(s), testing::StartsWith("manual: why; burn[1234]"));
  s.reason = "";
  EXPECT_THAT(headline(s), testing::StartsWith("manual: asked for by flightctl[12], uid 1000; burn[1234]"));
  s.requests.push_back(s.requests[0]);
  EXPECT_THAT(headline(s), HasSubstr("uid 1000, and 1 more; "));
  s.requests.clear();
  EXPECT_THAT(headline(s), testing::StartsWith("manual; burn[1234]"));
  s.top.clear();
  EXPECT_EQ(headline(s), "manual; no process was sampled");
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

TEST(Headline, IsBoundedAndLeavesNothingThatMisleads) {
  Sidecar s = spike();
  const std::string evil = "\x1b[2J\n\xe2\x80\xae" + std::string(5000, 'x') + "日本";
  s.trigger = s.reason = s.fired->metric = evil;
  for (SidecarTop& row : s.top) row.comm = row.unit = row.cgroup = evil;
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
    for (SidecarTop& row : strange.top) row.cpu_now = row.share = odd;
    EXPECT_LE(columns(headline(strange)), kMaxHeadlineColumns);
  }
}

}  // namespace
}  // namespace flight
