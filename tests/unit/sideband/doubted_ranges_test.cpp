// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/doubted_ranges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace flight {
namespace {

bool is_covered(const std::vector<DoubtedRange>& recorded, std::uint64_t address, EventTime time_ns) {
  return std::any_of(recorded.begin(), recorded.end(), [&](const DoubtedRange& one) {
    return one.address <= address && address < one.end && one.first_ns <= time_ns;
  });
}

TEST(DoubtedRanges, TheNearestBecomeOne) {
  DoubtedRanges ranges;
  for (std::uint64_t i = 0; i < DoubtedRanges::kMost; ++i) ranges.add(i << 32U, (i << 32U) + 0x1000, 10 + i);
  ranges.add((3ULL << 32U) + 0x2000, (3ULL << 32U) + 0x3000, 5);
  ranges.add(0x1000, 0x2000, 50);  // beside the first
  const auto recorded = ranges.take_new();
  ASSERT_EQ(recorded.size(), DoubtedRanges::kMost);
  EXPECT_EQ(recorded[0].end, 0x2000U);
  EXPECT_EQ(recorded[0].last_ns, 50U);
  EXPECT_EQ(recorded[3].address, 3ULL << 32U);
  EXPECT_EQ(recorded[3].end, (3ULL << 32U) + 0x3000);
  EXPECT_EQ(recorded[3].first_ns, 5U);
  EXPECT_EQ(recorded[4].end, (4ULL << 32U) + 0x1000);
  EXPECT_TRUE(ranges.take_new().empty());
}

TEST(DoubtedRanges, WhatWasRecordedIsReturnedAgainOnlyIfItIsNews) {
  DoubtedRanges ranges;
  ranges.add(0x1000, 0x5000, 10);
  EXPECT_EQ(ranges.take_new().size(), 1U);
  ranges.add(0x2000, 0x3000, 20);
  EXPECT_TRUE(ranges.take_new().empty());
  ranges.add(0x2000, 0x3000, 9);  // older: read later
  EXPECT_EQ(ranges.take_new().size(), 1U);
  ranges.add(0x4000, 0x6000, 20);
  EXPECT_EQ(ranges.take_new().size(), 1U);
  ranges.forget_recorded();
  ranges.add(0x2000, 0x3000, 30);
  EXPECT_EQ(ranges.take_new().size(), 1U);
}

TEST(DoubtedRanges, WhatIsKnownAgainEndsThem) {
  DoubtedRanges ranges;
  ranges.add(0x1000, 0x5000, 10);
  EXPECT_EQ(ranges.take_new().size(), 1U);
  EXPECT_TRUE(ranges.end(0x8000, 0x9000, 20).empty());
  EXPECT_TRUE(ranges.end(0x2000, 0x3000, 20).empty());
  ranges.add(0x2000, 0x3000, 30);
  EXPECT_EQ(ranges.take_new().size(), 1U) << "what was known at 20 is not there any more";
  ranges.add(0x2000, 0x3000, 50);
  EXPECT_TRUE(ranges.doubts(0x2000, 0x9000, 40)) << "one was dropped at 50";
  EXPECT_FALSE(ranges.doubts(0x2000, 0x9000, 50));
  EXPECT_TRUE(ranges.end(0x2000, 0x9000, 40).empty());
  const auto later = ranges.take_new();
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].address, 0x2000U);
  EXPECT_EQ(later[0].end, 0x3000U);
  EXPECT_EQ(later[0].first_ns, 41U);
  // Not recorded yet: also unknown in the time before.
  ranges.add(0x1000, 0x2000, 60);
  const auto before = ranges.end(0, ~0ULL, 70);
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0].first_ns, 60U);
  EXPECT_TRUE(ranges.take_new().empty());
}

TEST(DoubtedRanges, EveryDroppedMappingIsInARange) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    DoubtedRanges ranges;
    std::vector<DoubtedRange> dropped, recorded;
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t address = (random() % 60 << (random() % 3 * 10)) * 0x1000;
      const std::uint64_t end = address + (1 + random() % 4) * 0x1000;
      const EventTime time_ns = 100 + 10 * i + random() % 50;
      ranges.add(address, end, time_ns);
      dropped.push_back({.address = address, .end = end, .first_ns = time_ns, .last_ns = time_ns});
      if (random() % 60 != 0 && i != 499) continue;
      const auto some = ranges.take_new();
      EXPECT_LE(some.size(), DoubtedRanges::kMost);
      recorded.insert(recorded.end(), some.begin(), some.end());
    }
    for (const DoubtedRange& one : dropped)
      for (std::uint64_t page = one.address; page < one.end; page += 0x1000)
        ASSERT_TRUE(is_covered(recorded, page, one.first_ns)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace flight
