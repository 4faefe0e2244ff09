// SPDX-License-Identifier: Apache-2.0
// Events in perf's syntax, against fake sysfs and tracefs trees and against this machine's own.
#include "libcore/perf/event_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cerrno>
#include <utility>

#include "libcore/base/files.hpp"
#include "tests/unit/perf/live_ring.hpp"
#include "tests/unit/perf/temp_tree.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class EventSpecs : public ::testing::Test {
 protected:
  EventSpecs() {
    sources_ = {tree_.path() + "/tracing", tree_.path() + "/sys"};
    tracepoint("sched", "sched_switch", "316\n");
    tracepoint("sched", "sched_wakeup", "318\n");
    tracepoint("raw_syscalls", "sys_enter", "21\n");
    tracepoint("kmem", "kmalloc", "500\n");
    tracepoint("broken", "no_number", "x\n");
    tree_.write("tracing/events/sched/enable", "0\n");
    pmu("cpu/type", "4\n");
    pmu("cpu/format/event", "config:0-7,32-35\n");
    pmu("cpu/format/umask", "config:8-15\n");
    pmu("cpu/format/edge", "config:18\n");
    pmu("cpu/format/ldlat", "config1:0-15\n");
    pmu("cpu/format/all", "config2:0-63\n");
    pmu("cpu/format/metrics", "config3:0\n");
    pmu("cpu/format/nonsense", "config:9-4\n");
    pmu("cpu/events/cpu-cycles", "event=0x3c\n");
    pmu("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
    pmu("cpu/events/needs", "event=?,umask=1\n");
    pmu("cpu/events/loop", "loop\n");
    pmu("tracepoint/type", "2\n");
    pmu("odd/type", "zero\n");
  }

  void tracepoint(const std::string& system, const std::string& event, const std::string& id) const {
    tree_.write("tracing/events/" + system + "/" + event + "/id", id);
  }
  void pmu(const std::string& name, const std::string& text) const {
    tree_.write("sys/bus/event_source/devices/" + name, text);
  }

  EventSpec good(const std::string& text) {
    const auto spec = parse_event(text, sources_);
    EXPECT_TRUE(spec) << text << ": " << spec.error().what;
    if (spec) {
      EXPECT_EQ(spec->name, text);
    }
    return spec.value_or(EventSpec{});
  }
  Error bad(const std::string& text, int error_number) {
    const auto spec = parse_event(text, sources_);
    EXPECT_FALSE(spec) << text;
    if (spec) return {};
    EXPECT_EQ(spec.error().errno_value(), error_number) << spec.error().what;
    return spec.error();
  }

  TempTree tree_;
  EventSources sources_;
};

