// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "libcore/config/memory_share.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/recorder/stand_in.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::uint64_t kMiB = 1U << 20U;
const std::uint64_t kLeastBeside = kLeastBesideRingsBytes + checkpoint_file_bytes(kLeastBesideRingsBytes);

ChannelConfig channel(const std::string& name, std::uint64_t ring_bytes, std::vector<EventConfig> events = {}) {
  return {.name = name, .ring_bytes = ring_bytes, .events = std::move(events)};
}

TEST(FitRings, LeavesWhatFits) {
  const std::vector channels{channel("a", 2 * kMiB), channel("b", 4 * kMiB)};
  // 12 MiB and 4.5 in a file are for memory outside the rings. The sideband has an eighth of everything at most.
  const std::uint64_t kNeeded = 4 * (2 * 6 * kMiB + 2 * kMiB) + kLeastBeside;
  EXPECT_EQ(sideband_ring_bytes(kNeeded, 4), 2 * kMiB);
  EXPECT_THAT(fit_rings(channels, 4, kNeeded, 2 * kMiB), ElementsAre(2 * kMiB, 4 * kMiB));
  EXPECT_THAT(fit_rings(channels, 4, kNeeded - 1, 2 * kMiB), ElementsAre(2 * kMiB, 2 * kMiB));
}

TEST(FitRings, TheSidebandIsAsLargeAsTheMemoryAllows) {
  EXPECT_EQ(sideband_ring_bytes(482 * kMiB, 2), 4 * kMiB);
  EXPECT_EQ(sideband_ring_bytes(482 * kMiB, 16), 2 * kMiB);
  EXPECT_EQ(sideband_ring_bytes(20 * kMiB, 2), kMiB);
  EXPECT_EQ(sideband_ring_bytes(0, 2), kLeastSidebandRingBytes);
  EXPECT_EQ(beside_rings_bytes(482 * kMiB), 48 * kMiB);
  EXPECT_EQ(beside_rings_bytes(80 * kMiB), 12 * kMiB);
}

TEST(FitRings, HalvesTheLargestFirstAndNoneBelowTheLeast) {
  const std::vector channels{channel("a", 64U << 10U), channel("b", 8 * kMiB), channel("c", 1 * kMiB)};
  EXPECT_THAT(fit_rings(channels, 1, 47 * kMiB / 2, 2 * kMiB), ElementsAre(64U << 10U, 1 * kMiB, 1 * kMiB));
  EXPECT_THAT(fit_rings(channels, 1, 0, 2 * kMiB), ElementsAre(kLeastRingBytes, kLeastRingBytes, kLeastRingBytes));
  EXPECT_THAT(fit_rings({}, 1, 0, 2 * kMiB), IsEmpty());
}

TEST(FormatFields, AreNamedWithTheCommonOnesLast) {
  EXPECT_THAT(format_fields("name: x\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
                            "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                            "\tfield:const char * name;\toffset:24;\n\tfield:__data_loc char[] text;\toffset:32;\n"),
              ElementsAre("prev_comm", "name", "text", "common_type"));
  EXPECT_THAT(format_fields(""), IsEmpty());
  EXPECT_THAT(format_fields("\tfield:"), IsEmpty());
}

class Plan : public test::RootTest {
 protected:
  void SetUp() override {
    const auto tracefs = find_or_mount_tracefs();
    ASSERT_TRUE(tracefs) << tracefs.error().what;
    sources_.tracefs = *tracefs;
    cpu_ = online_cpus().value().front();
    features_ = KernelFeatures::probe(cpu_);
  }
  Result<RecordingPlan> plan(std::vector<EventConfig> events, SizeOrShare memory = {.bytes = 1U << 30U}) const {
    Config config;
    config.memory_max = memory;
    config.channels = {channel("x", kMiB, std::move(events))};
    return plan_recording(config, sources_, features_, 2, {cpu_});
  }
  EventSources sources_;
  KernelFeatures features_;
  int cpu_ = 0;
};

TEST_F(Plan, KeepsNamesFiltersAndFormats) {
  const auto made = plan({{.event = "sched:sched_switch", .filter = "prev_prio < 100"}, {.event = "cpu-clock:u"}});
  ASSERT_TRUE(made) << made.error().what;
  const ChannelPlan& x = made->channels[0];
  ASSERT_THAT(x.events, SizeIs(2));
  EXPECT_EQ(x.events[0].name, "sched:sched_switch");
  EXPECT_EQ(x.events[0].filter, "prev_prio < 100");
  EXPECT_EQ(x.events[1].name, "cpu-clock:u");
  EXPECT_EQ(x.events[1].attr.exclude_kernel, 1U);
  EXPECT_THAT(made->tracepoint_formats.at("sched:sched_switch"), HasSubstr("prev_prio"));
  EXPECT_THAT(made->header_page, HasSubstr("timestamp"));
  EXPECT_THAT(made->warnings, IsEmpty());
}

TEST_F(Plan, TheSidebandIsAsConfigured) {
  Config config;
  config.memory_max = {.bytes = 44U << 20U};
  config.channels = {channel("x", 4 * kMiB, {{.event = "cpu-clock"}})};
  config.sideband_ring_bytes = 8 * kMiB;
  const auto made = plan_recording(config, sources_, features_, 2, {cpu_});
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->sideband_ring_bytes, 8 * kMiB);
  config.sideband_ring_bytes.reset();
  const auto automatic = plan_recording(config, sources_, features_, 2, {cpu_});
  ASSERT_TRUE(automatic) << automatic.error().what;
  EXPECT_EQ(automatic->sideband_ring_bytes, 2 * kMiB);
  EXPECT_GT(automatic->channels[0].ring_bytes, made->channels[0].ring_bytes) << "it is a part of memory.max";
}

