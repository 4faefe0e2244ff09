// SPDX-License-Identifier: Apache-2.0
// A ring that this test writes as the kernel does: downwards, and the head after the record. What the "kernel" writes
// while the reader works is written when the reader asks for the head, so each case is the same in each run.
#include "libcore/stream/ring_reader.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "libcore/perf/record.hpp"
#include "tests/unit/perf/copied_sample.hpp"

namespace flight {
namespace {

class BackwardRing {
 public:
  explicit BackwardRing(std::size_t size) : data_(size) {}

  // A record of `size` bytes with the next number behind its header.
  void write(std::size_t size) {
    std::vector<std::uint64_t> record(size / 8, ~std::uint64_t{0});
    const perf_event_header header{.type = PERF_RECORD_SAMPLE, .misc = 0, .size = static_cast<std::uint16_t>(size)};
    std::memcpy(record.data(), &header, sizeof header);
    record[1] = ++number_;
    head_ -= size;
    for (std::size_t i = 0; i < record.size(); ++i)
      std::memcpy(&data_[(head_ + i * 8) & (data_.size() - 1)], &record[i], 8);
    sizes_.push_back(size);
  }
  void write(std::size_t size, std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) write(size);
  }

  // A record that is being written, below the head.
  void begin_record() {
    const std::uint64_t bytes = std::min<std::uint64_t>(65528, live_margin(data_.size()));
    const std::uint64_t begin = (head_ - bytes) & (data_.size() - 1);
    const std::uint64_t first = std::min(bytes, data_.size() - begin);
    std::memset(&data_[begin], 0xff, first);
    std::memset(data_.data(), 0xff, bytes - first);
  }

