// SPDX-License-Identifier: Apache-2.0
// Bytes that the kernel would not write: first single faults, then random ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/perf/ring_image.hpp"

namespace flight::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kRing = 4096;

// Old perfs abort at an unknown type; this walk continues after it.
TEST(HostileRing, TypesThatOldReadersDoNotKnowAreDropped) {
  FakeRing ring(kRing);
  ring.write(sample(100, 1));
  for (const std::uint32_t type : {0U, 22U, 23U, 68U, 81U, 0xffffffffU}) {
    auto record = lost_record(150, 0);
    std::memcpy(record.data(), &type, sizeof type);
    ring.write(record);
  }
  auto newest_known = lost_record(160, 0);
  newest_known[0] = std::byte{21};
  ring.write(newest_known);
  ring.write(sample(200, 2));
  const auto walk = walk_ring(ring.image(), one_event());
  ASSERT_EQ(walk.records.size(), 3U);
  EXPECT_EQ(walk.records[1].type, 21U);
  EXPECT_EQ(walk.bad_records, 6U);
}

TEST(HostileRing, RecordsTooShortForTheirFieldsAreDropped) {
  FakeRing ring(kRing);
  ring.write(sample(100, 1));
  ring.write(bytes_of(perf_event_header{PERF_RECORD_SAMPLE, 0, 8}));
  auto no_time = sample(150, 9);
  no_time.resize(32);
  no_time[6] = std::byte{32};
  ring.write(no_time);
  auto no_trailer = lost_record(160, 0);
  no_trailer.erase(no_trailer.begin() + 8, no_trailer.begin() + 32);
  no_trailer[6] = std::byte{32};
  ring.write(no_trailer);
  ring.write(sample(200, 2));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_THAT(serials(ring.image(), walk), ElementsAre(1, 2));
  EXPECT_EQ(walk.bad_records, 3U);
}

TEST(HostileRing, ASizeThatMakesNoSenseEndsTheWalk) {
  for (const std::uint16_t size : {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{7}, std::uint16_t{57}}) {
    FakeRing ring(kRing);
    for (std::uint64_t i = 1; i <= 200; ++i) ring.write(sample(100 * i, i));
    ring.poke(2 * 56U, bytes_of(perf_event_header{PERF_RECORD_SAMPLE, 0, size}));
    const auto walk = walk_ring(ring.image(), one_event());
    EXPECT_THAT(serials(ring.image(), walk), ElementsAre(199, 200)) << size;
    EXPECT_EQ(walk.bad_records, 1U) << size;
    EXPECT_EQ(walk.torn_bytes, 0U) << size;
  }
}

// No older record was there that could be truncated, so such a size is nonsense, not a torn record.
TEST(HostileRing, ASizePastTheBeginningOfHistoryIsBad) {
  FakeRing ring(kRing);
  for (std::uint64_t i = 1; i <= 3; ++i) ring.write(sample(100 * i, i));
  ring.poke(2 * 56U, bytes_of(perf_event_header{PERF_RECORD_SAMPLE, 0, 64}));
  const auto walk = walk_ring(ring.image(), one_event());
  EXPECT_THAT(serials(ring.image(), walk), ElementsAre(2, 3));
  EXPECT_EQ(walk.bad_records, 1U);
  EXPECT_EQ(walk.torn_bytes, 0U);
}

TEST(HostileRing, ImagesThatAreNoneAreRefused) {
  FakeRing ring(kRing);
  for (std::uint64_t i = 1; i <= 100; ++i) ring.write(sample(100 * i, i));
  const auto events = one_event();
  RingImage image = ring.image();
  for (const std::size_t size : {0U, 1U, 4U, 24U, 4088U}) {
    image.bytes = std::span(ring.bytes()).first(size);
    const auto walk = walk_ring(image, events);
    EXPECT_THAT(walk.records, IsEmpty()) << size;
    EXPECT_EQ(walk.bad_records, 1U) << size;
  }
  image = ring.image();
  image.head += 1;
  EXPECT_THAT(walk_ring(image, events).records, IsEmpty());
  image = ring.image();
  image.valid_bytes = ~std::uint64_t{0};  // more than the ring has
  EXPECT_EQ(walk_ring(image, events).records.size(), kRing / 56);
}

// These properties hold for any bytes.
void expect_sane(const RingImage& image, const EventTable& events) {
  const auto walk = walk_ring(image, events);
  std::vector<std::byte> scratch(65536);
  std::uint64_t samples = 0;
  std::uint64_t bytes = walk.torn_bytes;
  EventTime before = 0;
  for (const RecordRef& ref : walk.records) {
    ASSERT_LE(before, ref.time_ns);
    before = ref.time_ns;
    ASSERT_NE(ref.type, 0U);
    ASSERT_LT(ref.type, 22U);
    const auto record = record_bytes(image, ref, scratch);
    ASSERT_EQ(record.size(), ref.size);
    const auto key = record_key(record, events);
    ASSERT_TRUE(key);
    ASSERT_EQ(key->time_ns, ref.time_ns);
    if (const auto fields = sample_fields(record, events.layout(key->event)); fields) {
      ASSERT_EQ(ref.type, 9U);
    }
    if (lost_fields(record)) {
      ASSERT_EQ(ref.type, PERF_RECORD_LOST);
    }
    samples += ref.type == PERF_RECORD_SAMPLE ? 1 : 0;
    bytes += ref.size;
  }
  ASSERT_EQ(samples, walk.samples);
  ASSERT_LE(bytes, image.bytes.size());
}

EventTable many_events() {
  EventTable events;
  events.add_id(kId, events.add_event(kSampleType));
  events.add_id(0, events.add_event(kSampleType | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_CGROUP));
  events.add_id(0x0101010101010101, events.add_event(~std::uint64_t{0} >> 39U));
  return events;
}

TEST(HostileRing, RandomBytes) {
  std::mt19937_64 random(1);
  const auto events = many_events();
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(std::size_t{8} << (random() % 10));
    // A few distinct values, so that sizes, types and ids often look real.
    const std::uint64_t spread = random() % 3 == 0 ? 256 : 12;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % spread);
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8)
      if (random() % 4 == 0) bytes[at + 7] = std::byte{0};
    const RingImage image{bytes, random() & ~std::uint64_t{random() % 8 == 0 ? 0U : 7U}, random() % (2 * bytes.size())};
    ASSERT_NO_FATAL_FAILURE(expect_sane(image, events)) << "round " << round;
  }
}

// A valid image with some changed bytes, and with any head and any number of valid bytes.
TEST(HostileRing, MutatedImages) {
  std::mt19937_64 random(2);
  const auto events = many_events();
  FakeRing good(4096);
  for (std::uint64_t i = 1; i <= 100; ++i)
    good.write(sample(100 * i, i, 56 + 8 * (random() % 12), i % 5 == 0 ? 0 : kId));
  for (int round = 0; round < 20000; ++round) {
    FakeRing ring = good;
    for (std::uint64_t changes = 1 + random() % 8; changes > 0; --changes)
      ring.bytes()[random() % 4096] = static_cast<std::byte>(random());
    RingImage image = ring.image();
    if (random() % 4 == 0) image.head = random() & ~std::uint64_t{7};
    if (random() % 4 == 0) image.valid_bytes = random() % 5000;
    ASSERT_NO_FATAL_FAILURE(expect_sane(image, events)) << "round " << round;
  }
}

}  // namespace
}  // namespace flight::test