// Without a PMU cpu-clock replaces cycles; with a PMU cycles stay. Each result is correct on its machine.
TEST_F(Plan, FallsBackToCpuClockWhereThereIsNoPmu) {
  const auto made = plan(
      {{.event = "cycles:u", .frequency = 199, .stack = true}, {.event = "cycles:u", .frequency = 199, .stack = true}});
  ASSERT_TRUE(made) << made.error().what;
  const ChannelPlan& x = made->channels[0];
  if (features_.hardware_pmu) {
    EXPECT_EQ(x.events[0].name, "cycles:u");
    EXPECT_THAT(x.notes, IsEmpty());
    return;
  }
  ASSERT_THAT(x.events, SizeIs(2)) << "each keeps its place";
  EXPECT_FALSE(is_omitted(x.events[0]));
  EXPECT_TRUE(is_omitted(x.events[1])) << "twice the same clock says nothing more";
  EXPECT_EQ(x.events[1].attr.config, PERF_COUNT_SW_DUMMY);
  EXPECT_EQ(x.events[1].configured, "cycles:u");
  EXPECT_EQ(x.events[0].name, "cpu-clock:u");
  EXPECT_EQ(x.events[0].attr.type, PERF_TYPE_SOFTWARE);
  EXPECT_EQ(x.events[0].attr.config, PERF_COUNT_SW_CPU_CLOCK);
  EXPECT_EQ(x.events[0].attr.sample_freq, 199U);
  EXPECT_EQ(x.events[0].attr.exclude_kernel, 1U);
  EXPECT_NE(x.events[0].attr.sample_type & PERF_SAMPLE_CALLCHAIN, 0U);
  EXPECT_EQ(x.events[0].configured, "cycles:u");
  std::vector<std::string> warnings, notes;
  for (const EventPlan& event : x.events) add_replaced_text(x, event, warnings, notes);
  EXPECT_THAT(warnings, IsEmpty()) << "a fact of the machine";
  EXPECT_THAT(notes, ElementsAre(HasSubstr("cpu-clock:u is recorded instead"),
                                 HasSubstr("and the channel already has cpu-clock:u: it is omitted")));
  // A period in cycles is not one in nanoseconds: 1000 of them would be a million samples a second.
  const auto with_period = plan({{.event = "cycles", .period = 1000}});
  ASSERT_TRUE(with_period);
  EXPECT_EQ(with_period->channels[0].events[0].attr.freq, 1U);
  EXPECT_EQ(with_period->channels[0].events[0].attr.sample_freq, 99U);
}