  std::vector<std::byte> data_;
  std::uint64_t head_ = 0;
  std::uint64_t number_ = 0;
  std::vector<std::size_t> sizes_;  // of number 1, 2, …
};

// The numbers of the records, in their order; each hole with the bytes.
class Found : public RingReader::Sink {
 public:
  void records(std::span<const std::byte> records) override {
    for (std::size_t at = 0; at < records.size();) {
      const auto header = load<perf_event_header>(&records[at]);
      ASSERT_GE(header.size, 16U);
      numbers_.push_back(load<std::uint64_t>(&records[at + 8]));
      at += header.size;
    }
    most_ = std::max(most_, records.size());
  }
  void hole(std::uint64_t bytes) override { holes_.emplace_back(numbers_.empty() ? 0 : numbers_.back(), bytes); }
  void past_is_cut(std::uint64_t bytes) override {
    EXPECT_TRUE(numbers_.empty() && holes_.empty() && cut_ == 0);
    cut_ = bytes;
  }
  std::uint64_t cut_ = 0;
  std::vector<std::uint64_t> numbers_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> holes_;  // after which number, bytes
  std::size_t most_ = 0;
};

// Each number once and in order, or inside of a hole whose bytes are those of the missing records.
void expect_complete(const BackwardRing& ring, const Found& found, std::uint64_t first) {
  std::uint64_t before = first - 1;
  std::size_t hole = 0;
  const auto take_holes = [&] {
    std::uint64_t bytes = 0;
    while (hole < found.holes_.size() && found.holes_[hole].first == (before == first - 1 ? 0 : before))
      bytes += found.holes_[hole++].second;
    return bytes;
  };
  const auto expect_gap = [&](std::uint64_t number) {
    std::uint64_t missing = 0;
    for (std::uint64_t at = before + 1; at < number; ++at) missing += ring.sizes_[at - 1];
    ASSERT_EQ(take_holes(), missing) << "after " << before;
  };
  for (const std::uint64_t number : found.numbers_) {
    ASSERT_GT(number, before);
    expect_gap(number);
    before = number;
  }
  expect_gap(ring.number_ + 1);
  EXPECT_EQ(hole, found.holes_.size());
}

TEST(RingReader, EachRecordOnceAndInOrder) {
  BackwardRing ring(1U << 20U);
  RingReader reader(
      ring.data_, [&] { return ring.head_; }, true);
  Found found;
  for (int i = 0; i < 50; ++i) {
    ring.write(48, 1000);
    ring.write(65528);
    reader.look(found);
  }
  EXPECT_EQ(found.numbers_.size(), ring.number_);
  EXPECT_EQ(reader.news(), 0U);
  expect_complete(ring, found, 1);
  EXPECT_TRUE(found.holes_.empty());
}

TEST(RingReader, AFullRingIsReadInPieces) {
  BackwardRing ring(4U << 20U);
  RingReader reader(
      ring.data_, [&] { return ring.head_; }, true);
  ring.write(120, 30'000);
  Found found;
  EXPECT_EQ(reader.news(), 120U * 30'000);
  reader.look(found);
  expect_complete(ring, found, 1);
  EXPECT_EQ(found.numbers_.size(), 30'000U);
  EXPECT_EQ(found.cut_, 0U);
  EXPECT_LE(found.most_, RingReader::kPieceBytes);
  EXPECT_GT(found.most_, RingReader::kPieceBytes - 200);
}

// Keeps nothing.
class CountedBytes : public RingReader::Sink {
 public:
  void records(std::span<const std::byte> records) override {
    bytes_ += records.size();
    ++pieces_;
  }
  void hole(std::uint64_t bytes) override { holes_ += bytes; }
  std::uint64_t bytes_ = 0, pieces_ = 0, holes_ = 0;
};

// Pieces that end as early as records can make them. (With ASan, mallinfo2(3) returns zeros.)
TEST(RingReader, ALookAllocatesNothing) {
  BackwardRing ring(4U << 20U);
  RingReader reader(
      ring.data_, [&] { return ring.head_; }, false);
  while (ring.number_ < 80) {
    ring.write(65528, 3);
    ring.write(40);
  }
  CountedBytes counted;
  const std::size_t before_bytes = ::mallinfo2().uordblks;
  reader.look(counted);
  EXPECT_EQ(::mallinfo2().uordblks, before_bytes);
  EXPECT_EQ(counted.bytes_, 80U / 4 * (3 * 65528 + 40));
  EXPECT_GT(counted.pieces_, ring.data_.size() / RingReader::kPieceBytes + 2);
  EXPECT_EQ(counted.holes_, 0U);
}

// Takes the records up to a number, and leaves the others in the ring.
class FoundUpTo : public Found {
 public:
  void records(std::span<const std::byte> records) override {
    std::size_t at = 0;
    while (at < records.size() && load<std::uint64_t>(&records[at + 8]) <= last_)
      at += load<perf_event_header>(&records[at]).size;
    left_ = records.size() - at;
    Found::records(records.first(at));
  }
  [[nodiscard]] std::size_t left() const override { return left_; }
  std::uint64_t last_ = 0;

 private:
  std::size_t left_ = 0;
};

TEST(RingReader, WhatItsSinkLeavesIsForTheNextLook) {
  BackwardRing ring(4U << 20U);
  RingReader reader(
      ring.data_, [&] { return ring.head_; }, true);
  ring.write(120, 10'000);  // five pieces
  FoundUpTo found;
  for (const std::uint64_t last : {0U, 1U, 4'000U, 4'000U, 4'001U}) {
    found.last_ = last;
    reader.look(found);
    EXPECT_EQ(found.numbers_.size(), last);
    EXPECT_EQ(reader.news(), (10'000 - last) * 120);
  }
  ring.write(64, 500);
  found.last_ = 10'400;
  reader.look(found);
  EXPECT_EQ(reader.news(), 100U * 64);
  EXPECT_TRUE(found.holes_.empty());
  EXPECT_EQ(found.numbers_.size(), 10'400U);
  // Until then it may be overwritten.
  ring.write(120, 40'000);
  found.last_ = ring.number_;
  reader.look(found);
  EXPECT_EQ(reader.news(), 0U);
  EXPECT_EQ(found.holes_.size(), 1U);
  expect_complete(ring, found, 1);
}

TEST(RingReader, ThePastIsWhatTheRingHolds) {
  BackwardRing ring(1U << 20U);
  ring.write(56, 100'000);
  RingReader past(
      ring.data_, [&] { return ring.head_; }, true),
      from_now(
          ring.data_, [&] { return ring.head_; }, false);
  Found all, none;
  past.look(all);
  from_now.look(none);
  EXPECT_TRUE(none.numbers_.empty());
  ASSERT_FALSE(all.numbers_.empty());
  EXPECT_TRUE(all.holes_.empty()) << "older than the ring holds is not missing";
  EXPECT_EQ(all.cut_, (100'000 - all.numbers_.size()) * 56);
  EXPECT_EQ(none.cut_, 0U);
  EXPECT_GE(all.numbers_.size() * 56, ring.data_.size() - live_margin(ring.data_.size()) - 56);
  expect_complete(ring, all, all.numbers_.front());
  ring.write(56, 10);
  from_now.look(none);
  EXPECT_EQ(none.numbers_.size(), 10U);
}

TEST(RingReader, WhatWasOverwrittenSinceItsBeginIsAHole) {
  for (const bool past : {false, true}) {
    BackwardRing ring(1U << 20U);
    ring.write(56, 100'000);
    const std::uint64_t before = ring.number_;
    RingReader reader(
        ring.data_, [&] { return ring.head_; }, past);
    Found found;
    ring.write(56, 50'000);
    reader.look(found);
    EXPECT_EQ(found.holes_.size(), 1U) << past;
    EXPECT_EQ(found.cut_, past ? before * 56 : 0);
    expect_complete(ring, found, before + 1);
  }
}

TEST(RingReader, WhatWasOverwrittenBetweenTwoLooksIsAHole) {
  BackwardRing ring(1U << 20U);
  RingReader reader(
      ring.data_, [&] { return ring.head_; }, true);
  Found found;
  ring.write(64, 100);
  reader.look(found);
  ring.write(64, 40'000);  // 2.5 times the ring
  reader.look(found);
  ring.write(64, 100);
  reader.look(found);
  ASSERT_EQ(found.holes_.size(), 1U);
  EXPECT_EQ(found.holes_[0].first, 100U);
  EXPECT_EQ(found.numbers_.back(), ring.number_);
  expect_complete(ring, found, 1);
}

TEST(RingReader, ARingThatWasNeverWrittenHasNothing) {
  BackwardRing ring(1U << 16U);
  RingReader reader(
      ring.data_, [&] { return ring.head_; }, true);
  Found found;
  reader.look(found);
  EXPECT_TRUE(found.numbers_.empty());
  EXPECT_TRUE(found.holes_.empty());
}

// While it is read, the ring is overwritten: some records in each step, from a little to more than the ring.
TEST(RingReader, WhatIsOverwrittenMeanwhileIsAHole) {
  for (const std::size_t ring_bytes : {std::size_t{1} << 14U, std::size_t{1} << 18U, std::size_t{1} << 21U})
    for (const std::size_t most : {10U, 300U, 3'000U})
      for (unsigned seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(testing::Message() << ring_bytes << " " << most << " " << seed);
        BackwardRing ring(ring_bytes);
        std::mt19937 random(seed);
        bool busy = false;
        const auto write_some = [&](std::size_t up_to) {
          for (std::size_t i = random() % (up_to + 1); i > 0; --i) ring.write(16 + 8 * (random() % 40));
        };
        RingReader reader(
            ring.data_,
            [&] {
              if (busy) write_some(most);
              ring.begin_record();
              return ring.head_;
            },
            true);
        Found found;
        ring.write(64);
        reader.look(found);
        for (int look = 0; look < 20; ++look) {
          busy = look % 3 != 2;
          if (busy) write_some(most);
          reader.look(found);
        }
        busy = false;
        reader.look(found);
        expect_complete(ring, found, 1);
        if (testing::Test::HasFatalFailure()) return;
      }
}

// Without the kernel's help nothing in a ring is trusted.
TEST(RingReader, BytesThatAreNoRecordsAreAHole) {
  for (const std::uint16_t size : std::initializer_list<std::uint16_t>{0, 4, 12, 65535}) {
    BackwardRing ring(1U << 18U);
    ring.write(64, 100);
    const perf_event_header bad{.type = PERF_RECORD_SAMPLE, .misc = 0, .size = size};
    std::memcpy(&ring.data_[(ring.head_ + 20 * 64) & (ring.data_.size() - 1)], &bad, sizeof bad);
    RingReader reader(
        ring.data_, [&] { return ring.head_; }, false);
    ring.write(64, 10);
    Found found;
    reader.look(found);
    EXPECT_EQ(found.numbers_.size(), 10U);
    RingReader again(
        ring.data_, [&] { return ring.head_; }, true);
    Found past;
    again.look(past);
    EXPECT_EQ(past.numbers_.size(), 30U) << "the newest, down to the bad one";
    EXPECT_EQ(past.numbers_.back(), ring.number_);
  }
}

TEST(RingReader, AHoleInTheMiddleOfALookIsInItsPlace) {
  BackwardRing ring(1U << 20U);
  RingReader reader(
      ring.data_, [&] { return ring.head_; }, false);
  ring.write(64, 100);
  const perf_event_header bad{};
  std::memcpy(&ring.data_[(ring.head_ + 20 * 64) & (ring.data_.size() - 1)], &bad, sizeof bad);
  Found found;
  reader.look(found);
  EXPECT_EQ(found.numbers_.size(), 20U);
  ASSERT_EQ(found.holes_.size(), 1U);
  EXPECT_EQ(found.holes_[0], (std::pair<std::uint64_t, std::uint64_t>(0, 80 * 64)));
}

// The ip of each sample.
class IpSink : public RingReader::Sink {
 public:
  void records(std::span<const std::byte> records) override {
    for (std::size_t at = 0; at < records.size();) {
      const auto header = load<perf_event_header>(&records[at]);
      ASSERT_EQ(header.type, PERF_RECORD_SAMPLE);
      ASSERT_EQ(header.misc, PERF_RECORD_MISC_USER);
      ASSERT_GE(header.size, 64U);
      ips.push_back(load<std::uint64_t>(&records[at + 16]));
      at += header.size;
    }
  }
  void hole(std::uint64_t bytes) override { missing += bytes; }

  std::vector<std::uint64_t> ips;
  std::uint64_t missing = 0;
};

// Behind samples of a program without a stack pointer (overruns() in libcore/perf/sample_parts.hpp).
TEST(RingReader, ARecordWithoutAHeaderIsReadToo) {
  const EventTable events = test::copying_event();
  test::FakeRing ring(64U << 10U);
  std::uint64_t next = 1;
  bool meanwhile = false;  // one is written right after the head was read
  RingReader reader(
      ring.bytes(),
      [&] {
        const std::uint64_t head = ring.image().head;
        if (std::exchange(meanwhile, false)) test::write_overrun(ring, next++);
        return head;
      },
      true);
  reader.recognise(events);
  IpSink found;
  for (int look = 0; look < 1000; ++look) {
    test::write_copied(ring, next++);
    for (int i = 0; i < look % 3; ++i) test::write_overrun(ring, next++);
    test::write_copied(ring, next++);
    meanwhile = look % 2 == 0;
    reader.look(found);
  }
  reader.look(found);
  EXPECT_EQ(found.missing, 0U);
  ASSERT_EQ(found.ips.size(), next - 1);
  for (std::uint64_t i = 0; i < found.ips.size(); ++i) ASSERT_EQ(found.ips[i], i + 1);
}

// What was copied from the ring has copies of other processes' memory.
TEST(RingReader, AfterALookNoCopyOfAStackIsLeft) {
  for (const bool copies : {true, false}) {
    const EventTable events = copies ? test::copying_event() : test::one_event();
    std::vector<std::byte> memory(RingReader::kMemoryBytes);
    BackwardRing ring(1U << 20U);
    RingReader reader(
        ring.data_, [&] { return ring.head_; }, false, memory);
    reader.recognise(events);
    Found found;
    for (const std::size_t records : {20'000U, 0U, 100U}) {  // the first look takes several pieces
      ring.write(48, records);
      reader.look(found);
      const auto left = std::count_if(memory.begin(), memory.end(), [](std::byte one) { return one != std::byte{0}; });
      EXPECT_EQ(left == 0, copies) << left << " bytes after " << records;
    }
    expect_complete(ring, found, 1);
  }
}

}  // namespace
}  // namespace flight
