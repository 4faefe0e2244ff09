// SPDX-License-Identifier: Apache-2.0
// The walk's order: a ring is only nearly sorted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/perf/ring_image.hpp"

namespace flight::test {
namespace {

using ::testing::ElementsAre;

struct Written {
  EventTime time_ns;
  std::uint64_t serial;
};

// The expected result of the walk: sorted by time, and equal times in the order of writing.
std::vector<std::uint64_t> in_order(std::vector<Written> written) {
  std::stable_sort(written.begin(), written.end(),
                   [](const Written& a, const Written& b) { return a.time_ns < b.time_ns; });
  std::vector<std::uint64_t> all;
  all.reserve(written.size());
  for (const Written& record : written) all.push_back(record.serial);
  return all;
}

void expect_order(const std::vector<Written>& written, std::size_t ring_bytes) {
  FakeRing ring(ring_bytes);
  for (const Written& record : written) ring.write(sample(record.time_ns, record.serial));
  ASSERT_LE(ring.written(), ring_bytes);
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_EQ(serials(ring.image(), walk), in_order(written));
}

TEST(RingOrder, EqualTimesKeepTheRingsOrder) {
  std::vector<Written> written;
  for (std::uint64_t i = 1; i <= 500; ++i) written.push_back({1000 + i / 7, i});
  expect_order(written, 65536);
}

TEST(RingOrder, SmallInversionsAreMended) {
  FakeRing ring(4096);
  ring.write(sample(100, 1));
  ring.write(sample(300, 3));
  ring.write(sample(200, 2));
  ring.write(sample(300, 4));
  ring.write(sample(100, 5));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_THAT(serials(ring.image(), walk), ElementsAre(1, 5, 2, 3, 4));
}

// The real case: sometimes a record's time is milliseconds, that is thousands of records, behind.
TEST(RingOrder, ALateRecordTravelsFar) {
  std::vector<Written> written;
  for (std::uint64_t i = 1; i <= 10000; ++i) written.push_back({1000 * i - (i % 997 == 0 ? 3'000'000 : 0), i});
  written.front().time_ns = 5'000'000;
  for (Written& record : written) record.time_ns += 10'000'000;
  expect_order(written, 1U << 20U);
}

// More than the budget of single moves: everything backwards, and everything at random.
TEST(RingOrder, ReversedAndRandomTimesAreSortedStably) {
  std::vector<Written> reversed;
  for (std::uint64_t i = 1; i <= 5000; ++i) reversed.push_back({100000 - i / 3, i});
  expect_order(reversed, 1U << 19U);
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Written> shuffled;
    for (std::uint64_t i = 1; i <= 1000; ++i) shuffled.push_back({random() % (1U << (1 + round % 20)), i});
    expect_order(shuffled, 65536);
  }
}

TEST(RingOrder, ExtremeTimes) {
  FakeRing ring(4096);
  ring.write(sample(~std::uint64_t{0}, 1));
  ring.write(sample(0, 2));
  ring.write(sample(~std::uint64_t{0}, 3));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_THAT(serials(ring.image(), walk), ElementsAre(2, 1, 3));
}

}  // namespace
}  // namespace flight::test
