// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/event_rates.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace flight::daemon {
namespace {

constexpr double kRecordBytes = 100;

ChannelFlow split(const std::vector<RingFlow>& rings, double most_sampled) {
  return split_flow(rings, kRecordBytes, most_sampled);
}

TEST(EventRates, SamplesAreWhatIsNotCounted) {
  const ChannelFlow flow = split(
      {{.bytes_per_second = 9'900, .counted_per_second = 0}, {.bytes_per_second = 2'500, .counted_per_second = 5}}, 99);
  EXPECT_NEAR(flow.sampled_per_second, 99 + 20, 0.01);
  EXPECT_NEAR(flow.sampled_bytes, 9'900 + 2'000, 0.01);
  EXPECT_NEAR(flow.counted_bytes, 500, 0.01);
}

// Records of 90 bytes were taken for 100: in an earlier version nothing was left for the samples, and the status showed
// 0.0 a second.
TEST(EventRates, AFloodLeavesTheSamplesTheirFrequency) {
  const ChannelFlow flow = split({{.bytes_per_second = 50'099 * 90, .counted_per_second = 50'000}}, 99);
  EXPECT_NEAR(flow.sampled_per_second, 99, 0.01);
  EXPECT_NEAR(flow.sampled_bytes, 99 * 90, 0.01);
  EXPECT_NEAR(flow.counted_bytes, 50'000 * 90, 0.01);
}

// The bytes are those of the last 10 s, the counts those since the last status: a flood that has just begun.
TEST(EventRates, NoMoreSamplesThanTheFrequency) {
  const ChannelFlow flow = split({{.bytes_per_second = 5'000'000, .counted_per_second = 10}}, 99);
  EXPECT_NEAR(flow.sampled_per_second, 99, 0.01);
  EXPECT_NEAR(flow.sampled_bytes + flow.counted_bytes, 5'000'000, 0.01);
}

TEST(EventRates, OnlyOnTheCpuThatIsFlooded) {
  const RingFlow idle{.bytes_per_second = 80, .counted_per_second = 1};  // a smaller record than most
  const ChannelFlow flow = split({{.bytes_per_second = 50'099 * 90, .counted_per_second = 50'000}, idle}, 99);
  EXPECT_NEAR(flow.sampled_per_second, 99, 0.01);
}

TEST(EventRates, WithoutSamplingEventsAllBytesAreCounted) {
  const ChannelFlow flow = split({{.bytes_per_second = 12'345, .counted_per_second = 3}}, 0);
  EXPECT_EQ(flow.sampled_per_second, 0);
  EXPECT_EQ(flow.sampled_bytes, 0);
  EXPECT_NEAR(flow.counted_bytes, 12'345, 0.01);
}

TEST(EventRates, NothingIsWrittenWhereNothingIsCounted) {
  const ChannelFlow flow = split({{}, {}}, 99);
  EXPECT_EQ(flow.sampled_per_second, 0);
  EXPECT_EQ(flow.sampled_bytes, 0);
  EXPECT_EQ(flow.counted_bytes, 0);
  EXPECT_EQ(split({}, 0).counted_bytes, 0);
}

}  // namespace
}  // namespace flight::daemon
