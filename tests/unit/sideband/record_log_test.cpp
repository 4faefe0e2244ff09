// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/record_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace flight {
namespace {

std::vector<std::byte> numbered(std::uint32_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::uint32_t number_of(std::span<const std::byte> record) {
  std::uint32_t number = 0;
  std::memcpy(&number, record.data(), sizeof number);
  return number;
}

// Batches that overlap in time, with drops in between: the rest is always what a sorted list would hold.
TEST(RecordLog, IsAStableSortedListThatForgetsFromTheFront) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    RecordLog log;
    std::vector<std::pair<EventTime, std::uint32_t>> expected;
    std::uint32_t number = 0;
    for (int batch = 0; batch < 40; ++batch) {
      for (auto i = random() % 200; i > 0; --i) {
        const EventTime time = static_cast<EventTime>(batch) * 50 + random() % 120;
        log.append(numbered(number, 8 + random() % 500 * 8), 7, time);
        expected.emplace_back(time, number++);
      }
      log.settle();
      std::stable_sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.first < b.first; });
      if (random() % 3 == 0) {
        const std::size_t count = random() % (expected.size() + 1);
        log.drop_front(count);
        expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(count));
      }
      const auto entries = log.entries();
      ASSERT_EQ(entries.size(), expected.size());
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < entries.size(); ++i) {
        ASSERT_EQ(entries[i].time_ns, expected[i].first);
        ASSERT_EQ(number_of(log.record(entries[i])), expected[i].second);
        bytes += entries[i].size + sizeof(RecordLog::Entry);
      }
      EXPECT_EQ(log.bytes(), bytes);
    }
  }
}

TEST(RecordLog, EmptyAgainAndAgain) {
  RecordLog log;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    log.append(numbered(i, 64), 7, i);
    log.settle();
    EXPECT_EQ(number_of(log.record(log.entries()[0])), i);
    log.drop_front(1);
  }
  EXPECT_EQ(log.bytes(), 0U);
}

}  // namespace
}  // namespace flight