TEST_F(EventSpecs, GenericNames) {
  const std::vector<std::pair<std::string, std::pair<std::uint32_t, std::uint64_t>>> names{
      {"cycles", {0, PERF_COUNT_HW_CPU_CYCLES}},
      {"cpu-cycles", {0, PERF_COUNT_HW_CPU_CYCLES}},
      {"instructions", {0, PERF_COUNT_HW_INSTRUCTIONS}},
      {"cache-references", {0, PERF_COUNT_HW_CACHE_REFERENCES}},
      {"cache-misses", {0, PERF_COUNT_HW_CACHE_MISSES}},
      {"branches", {0, PERF_COUNT_HW_BRANCH_INSTRUCTIONS}},
      {"branch-instructions", {0, PERF_COUNT_HW_BRANCH_INSTRUCTIONS}},
      {"branch-misses", {0, PERF_COUNT_HW_BRANCH_MISSES}},
      {"bus-cycles", {0, PERF_COUNT_HW_BUS_CYCLES}},
      {"ref-cycles", {0, PERF_COUNT_HW_REF_CPU_CYCLES}},
      {"stalled-cycles-frontend", {0, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND}},
      {"stalled-cycles-backend", {0, PERF_COUNT_HW_STALLED_CYCLES_BACKEND}},
      {"cpu-clock", {1, PERF_COUNT_SW_CPU_CLOCK}},
      {"task-clock", {1, PERF_COUNT_SW_TASK_CLOCK}},
      {"page-faults", {1, PERF_COUNT_SW_PAGE_FAULTS}},
      {"faults", {1, PERF_COUNT_SW_PAGE_FAULTS}},
      {"context-switches", {1, PERF_COUNT_SW_CONTEXT_SWITCHES}},
      {"cs", {1, PERF_COUNT_SW_CONTEXT_SWITCHES}},
      {"cpu-migrations", {1, PERF_COUNT_SW_CPU_MIGRATIONS}},
      {"migrations", {1, PERF_COUNT_SW_CPU_MIGRATIONS}},
      {"minor-faults", {1, PERF_COUNT_SW_PAGE_FAULTS_MIN}},
      {"major-faults", {1, PERF_COUNT_SW_PAGE_FAULTS_MAJ}},
      {"alignment-faults", {1, PERF_COUNT_SW_ALIGNMENT_FAULTS}},
      {"emulation-faults", {1, PERF_COUNT_SW_EMULATION_FAULTS}},
      {"dummy", {1, PERF_COUNT_SW_DUMMY}},
      {"bpf-output", {1, PERF_COUNT_SW_BPF_OUTPUT}},
      {"cgroup-switches", {1, 11}},
  };
  for (const auto& [name, what] : names) {
    const auto spec = good(name);
    EXPECT_EQ(spec.type, what.first) << name;
    EXPECT_EQ(spec.config, what.second) << name;
    EXPECT_FALSE(spec.is_tracepoint());
    EXPECT_FALSE(spec.exclude_user || spec.exclude_kernel);
  }
}

TEST_F(EventSpecs, RawCodes) {
  EXPECT_EQ(good("r1a8").type, PERF_TYPE_RAW);
  EXPECT_EQ(good("r1a8").config, 0x1a8U);
  EXPECT_EQ(good("rFFFFffffFFFFffff").config, ~std::uint64_t{0});
  EXPECT_TRUE(good("r1a8:k").exclude_user);
  for (const char* text : {"r", "rg", "r1g", "r12345678901234567", "r-1", "r 1", "r0x1"}) {
    const auto spec = parse_event(text, sources_);
    EXPECT_FALSE(spec) << text;
  }
}

TEST_F(EventSpecs, Modifiers) {
  EXPECT_TRUE(good("cycles:u").exclude_kernel);
  EXPECT_FALSE(good("cycles:u").exclude_user);
  EXPECT_TRUE(good("cycles:k").exclude_user);
  EXPECT_FALSE(good("cycles:uk").exclude_user);
  EXPECT_FALSE(good("cycles:ku").exclude_kernel);
  EXPECT_EQ(good("cycles:p").precise_ip, 1U);
  EXPECT_EQ(good("cycles:upp").precise_ip, 2U);
  EXPECT_TRUE(good("cycles:upp").exclude_kernel);
  EXPECT_EQ(good("cycles:ppp").precise_ip, 3U);
  for (const char* text : {"cycles:pppp", "cycles:x", "cycles:uu", "cycles:kk", "cycles:U", "cycles:u:k"})
    EXPECT_THAT(bad(text, EINVAL).what, HasSubstr("modifiers")) << text;
  bad("cycles:", EINVAL);
  bad(":u", EINVAL);
}

TEST_F(EventSpecs, Tracepoints) {
  const auto spec = good("sched:sched_switch");
  EXPECT_EQ(spec.type, PERF_TYPE_TRACEPOINT);
  EXPECT_EQ(spec.config, 316U);
  EXPECT_TRUE(spec.is_tracepoint());
  EXPECT_EQ(spec.system, "sched");
  EXPECT_EQ(spec.event, "sched_switch");
  const auto kernel = good("raw_syscalls:sys_enter:k");
  EXPECT_EQ(kernel.config, 21U);
  EXPECT_EQ(kernel.event, "sys_enter");
  EXPECT_TRUE(kernel.exclude_user);
  EXPECT_THAT(bad("sched:sched_switch:z", EINVAL).what, HasSubstr("modifiers"));
  bad("sched:sched_switch:", EINVAL);
  EXPECT_THAT(bad("sched:*", EINVAL).what, HasSubstr("wildcards"));
  EXPECT_THAT(bad("broken:no_number", EBADMSG).what, HasSubstr("does not contain a number"));
}

