// SPDX-License-Identifier: Apache-2.0
// A ring in memory. The test writes into it like the kernel.
#include "daemon/broker/files/sideband_cursor.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include <cstring>

#include "libcore/base/mapping.hpp"

namespace flight::broker {
namespace {

constexpr std::size_t kRing = 256U << 10U;

class Cursor : public testing::Test {
 protected:
  Cursor() : memory_(*Mapping::create(page() + kRing)) {}
  static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  // Writes records of 64 bytes with a number.
  void write(std::uint64_t count) {
    auto* control = reinterpret_cast<perf_event_mmap_page*>(memory_.data());
    for (; count > 0; --count) {
      const std::uint64_t number = next_++;
      std::memcpy(memory_.data() + page() + (control->data_head & (kRing - 1)), &number, sizeof number);
      control->data_head += 64;
    }
  }
  std::vector<std::uint64_t> read() {
    std::vector<std::byte> bytes;
    cursor_.read(bytes);
    std::vector<std::uint64_t> numbers;
    for (std::size_t at = 0; at < bytes.size(); at += 64) {
      numbers.emplace_back();
      std::memcpy(&numbers.back(), bytes.data() + at, sizeof(std::uint64_t));
    }
    return numbers;
  }
  Mapping memory_;
  std::uint64_t next_ = 0;
  SidebandCursor cursor_{memory_.bytes()};
};

TEST_F(Cursor, SeesEachRecordOnceAcrossTheWrap) {
  std::uint64_t expected = 0;
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(cursor_.has_news());
    write(777);
    EXPECT_TRUE(cursor_.has_news());
    for (const std::uint64_t number : read()) ASSERT_EQ(number, expected++);
  }
  EXPECT_EQ(expected, 40U * 777);
  EXPECT_EQ(cursor_.missed_bytes(), 0U);
}

TEST_F(Cursor, WhatWasOverwrittenIsMissedAndCounted) {
  write(10);
  EXPECT_EQ(read().size(), 10U);
  write(kRing / 64 + 5);
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(cursor_.missed_bytes(), kRing + 5 * 64);
  write(3);
  const auto after = read();
  ASSERT_EQ(after.size(), 3U) << "it goes on at a record's beginning";
  EXPECT_EQ(after[0], 10 + kRing / 64 + 5);
}

// Records so old that the kernel may be overwriting them.
TEST_F(Cursor, ANearlyFullRingIsNotBelieved) {
  write((kRing - (16U << 10U)) / 64);
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(cursor_.missed_bytes(), kRing - (16U << 10U));
}

TEST_F(Cursor, ANewOneBeginsAtWhatComesNextOrAtTheBeginning) {
  write(10);
  SidebandCursor later(memory_.bytes());
  EXPECT_FALSE(later.has_news());
  later.rewind();
  std::vector<std::byte> bytes;
  later.read(bytes);
  EXPECT_EQ(bytes.size(), 640U);
}

}  // namespace
}  // namespace flight::broker
