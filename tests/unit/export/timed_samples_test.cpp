// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/timed_samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace flight {
namespace {

CountedSample timed_sample(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, std::uint32_t node = 1) {
  return {.time_ns = time_ns, .pid = pid, .tid = tid, .node = node, .process = pid + 100, .unit = node, .weight = 10};
}

TEST(TimedSamples, ByThreadTheBusiestFirst) {
  TimedSamples samples;
  samples.add(timed_sample(30, 7, 8, 3));
  samples.add(timed_sample(20, 7, 7));
  samples.add(timed_sample(10, 7, 8, 2));
  samples.add(timed_sample(40, 9, 8));
  samples.arrange(10);
  ASSERT_EQ(samples.threads().size(), 3U);
  EXPECT_EQ(samples.threads()[0].tid, 8U);
  EXPECT_EQ(samples.threads()[0].pid, 7U);
  EXPECT_EQ(samples.threads()[0].samples, 2U);
  EXPECT_EQ(samples.threads()[0].node, 3U) << "its newest one, in whatever order they come";
  EXPECT_EQ(samples.threads()[1].tid, 7U) << "as they came";
  EXPECT_EQ(samples.threads()[2].pid, 9U) << "another process with the same number of a thread";
  ASSERT_EQ(samples.samples().size(), 4U);
  EXPECT_EQ(samples.samples()[0].time_ns, 10U);
  EXPECT_EQ(samples.samples()[1].time_ns, 30U);
  EXPECT_TRUE(std::is_sorted(samples.samples().begin(), samples.samples().end(),
                             [](const auto& a, const auto& b) { return a.thread < b.thread; }));
}

TEST(TimedSamples, ThreadsOverALimitAreOne) {
  for (const bool when_they_come : {true, false}) {
    TimedSamples samples(1000, when_they_come ? 3 : 100);
    for (std::uint32_t tid = 1; tid <= 10; ++tid)
      for (std::uint32_t i = 0; i < 20 - tid; ++i) samples.add(timed_sample(1000 - i, 5, tid));
    samples.arrange(when_they_come ? 100 : 3);
    ASSERT_EQ(samples.threads().size(), 4U);
    std::uint64_t sum = 0;
    for (const TimedSamples::Thread& thread : samples.threads()) sum += thread.samples;
    EXPECT_EQ(sum, samples.samples().size());
    EXPECT_EQ(samples.threads()[0].samples, 19U);
    EXPECT_FALSE(samples.threads()[3].known);
    EXPECT_EQ(samples.left_out(), 0U);
    for (std::size_t i = 1; i < samples.samples().size(); ++i) {
      const TimedSamples::Sample &before = samples.samples()[i - 1], &sample = samples.samples()[i];
      EXPECT_TRUE(before.thread < sample.thread ||
                  (before.thread == sample.thread && before.time_ns <= sample.time_ns));
    }
  }
}

TEST(TimedSamples, CountsWhatIsLeftOut) {
  TimedSamples samples(5, 10);
  for (std::uint32_t i = 0; i < 9; ++i) samples.add(timed_sample(i, 1, 1));
  samples.arrange(10);
  EXPECT_EQ(samples.samples().size(), 5U);
  EXPECT_EQ(samples.left_out(), 4U);
  ASSERT_EQ(samples.threads().size(), 1U);
  TimedSamples none;
  none.arrange(10);
  EXPECT_TRUE(none.threads().empty());
}

}  // namespace
}  // namespace flight
