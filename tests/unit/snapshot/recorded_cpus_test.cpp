// SPDX-License-Identifier: Apache-2.0
// Channels that do not record all CPUs: what the sidecar says of them, and which samples count.
#include "libcore/snapshot/recorded_cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <utility>

namespace flight {
namespace {

using testing::IsEmpty;

class RecordedCpus : public testing::Test {
 protected:
  RecordedCpus() { manifest_.events.resize(1); }  // the sideband's
  void add(const std::string& channel, std::uint64_t software_event, std::vector<int> cpus, bool sampled = true) {
    ManifestEvent& event = manifest_.events.emplace_back();
    event.channel = channel;
    event.attr.type = PERF_TYPE_SOFTWARE;
    event.attr.config = software_event;
    event.attr.freq = sampled ? 1 : 0;
    event.attr.sample_freq = 99;
    if (!cpus.empty()) manifest_.channels.push_back({.name = channel, .cpus = cpus, .recorded = cpus});
  }
  [[nodiscard]] Sidecar described() const {
    Sidecar sidecar;
    describe_cpus(manifest_, sidecar);
    return sidecar;
  }
  Manifest manifest_;
};

TEST_F(RecordedCpus, AllAreNotNamed) {
  add("stacks", PERF_COUNT_SW_CPU_CLOCK, {});
  manifest_.channels = {{.name = "stacks", .cpus = {0, 1}, .recorded = {}}};  // of a machine that has these two
  EXPECT_THAT(described().channel_cpus, IsEmpty());
  EXPECT_EQ(described().top_cpus, "");
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true}));
}

TEST_F(RecordedCpus, ThoseOfTheSamplingChannelsAreCounted) {
  add("net", PERF_COUNT_SW_CPU_CLOCK, {0, 1, 2, 3, 8});
  add("switches", PERF_COUNT_SW_CONTEXT_SWITCHES, {}, false);
  const Sidecar sidecar = described();
  ASSERT_EQ(sidecar.channel_cpus.size(), 1U);
  EXPECT_EQ(sidecar.channel_cpus[0].channel, "net");
  EXPECT_EQ(sidecar.channel_cpus[0].cpus, "0-3,8");
  EXPECT_EQ(sidecar.top_cpus, "0-3,8") << "switches of the other CPUs are no shares of CPU time";
  add("faults", PERF_COUNT_SW_PAGE_FAULTS, {});
  EXPECT_EQ(described().top_cpus, "0-3,8") << "nor are page faults";
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, false, true}));
  add("rest", PERF_COUNT_SW_CPU_CLOCK, {4, 5});
  EXPECT_EQ(described().top_cpus, "0-5,8") << "both count";
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, false, true, true}));
}

TEST_F(RecordedCpus, WithoutASamplingEventAllChannelsCount) {
  add("switches", PERF_COUNT_SW_CONTEXT_SWITCHES, {2}, false);
  EXPECT_EQ(described().top_cpus, "2");
  add("faults", PERF_COUNT_SW_PAGE_FAULTS, {}, false);
  EXPECT_EQ(described().top_cpus, "");
}

// The samples of both would make a process on CPU 0 look twice as busy.
TEST_F(RecordedCpus, ACpuThatIsSampledTwiceCountsOnce) {
  add("fast", PERF_COUNT_SW_CPU_CLOCK, {0});
  add("stacks", PERF_COUNT_SW_CPU_CLOCK, {});
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(described().top_cpus, "");
  manifest_.channels.push_back({.name = "stacks", .cpus = {0, 1}, .recorded = {0, 1}});
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(described().top_cpus, "0-1");
  manifest_.channels.back().recorded = {0};
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, true})) << "the same CPUs, as without lists";
  manifest_.channels.back().recorded = {1, 2};
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(described().top_cpus, "0-2");
}

// As cpu-clock in place of a counter that the machine does not have, with nohz_full 2-3.
TEST_F(RecordedCpus, AnEventDoesNotSampleWhatItLeavesOut) {
  for (const int cpu : {0, 1, 2, 3}) manifest_.rings.emplace_back().cpu = cpu;
  add("stacks", PERF_COUNT_SW_CPU_CLOCK, {});
  manifest_.events[1].left_out = {2, 3};
  EXPECT_EQ(described().top_cpus, "0-1");
  EXPECT_THAT(described().channel_cpus, IsEmpty()) << "nothing is configured";
  add("isolated", PERF_COUNT_SW_CPU_CLOCK, {2, 3});
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, true})) << "nothing else samples these CPUs";
  EXPECT_EQ(described().top_cpus, "");
  manifest_.events[1].left_out = {8};
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(described().top_cpus, "") << "there is no CPU 8";
}

// Its samples in the ring are older than those of the event that took its place.
TEST_F(RecordedCpus, AClosedEventDisplacesNone) {
  for (const int cpu : {0, 1, 2, 3}) manifest_.rings.emplace_back().cpu = cpu;
  add("stacks", PERF_COUNT_SW_CPU_CLOCK, {});
  manifest_.events[1].closed = true;
  add("stacks", PERF_COUNT_SW_CPU_CLOCK, {});
  manifest_.events[2].left_out = {2, 3};
  add("isolated", PERF_COUNT_SW_CPU_CLOCK, {2});
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(described().top_cpus, "0-2") << "CPU 3 is no longer sampled";
  std::swap(manifest_.events[1].left_out, manifest_.events[2].left_out);
  EXPECT_EQ(events_that_sample(manifest_), (std::vector<bool>{false, true, true, false}));
}

// Two lists of which neither includes the other.
TEST_F(RecordedCpus, ACpuOfTwoListsCountsOnce) {
  add("low", PERF_COUNT_SW_CPU_CLOCK, {0, 1});
  add("high", PERF_COUNT_SW_CPU_CLOCK, {1, 2});
  add("faults", PERF_COUNT_SW_PAGE_FAULTS, {2, 3, 4});
  const std::vector<bool> low{false, true, false, false}, high{false, false, true, false},
      high_and_faults{false, false, true, true}, faults{false, false, false, true}, none(4);
  {
    const SamplingEvents sampling(manifest_);
    EXPECT_EQ(sampling.on(0), low);
    EXPECT_EQ(sampling.on(1), low) << "as many CPUs: the list that begins first";
    EXPECT_EQ(sampling.on(2), high_and_faults) << "page faults are no CPU time, and more CPUs are recorded of them";
    EXPECT_EQ(sampling.on(3), faults);
    EXPECT_EQ(sampling.on(9), none);
    EXPECT_EQ(sampling.anywhere(), (std::vector<bool>{false, true, true, true}));
    EXPECT_EQ(described().top_cpus, "0-2");
  }
  manifest_.channels[1].recorded = {1, 2, 5, 6};
  const SamplingEvents sampling(manifest_);
  EXPECT_EQ(sampling.on(0), low);
  EXPECT_EQ(sampling.on(1), high) << "more CPUs";
  EXPECT_EQ(sampling.on(2), high);
}

}  // namespace
}  // namespace flight