TEST_F(EventSpecs, UnknownOnesAreNamedWithTheNearest) {
  EXPECT_THAT(bad("sched:sched_swich", ENOENT).what, HasSubstr("no tracepoint 'sched:sched_swich'; the nearest"));
  EXPECT_THAT(bad("sched:sched_swich", ENOENT).what, HasSubstr("'sched:sched_switch'"));
  EXPECT_THAT(bad("shed:sched_switch", ENOENT).what, HasSubstr("'sched:sched_switch'"));
  EXPECT_THAT(bad("cylces", ENOENT).what, HasSubstr("no event 'cylces'; the nearest is 'cycles'"));
  EXPECT_THAT(bad("cylces:u", ENOENT).what, HasSubstr("'cycles'"));
  EXPECT_THAT(bad("sched_switch", ENOENT).what, HasSubstr("'sched:sched_switch'"));
  EXPECT_THAT(bad("page-fault", ENOENT).what, HasSubstr("'page-faults'"));
  EXPECT_THAT(bad("qqqqqqqqqq", ENOENT).what, Not(HasSubstr("nearest")));
  bad("sched:u", ENOENT);
}

TEST_F(EventSpecs, WithoutTracefs) {
  sources_.tracefs.clear();
  EXPECT_THAT(bad("sched:sched_switch", ENOENT).what, HasSubstr("mount -t tracefs"));
  EXPECT_EQ(good("cycles:u").config, PERF_COUNT_HW_CPU_CYCLES);
  EXPECT_THAT(bad("cylces", ENOENT).what, HasSubstr("'cycles'"));
}

TEST_F(EventSpecs, NoNameLeavesTheTrees) {
  tree_.write("tracing/id", "1\n");
  tree_.write("sys/bus/event_source/type", "1\n");
  tree_.write("sys/bus/type", "1\n");
  bad("..:..", EINVAL);
  bad(".:sched", EINVAL);
  bad("../format/", EINVAL);
  bad("..//", EINVAL);
  bad("./x/", EINVAL);
  bad("cpu/../", EINVAL);
  bad("cpu/../../type=1/", EINVAL);
}

TEST_F(EventSpecs, PmuTerms) {
  const auto spec = good("cpu/event=0x3c,umask=1,edge,ldlat=30,all=0xffffffffffffffff/");
  EXPECT_EQ(spec.type, 4U);
  EXPECT_EQ(spec.config, 0x3cU | 0x100U | (1U << 18U));
  EXPECT_EQ(spec.config1, 30U);
  EXPECT_EQ(spec.config2, ~std::uint64_t{0});
  // A value for a field of two bit ranges: the low bits go into the first range.
  EXPECT_EQ(good("cpu/event=0xabc/").config, 0xbcU | (std::uint64_t{0xa} << 32U));
  EXPECT_EQ(good("cpu/config=0x1ff,config1=2,config2=3/").config, 0x1ffU);
  EXPECT_EQ(good("cpu/config=0x1ff,config1=2,config2=3/").config1, 2U);
  EXPECT_EQ(good("cpu/config=0x1ff,config1=2,config2=3/").config2, 3U);
  EXPECT_EQ(good("cpu//").config, 0U);
}

TEST_F(EventSpecs, PmuEvents) {
  EXPECT_EQ(good("cpu/cpu-cycles/").config, 0x3cU);
  const auto loads = good("cpu/mem-loads/");
  EXPECT_EQ(loads.config, 0x1cdU);
  EXPECT_EQ(loads.config1, 3U);
  // A later term replaces an event's own.
  EXPECT_EQ(good("cpu/mem-loads,ldlat=50/").config1, 50U);
  EXPECT_EQ(good("cpu/mem-loads,umask=2/").config, 0x2cdU);
}