// A frequency event keeps the tick on all of these CPUs.
TEST_F(Plan, CpusWithoutTickAreSampledByCpuClock) {
  const std::string sysfs = fmt::format("/tmp/flight-plan-{}", ::getpid());
  const std::string file = sysfs + "/devices/system/cpu/nohz_full";
  std::filesystem::create_directories(sysfs + "/devices/system/cpu");
  sources_.sysfs = sysfs;
  const std::vector<EventConfig> events{{.event = "cycles", .frequency = 99},
                                        {.event = "page-faults", .frequency = 50},
                                        {.event = "context-switches", .period = 100},
                                        {.event = "task-clock", .frequency = 50}};
  for (const char* none : {"", "\n", " (null)\n"}) {
    std::ofstream(file) << none;
    const auto made = plan(events);
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_THAT(made->channels[0].events[0].replaced.why, Not(HasSubstr("nohz_full")));
    EXPECT_THAT(made->channels[0].notes, IsEmpty());
  }
  std::ofstream(file) << "2-3,5\n";
  const auto made = plan(events);
  std::filesystem::remove_all(sysfs);
  ASSERT_TRUE(made) << made.error().what;
  const ChannelPlan& x = made->channels[0];
  ASSERT_THAT(x.events, SizeIs(4));
  EXPECT_EQ(x.events[0].name, "cpu-clock");
  EXPECT_EQ(x.events[0].configured, "cycles");
  EXPECT_THAT(x.events[0].replaced.why,
              AllOf(StartsWith("cycles "), HasSubstr("tick"), HasSubstr(" CPUs 2-3,5 "), EndsWith("(nohz_full)")));
  EXPECT_TRUE(x.events[0].replaced.expected);
  EXPECT_THAT(x.events[0].left_out, ElementsAre(2, 3, 5));
  EXPECT_THAT(x.events[3].left_out, IsEmpty()) << "it was configured";
  EXPECT_THAT(x.notes, ElementsAre(HasSubstr("page-faults has a frequency")));
}

TEST_F(Plan, RefusesWhatCannotBeRecorded) {
  EXPECT_THAT(plan({{.event = "sched:sched_swich"}}).error().what, HasSubstr("channel 'x'"));
  EXPECT_THAT(plan({{.event = "sched:sched_swich"}}).error().what, HasSubstr("sched:sched_switch"));
  EXPECT_THAT(plan({{.event = "cpu-clock", .filter = "a == 1"}}).error().what, HasSubstr("only tracepoints"));
  sources_.tracefs.clear();
  EXPECT_THAT(plan({{.event = "sched:sched_switch"}}).error().what, HasSubstr("mount"));
  EXPECT_TRUE(plan({{.event = "cpu-clock"}})) << "which needs no tracefs";
}

TEST_F(Plan, SaysWhichRingsItHalved) {
  const auto halved = plan({{.event = "cpu-clock"}}, {.bytes = kLeastBeside + 2 * (kMiB + kMiB)});
  ASSERT_TRUE(halved);
  EXPECT_EQ(halved->channels[0].ring_bytes, kMiB / 2);
  ASSERT_THAT(halved->warnings, SizeIs(1));
  EXPECT_THAT(halved->warnings[0], HasSubstr("channel 'x' have 512.0K instead of 1.0M"));
  const auto least = plan({{.event = "cpu-clock"}}, {.bytes = 1});
  EXPECT_EQ(least->channels[0].ring_bytes, kLeastRingBytes);
  EXPECT_THAT(least->warnings, testing::Contains(HasSubstr("raise memory.max")));
}

TEST_F(Plan, SaysWhichRingsAreShortForCopiedStacks) {
  features_.copies_stacks = true;
  std::vector<EventConfig> events{{.event = "cpu-clock", .frequency = 99, .stack = true, .stack_bytes = 12288}};
  const auto small = plan(events);
  ASSERT_TRUE(small) << small.error().what;
  EXPECT_EQ(small->channels[0].events[0].attr.sample_stack_user, 12288U);
  EXPECT_THAT(small->warnings,
              ElementsAre(AllOf(HasSubstr("rings of 1.0M hold 0.8 s of samples"), HasSubstr("make `ring` 4.0M"))));
  events[0].frequency = 9;
  EXPECT_THAT(plan(events)->warnings, IsEmpty());
  events[0].stack_bytes = 0;
  events[0].frequency = 999;
  EXPECT_THAT(plan(events)->warnings, IsEmpty()) << "callchains are small";
}

// Also where cpu-clock takes the place of an event with a period.
TEST_F(Plan, AnotherEventCopiesStacksAsWell) {
  features_.copies_stacks = true;
  const auto made = plan({{.event = "cycles", .period = 1'000'000, .stack = true, .stack_bytes = 4096}});
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->channels[0].events[0].attr.sample_stack_user, 4096U);
}

}  // namespace
}  // namespace flight
