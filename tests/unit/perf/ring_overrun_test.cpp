// SPDX-License-Identifier: Apache-2.0
// The walk behind samples that the kernel wrote over the header of the next older record.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/unit/perf/copied_sample.hpp"

namespace flight::test {
namespace {

using Serials = std::vector<std::uint64_t>;

constexpr std::size_t kOverrunRing = 4096;

// The bytes of each record.
std::vector<std::vector<std::byte>> records_of(const RingImage& image, const WalkResult& walk) {
  std::vector<std::byte> scratch(kMaxRecordBytes);
  std::vector<std::vector<std::byte>> out;
  for (const RecordRef& ref : walk.records) {
    const auto bytes = record_bytes(image, ref, scratch);
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

TEST(RingOverrun, WhatIsOlderIsFound) {
  FakeRing ring(kOverrunRing);
  for (std::uint64_t i = 1; i <= 3; ++i) write_copied(ring, i);
  write_overrun(ring, 4);
  write_copied(ring, 5);
  const WalkResult walk = walk_ring(ring.image(), copying_event());
  EXPECT_EQ(serials(ring.image(), walk), (Serials{1, 2, 3, 4, 5}));
  EXPECT_EQ(walk.restored, 1U);
  EXPECT_EQ(walk.bad_records, 0U);
  EXPECT_EQ(walk.samples, 5U);
  EXPECT_FALSE(walk.wrapped);
}

TEST(RingOverrun, TheRestoredRecordIsWhatItWas) {
  for (const std::uint64_t ip : {std::uint64_t{0x401000}, std::uint64_t{0xffffffff81000000}}) {
    auto words = CopiedSample{.time_ns = 100, .serial = ip}.words();
    auto header = std::bit_cast<perf_event_header>(words[0]);
    if (ip >> 63U != 0) header.misc = PERF_RECORD_MISC_KERNEL;
    words[0] = std::bit_cast<std::uint64_t>(header);
    const auto bytes = std::as_bytes(std::span(words));
    FakeRing ring(kOverrunRing);
    ring.write(bytes);
    write_overrun(ring, 2);
    const auto records = records_of(ring.image(), walk_ring(ring.image(), copying_event()));
    ASSERT_EQ(records.size(), 2U);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), records[0].begin(), records[0].end()));
  }
}

TEST(RingOverrun, SeveralInARow) {
  FakeRing ring(kOverrunRing);
  write_copied(ring, 1);
  write_copied(ring, 2);
  for (std::uint64_t i = 3; i <= 5; ++i) write_overrun(ring, i);
  write_copied(ring, 6);
  const WalkResult walk = walk_ring(ring.image(), copying_event());
  EXPECT_EQ(serials(ring.image(), walk), (Serials{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(walk.restored, 3U);
  EXPECT_EQ(walk.bad_records, 0U);
}

// Without PERF_SAMPLE_CGROUP the header becomes 0, as in the area that was never written.
TEST(RingOverrun, AHeaderOfZeroIsNotTheEnd) {
  FakeRing ring(kOverrunRing);
  for (std::uint64_t i = 1; i <= 2; ++i)
    ring.write(CopiedSample{.time_ns = 100 * i, .serial = i, .has_cgroup = false}.bytes());
  write_overrun(ring, 3, false);
  const WalkResult walk =
      walk_ring(ring.image(), copying_event(kCopyType & ~static_cast<std::uint64_t>(PERF_SAMPLE_CGROUP)));
  EXPECT_EQ(serials(ring.image(), walk), (Serials{1, 2, 3}));
  EXPECT_EQ(walk.restored, 1U);
}

TEST(RingOverrun, ALostRecordIsRestored) {
  FakeRing ring(kOverrunRing);
  write_copied(ring, 1);
  ring.write(lost_record(200, 42));
  write_overrun(ring, 3);
  const auto records = records_of(ring.image(), walk_ring(ring.image(), copying_event()));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[1], lost_record(200, 42));
}

// THROTTLE or UNTHROTTLE: which of them cannot be known.
TEST(RingOverrun, AThrottleRecordIsDropped) {
  struct Throttle {
    perf_event_header header{PERF_RECORD_THROTTLE, 0, sizeof(Throttle)};
    std::uint64_t at_ns = 200, event = kId, stream = kId;
    std::uint32_t pid = 1, tid = 1;
    std::uint64_t time_ns = 200;
    std::uint32_t cpu = 0, reserved = 0;
    std::uint64_t id = kId;
  };
  FakeRing ring(kOverrunRing);
  write_copied(ring, 1);
  ring.write(bytes_of(Throttle{}));
  write_overrun(ring, 3);
  const WalkResult walk = walk_ring(ring.image(), copying_event());
  EXPECT_EQ(serials(ring.image(), walk), (Serials{1, 3}));
  EXPECT_EQ(walk.bad_records, 1U);
}

TEST(RingOverrun, OverTheTornRecordAtTheOldEnd) {
  FakeRing ring(kOverrunRing);
  for (std::uint64_t i = 1; i <= 20; ++i) write_copied(ring, i);
  write_overrun(ring, 21);
  for (std::uint64_t i = 22; i <= 40; ++i) write_copied(ring, i);
  const std::size_t size = CopiedSample{}.bytes().size();
  const std::size_t overrun_size = CopiedSample{.stack_bytes = 0}.bytes().size();
  const WalkResult walk = walk_ring(ring.image(), copying_event());
  EXPECT_EQ(serials(ring.image(), walk).front(), 21U);
  EXPECT_EQ(walk.records.size(), 20U);
  EXPECT_EQ(walk.torn_bytes, kOverrunRing - 19 * size - overrun_size);
  EXPECT_EQ(walk.bad_records, 0U);
  EXPECT_TRUE(walk.wrapped);
}

// The sample that did it was written after the head was read.
TEST(RingOverrun, OverTheNewestHeader) {
  for (const std::uint64_t word : {std::uint64_t{0xc0ffee}, std::uint64_t{0}}) {
    FakeRing ring(kOverrunRing);
    for (std::uint64_t i = 1; i <= 2; ++i) write_copied(ring, i);
    ring.poke(0, bytes_of(word));
    EXPECT_EQ(serials(ring.image(), walk_ring(ring.image(), copying_event())), (Serials{1, 2}));
  }
}

// Across the end of the ring, too.
TEST(RingOverrun, AtEveryOffset) {
  for (std::size_t shift = 0; shift < 512; shift += 8) {
    FakeRing ring(kOverrunRing);
    ring.write(CopiedSample{.serial = 0, .stack_bytes = 64 + shift}.bytes());
    for (std::uint64_t serial = 1; serial <= 90; ++serial) {
      if (serial % 3 == 0) {
        write_overrun(ring, serial);
      } else {
        write_copied(ring, serial);
      }
    }
    const WalkResult walk = walk_ring(ring.image(), copying_event());
    const Serials seen = serials(ring.image(), walk);
    ASSERT_GE(seen.size(), 22U) << shift;
    ASSERT_EQ(seen.back(), 90U);
    for (std::size_t i = 1; i < seen.size(); ++i) ASSERT_EQ(seen[i], seen[i - 1] + 1) << shift;
    ASSERT_EQ(walk.bad_records, 0U);
    ASSERT_GT(walk.restored, 5U);
  }
}

// A kernel that reserves what it writes.
TEST(RingOverrun, AnIntactHeaderIsBelieved) {
  FakeRing ring(kOverrunRing);
  write_copied(ring, 1);
  write_copied(ring, 2);
  ring.write(CopiedSample{.time_ns = 300, .serial = 3, .stack_bytes = 0}.bytes());
  const WalkResult walk = walk_ring(ring.image(), copying_event());
  EXPECT_EQ(serials(ring.image(), walk), (Serials{1, 2, 3}));
  EXPECT_EQ(walk.restored, 0U);
}

TEST(RingOverrun, DamagedContentEndsTheWalk) {
  FakeRing ring(kOverrunRing);
  write_copied(ring, 1);
  write_copied(ring, 2);
  write_overrun(ring, 3);
  const std::size_t overrun_size = CopiedSample{.stack_bytes = 0}.bytes().size();
  for (const std::uint64_t frames : {~std::uint64_t{0}, std::uint64_t{500}, std::uint64_t{3}}) {
    FakeRing damaged = ring;
    damaged.poke(overrun_size + 56, bytes_of(frames));  // of the second
    const WalkResult walk = walk_ring(damaged.image(), copying_event());
    EXPECT_EQ(serials(damaged.image(), walk), (Serials{3})) << frames;
    EXPECT_EQ(walk.bad_records, 1U);
    EXPECT_EQ(walk.restored, 0U);
  }
}

// Rings without such events have no such headers.
TEST(RingOverrun, InOtherRingsAnInvalidHeaderEndsTheWalk) {
  FakeRing ring(kOverrunRing);
  for (std::uint64_t i = 1; i <= 3; ++i) ring.write(sample(100 * i, i));
  ring.poke(sizeof(SampleHead), bytes_of(std::uint64_t{0xc0ffee}));
  const WalkResult walk = walk_ring(ring.image(), one_event());
  EXPECT_EQ(serials(ring.image(), walk), (Serials{3}));
  EXPECT_EQ(walk.bad_records, 1U);
}

}  // namespace
}  // namespace flight::test