TEST_F(EventSpecs, PmuModifiers) {
  EXPECT_TRUE(good("cpu/cpu-cycles/u").exclude_kernel);
  EXPECT_TRUE(good("cpu/cpu-cycles/:k").exclude_user);
  EXPECT_EQ(good("cpu/cpu-cycles/ppu").precise_ip, 2U);
  bad("cpu/cpu-cycles/x", EINVAL);
}

TEST_F(EventSpecs, PmuMistakes) {
  EXPECT_THAT(bad("cpv/event=1/", ENOENT).what, HasSubstr("no PMU 'cpv' on this machine; the nearest is 'cpu'"));
  EXPECT_THAT(bad("cpu/evnt=1/", ENOENT).what, HasSubstr("no term 'evnt'; the nearest is 'event'"));
  EXPECT_THAT(bad("cpu/cpu-cycle/", ENOENT).what,
              HasSubstr("no event or term 'cpu-cycle'; the nearest is 'cpu-cycles'"));
  EXPECT_THAT(bad("cpu/umask=0x100/", EINVAL).what, HasSubstr("too wide"));
  EXPECT_THAT(bad("cpu/event=0x1000/", EINVAL).what, HasSubstr("config:0-7,32-35"));
  EXPECT_THAT(bad("cpu/edge=2/", EINVAL).what, HasSubstr("too wide"));
  EXPECT_THAT(bad("cpu/event=abc/", EINVAL).what, HasSubstr("not a number"));
  EXPECT_THAT(bad("cpu/event=/", EINVAL).what, HasSubstr("not a number"));
  EXPECT_THAT(bad("cpu/event=0x/", EINVAL).what, HasSubstr("not a number"));
  EXPECT_THAT(bad("cpu/config=0x10000000000000000/", EINVAL).what, HasSubstr("not a number"));
  EXPECT_THAT(bad("cpu/needs/", EINVAL).what, HasSubstr("event=NUMBER"));
  EXPECT_THAT(bad("cpu/metrics=1/", ENOTSUP).what, HasSubstr("config3"));
  EXPECT_THAT(bad("cpu/nonsense=1/", EBADMSG).what, HasSubstr("invalid format"));
  EXPECT_THAT(bad("tracepoint/config=316/", EINVAL).what, HasSubstr("SYSTEM:EVENT"));
  bad("odd/x=1/", EBADMSG);
  bad("cpu/loop/", ENOENT);
  bad("cpu/,/", EINVAL);
  bad("cpu/=1/", EINVAL);
  bad("cpu/", EINVAL);
  bad("/cpu/", EINVAL);
  bad("/", EINVAL);
}

// Whether the machine or the configuration is to blame if the kernel refuses it.
TEST_F(EventSpecs, WhatAnEventNeeds) {
  pmu("uncore_imc_0/type", "20\n");
  pmu("big_cores/type", "21\n");
  pmu("big_cores/cpus", "0-3\n");
  pmu("software/type", "1\n");
  for (const char* text :
       {"cycles", "cache-misses:u", "r1a8", "cpu/event=1/", "cpu/cpu-cycles/p", "big_cores/config=1/"})
    EXPECT_EQ(good(text).needs, Needs::cpu_pmu) << text;
  EXPECT_EQ(good("uncore_imc_0/config=1/").needs, Needs::other_pmu);
  EXPECT_EQ(good("cgroup-switches").needs, Needs::kernel);
  EXPECT_EQ(good("software/config=99/").needs, Needs::nothing);
  EXPECT_EQ(good("sched:sched_switch").needs, Needs::nothing);
  for (const char* text : {"cycles", "cpu/event=1/", "uncore_imc_0/config=1/"}) EXPECT_EQ(good(text).missing_pmu, "");
}

