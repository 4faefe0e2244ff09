// SPDX-License-Identifier: Apache-2.0
// The walk over images built in memory. The reference is the list of written records.
#include "libcore/perf/ring_walk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "tests/unit/perf/ring_image.hpp"

namespace flight::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kRingBytes = 4096;

// The serial numbers from `first` to `last`.
std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> all(last + 1 - first);
  std::iota(all.begin(), all.end(), first);
  return all;
}

TEST(RingWalk, AnEmptyRingHasNothing) {
  const FakeRing ring(kRingBytes);
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_THAT(walk.records, IsEmpty());
  EXPECT_EQ(walk.bad_records, 0U);
  EXPECT_FALSE(walk.wrapped);
}

TEST(RingWalk, ARingThatHasNotWrappedEndsAtTheNeverWrittenArea) {
  FakeRing ring(kRingBytes);
  for (std::uint64_t i = 1; i <= 10; ++i) ring.write(sample(100 * i, i));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_EQ(serials(ring.image(), walk), numbers(1, 10));
  EXPECT_EQ(walk.samples, 10U);
  EXPECT_FALSE(walk.wrapped);
  EXPECT_EQ(walk.torn_bytes, 0U);
  EXPECT_EQ(walk.records.front().time_ns, 100U);
  EXPECT_EQ(walk.records.front().type, PERF_RECORD_SAMPLE);
  EXPECT_EQ(walk.records.front().size, 56U);
}

// Bytes above the first record ever written come from an earlier use of the memory.
TEST(RingWalk, InTheFirstRevolutionTheHeadSaysWhereTheRingBegan) {
  FakeRing ring(kRingBytes);
  const std::vector<std::byte> dirt(kRingBytes, std::byte{0x5a});
  ring.bytes() = dirt;
  for (std::uint64_t i = 1; i <= 3; ++i) ring.write(sample(100 * i, i));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_EQ(serials(ring.image(), walk), numbers(1, 3));
  EXPECT_EQ(walk.bad_records, 0U);
  EXPECT_FALSE(walk.wrapped);
}

TEST(RingWalk, ExactlyFullIsNotYetWrapped) {
  FakeRing ring(kRingBytes);
  for (std::uint64_t i = 1; i <= kRingBytes / 64; ++i) ring.write(sample(i, i, 64));
  const auto full = walk_ring(ring.image(), one_event());
  EXPECT_EQ(serials(ring.image(), full), numbers(1, kRingBytes / 64));
  EXPECT_FALSE(full.wrapped);
  ring.write(sample(1000, 65, 64));
  const auto wrapped = walk_ring(ring.image(), one_event());
  EXPECT_EQ(serials(ring.image(), wrapped), numbers(2, 65));
  EXPECT_TRUE(wrapped.wrapped);
  EXPECT_EQ(wrapped.torn_bytes, 0U);
}

// Every 8-byte position of the head in the image, for record sizes that do and do not divide it. The test computes the
// expected records itself: the newest that fit completely, and the count of torn bytes.
TEST(RingWalk, WrapsAtEveryOffset) {
  const auto events = one_event();
  for (const std::size_t size : {56U, 64U, 72U, 136U, 1000U}) {
    for (std::size_t shift = 0; shift < kRingBytes; shift += 8) {
      FakeRing ring(kRingBytes);
      // A first record that moves the head by `shift` (modulo the ring), then more than two revolutions.
      ring.write(sample(1, 0, 56 + (shift + kRingBytes - 56) % kRingBytes));
      const std::uint64_t count = 2 * kRingBytes / size + 3;
      for (std::uint64_t i = 1; i <= count; ++i) ring.write(sample(100 * i, i, size));
      const auto walk = walk_ring(ring.image(), events);
      ASSERT_EQ(serials(ring.image(), walk), numbers(count + 1 - kRingBytes / size, count)) << size << " at " << shift;
      ASSERT_EQ(walk.torn_bytes, kRingBytes % size) << size << " at " << shift;
      ASSERT_EQ(walk.bad_records + walk.unknown_ids, 0U);
      ASSERT_TRUE(walk.wrapped);
    }
  }
}

// A record that wraps has the bytes that were written, at every split.
TEST(RingWalk, ARecordAcrossTheEndIsWhole) {
  const auto events = one_event();
  std::vector<std::byte> scratch(65536);
  for (std::size_t shift = 0; shift < 256; shift += 8) {
    FakeRing ring(kRingBytes);
    ring.write(sample(1, 0, 56 + shift));
    std::deque<std::vector<std::byte>> written;
    for (std::uint64_t i = 1; i <= 100; ++i) {
      auto record = sample(100 * i, i, 200);
      for (std::size_t b = sizeof(SampleHead); b < record.size(); ++b) record[b] = static_cast<std::byte>(b * i);
      ring.write(record);
      written.push_back(std::move(record));
    }
    const auto walk = walk_ring(ring.image(), events);
    ASSERT_EQ(walk.records.size(), kRingBytes / 200);
    written.erase(written.begin(), written.end() - static_cast<std::ptrdiff_t>(walk.records.size()));
    for (std::size_t i = 0; i < walk.records.size(); ++i) {
      const auto bytes = record_bytes(ring.image(), walk.records[i], scratch);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), written[i].begin(), written[i].end())) << shift;
    }
  }
}