TEST_F(EventSpecs, APmuThatOtherMachinesHaveIsNoMistake) {
  for (const char* text : {"cpu_core/cpu-cycles/", "cpu_atom/event=0x3c,edge/", "cpum_cf/CPU_CYCLES/",
                           "armv8_pmuv3_0/cpu_cycles/", "apple_icestorm_pmu/cycles/"}) {
    EXPECT_EQ(good(text).needs, Needs::cpu_pmu) << text;
    EXPECT_EQ(good(text).missing_pmu + "/", std::string(text).substr(0, std::string(text).find('/') + 1));
  }
  for (const char* text :
       {"uncore_imc_0/cas_count_read/", "power/energy-pkg/", "ibs_op//", "intel_pt//", "amd_df/event=1/"})
    EXPECT_EQ(good(text).needs, Needs::other_pmu) << text;
  EXPECT_TRUE(good("cpu_core/cpu-cycles/up").exclude_kernel);
  EXPECT_EQ(good("cpu_core/cpu-cycles/up").precise_ip, 1U);
  bad("cpu_core/cpu-cycles/x", EINVAL);
  bad("cpu_core/event=abc/", EINVAL);
  bad("cpu_core/,/", EINVAL);
  bad("cpu_core/../", EINVAL);
  bad("kprobe/config=1/", ENOENT);
  bad("cpucore/cpu-cycles/", ENOENT);
  bad("cpu/cpu-cycle/", ENOENT);
}

TEST_F(EventSpecs, NamesThatAreNone) {
  bad("", EINVAL);
  bad(std::string(2000, 'x'), EINVAL);
  bad("cycles u", EINVAL);
  bad("cycles\n", EINVAL);
  bad(std::string("cyc\0les", 7), EINVAL);
  bad("cycl\xc3\xa9s", EINVAL);
  bad(std::string(1000, '/'), EINVAL);
  bad(std::string(1000, ':'), EINVAL);
  bad(std::string(900, 'y'), ENOENT);
}

TEST(NearestNames, NearestFirst) {
  const std::vector<std::string> names{"sched:sched_wakeup", "sched:sched_switch", "kmem:kmalloc", "cycles"};
  EXPECT_THAT(nearest_names("sched:sched_swich", names, 1), ElementsAre("sched:sched_switch"));
  EXPECT_THAT(nearest_names("kmallok", names), ElementsAre("kmem:kmalloc"));
  EXPECT_THAT(nearest_names("switch", names), ElementsAre("sched:sched_switch"));
  EXPECT_THAT(nearest_names("cycle", names), ElementsAre("cycles"));
  EXPECT_THAT(nearest_names("zzzz", names), IsEmpty());
  EXPECT_THAT(nearest_names("cycles", names, 0), IsEmpty());
  EXPECT_THAT(nearest_names("", names), IsEmpty());
  const std::vector<std::string> long_ones{std::string(100000, 'c')};
  EXPECT_THAT(nearest_names(std::string(100000, 'd'), long_ones), IsEmpty());
}

// This machine's own trees.
TEST(EventSpecReal, TracepointsAndPmus) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const auto tracefs = find_or_mount_tracefs();
  ASSERT_TRUE(tracefs) << tracefs.error().what;
  const EventSources sources{*tracefs, "/sys"};
  const auto spec = parse_event("sched:sched_switch", sources);
  ASSERT_TRUE(spec) << spec.error().what;
  const auto id = read_line(*tracefs + "/events/sched/sched_switch/id");
  ASSERT_TRUE(id);
  EXPECT_EQ(std::to_string(spec->config), *id);
  const auto wrong = parse_event("sched:sched_swich", sources);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what, HasSubstr("'sched:sched_switch'"));

  const auto software = parse_event("software/config=9/", sources);
  ASSERT_TRUE(software) << software.error().what;
  EXPECT_EQ(software->type, PERF_TYPE_SOFTWARE);
  const OnCpu here;
  EXPECT_TRUE(open_event(event_attr(*software, {}, {}), here.cpu(), software->name));
}

}  // namespace
}  // namespace flight::test