TEST(RingWalk, TheOldestIsTornAndDropped) {
  FakeRing ring(kRingBytes);
  for (std::uint64_t i = 1; i <= 200; ++i) ring.write(sample(100 * i, i, 72));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_EQ(walk.records.size(), 56U);  // 4096 / 72
  EXPECT_EQ(walk.torn_bytes, 4096U % 72U);
  EXPECT_EQ(walk.bad_records, 0U);
}

// A live capture drops the oldest end: the record across the cut is torn, at any cut.
TEST(RingWalk, EndsWhereTheValidBytesEnd) {
  FakeRing ring(kRingBytes);
  for (std::uint64_t i = 1; i <= 100; ++i) ring.write(sample(100 * i, i, 64));
  for (std::uint64_t valid = 0; valid <= kRingBytes; ++valid) {
    RingImage image = ring.image();
    image.valid_bytes = valid;
    const auto walk = walk_ring(image, one_event());
    const std::uint64_t whole = valid / 64;
    ASSERT_EQ(serials(image, walk), numbers(101 - whole, 100)) << valid;
    ASSERT_EQ(walk.torn_bytes, (valid & ~std::uint64_t{7}) % 64) << valid;
    ASSERT_EQ(walk.bad_records, 0U) << valid;
    ASSERT_TRUE(walk.wrapped);
  }
}

TEST(RingWalk, AnEndGivenUpInTheFirstRevolutionIsHistoryLost) {
  FakeRing ring(kRingBytes);
  for (std::uint64_t i = 1; i <= 10; ++i) ring.write(sample(100 * i, i, 64));
  RingImage image = ring.image();
  image.valid_bytes = 256;
  const auto cut = walk_ring(image, one_event());
  EXPECT_EQ(serials(image, cut), numbers(7, 10));
  EXPECT_TRUE(cut.wrapped);
  image.valid_bytes = 640;
  EXPECT_FALSE(walk_ring(image, one_event()).wrapped);
}

TEST(RingWalk, UnknownIdsAreDroppedAndCounted) {
  FakeRing ring(kRingBytes);
  ring.write(sample(100, 1));
  ring.write(sample(200, 99, 56, 4711));
  ring.write(sample(300, 2));
  ring.write(sample(400, 99, 56, 0));
  ring.write(sample(500, 3, 56, kId));
  ring.write(sample(600, 99, 56, kId + 64));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_THAT(serials(ring.image(), walk), ElementsAre(1, 2, 3));
  EXPECT_EQ(walk.unknown_ids, 3U);
  EXPECT_EQ(walk.samples, 3U);
  EXPECT_EQ(walk.bad_records, 0U);
}

// Events of one ring may have different sample_types. Each record's time is where its own event puts it.
TEST(RingWalk, EachEventHasItsOwnLayout) {
  EventTable events;
  events.add_id(kId, events.add_event(kSampleType));
  events.add_id(5, events.add_event(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME));
  FakeRing ring(kRingBytes);
  struct Short {
    perf_event_header header{PERF_RECORD_SAMPLE, 0, sizeof(Short)};
    std::uint64_t id = 5, time_ns = 200;
  };
  struct Throttle {
    perf_event_header header{PERF_RECORD_THROTTLE, 0, sizeof(Throttle)};
    std::uint64_t time_ns = 7, event = 8, stream = 9;
    std::uint64_t trailer_time_ns = 300, trailer_id = 5;
  };
  ring.write(sample(100, 1));
  ring.write(bytes_of(Short{}));
  ring.write(bytes_of(Throttle{}));
  const auto walk = walk_ring(ring.image(), events);
  ASSERT_EQ(walk.records.size(), 3U);
  EXPECT_EQ(walk.samples, 2U);
  EXPECT_EQ(walk.records[0].time_ns, 100U);
  EXPECT_EQ(walk.records[1].time_ns, 200U);
  EXPECT_EQ(walk.records[2].time_ns, 300U);
  EXPECT_EQ(walk.records[2].type, PERF_RECORD_THROTTLE);
}

TEST(RingWalk, LostRecordsAreKept) {
  FakeRing ring(kRingBytes);
  ring.write(sample(100, 1));
  ring.write(lost_record(200, 42));
  ring.write(sample(200, 2));
  const auto walk = walk_ring(ring.image(), one_event());
  ASSERT_EQ(walk.records.size(), 3U);
  EXPECT_EQ(walk.samples, 2U);
  ASSERT_EQ(walk.records[1].type, PERF_RECORD_LOST);
  const auto lost = lost_fields(record_bytes(ring.image(), walk.records[1], {}));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->lost, 42U);
  EXPECT_EQ(lost->id, kId);
}

TEST(RecordBytes, RefusesWhatDoesNotFit) {
  const FakeRing ring(kRingBytes);
  std::vector<std::byte> scratch(65536);
  EXPECT_THAT(record_bytes(ring.image(), {0, kRingBytes, 8, 9}, scratch), IsEmpty());
  EXPECT_THAT(record_bytes(ring.image(), {0, 0, kRingBytes + 8, 9}, scratch), IsEmpty());
  EXPECT_THAT(record_bytes(ring.image(), {0, kRingBytes - 8, 16, 9}, std::span(scratch).first(8)), IsEmpty());
  EXPECT_EQ(record_bytes(ring.image(), {0, kRingBytes - 8, 16, 9}, scratch).size(), 16U);
  EXPECT_EQ(record_bytes(ring.image(), {0, 0, kRingBytes, 9}, {}).size(), kRingBytes);
}

}  // namespace
}  // namespace flight::test
