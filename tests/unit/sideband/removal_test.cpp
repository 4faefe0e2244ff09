// SPDX-License-Identifier: Apache-2.0
// The cost of removing what has ended: constant for each thread and image, also if one process has very many of them.
// It is counted, not timed.
#include <gtest/gtest.h>

#include "libcore/sideband/process_table.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

constexpr std::uint32_t kShortThreads = 50'000;
constexpr EventTime kEach = 1000;  // a thread's start, and its exit after it

void apply_all(ProcessTable& table, Tape& tape) {
  const RecordBuffer bytes = tape.take();
  std::span<const std::byte> rest = bytes;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    table.apply(record, parse_trailer(record)->time_ns);
    rest = rest.subspan(record.size());
  }
}

EventTime start_of(std::uint32_t number) { return kSecond + number * kEach; }

void one_short_thread(Tape& tape, std::uint32_t number) {
  tape.thread(start_of(number), 100, 1000 + number);
  tape.exit(start_of(number) + kEach / 2, 100, 1000 + number);
}

void begin_with_ten_threads(ProcessTable& table) {
  Tape tape;
  tape.fork(10, 1, 100);
  for (std::uint32_t tid = 101; tid < 111; ++tid) tape.thread(tid, 100, tid);
  apply_all(table, tape);
}

TEST(Removal, OfShortThreadsCostsTheSameForEach) {
  ProcessTable table;
  begin_with_ten_threads(table);
  const std::size_t before = table.bytes();
  Tape tape;
  for (std::uint32_t i = 0; i < kShortThreads; ++i) one_short_thread(tape, i);
  apply_all(table, tape);
  EXPECT_GT(table.bytes(), before + kShortThreads * sizeof(Thread));
  // The horizon passes them one by one, as it does in a recorder that drains ten times a second.
  for (std::uint32_t i = 0; i < kShortThreads; ++i) table.forget(start_of(i + 1));
  EXPECT_LT(table.visits(), kShortThreads * std::uint64_t{10});
  EXPECT_EQ(table.of(100)[0].live_threads, 10U);
  EXPECT_LT(table.of(100)[0].threads.size(), 14U) << "the ten, and less than a quarter of ended ones";
  EXPECT_LT(table.bytes(), before + 1000) << "the memory is free again";
}

TEST(Removal, OfShortThreadsWhileTheyComeCostsTheSameForEach) {
  ProcessTable table;
  begin_with_ten_threads(table);
  constexpr std::uint32_t kKept = 10'000;
  for (std::uint32_t i = 0; i < kShortThreads; ++i) {
    Tape tape;
    one_short_thread(tape, i);
    apply_all(table, tape);
    if (i >= kKept) table.forget(start_of(i - kKept));
    ASSERT_LT(table.of(100)[0].threads.size(), kKept * 3 / 2);
  }
  EXPECT_LT(table.visits(), kShortThreads * std::uint64_t{10});
  const Incarnation& process = table.of(100)[0];
  EXPECT_NE(process.find_thread(1000 + kShortThreads - kKept), nullptr) << "none that the horizon has not passed";
}

TEST(Removal, AtTheLimitCostsTheSameForEachThread) {
  ProcessTable table;
  begin_with_ten_threads(table);
  constexpr std::size_t kMost = 512U << 10U;
  for (std::uint32_t i = 0; i < kShortThreads; ++i) {
    Tape tape;
    one_short_thread(tape, i);
    apply_all(table, tape);
    if (i % kBoundEvery != 0) continue;
    static_cast<void>(table.shrink(kMost));
    ASSERT_LE(table.bytes(), kMost);
  }
  EXPECT_LT(table.visits(), kShortThreads * std::uint64_t{10});
  EXPECT_EQ(table.alive(), 1U);
  EXPECT_EQ(table.of(100)[0].live_threads, 10U);
}

TEST(Removal, OfImagesCostsTheSameForEachExec) {
  ProcessTable table;
  Tape tape;
  tape.fork(10, 1, 100);
  constexpr std::uint32_t kExecs = 10'000;
  for (std::uint32_t i = 0; i < kExecs; ++i) {
    tape.thread(start_of(i), 100, 1000 + i % 100);
    tape.exec(start_of(i) + kEach / 2, 100, "again");
  }
  apply_all(table, tape);
  EXPECT_EQ(table.of(100)[0].past.size(), kExecs);
  for (std::uint32_t i = 0; i < kExecs; ++i) table.forget(start_of(i + 1));
  EXPECT_LT(table.visits(), kExecs * std::uint64_t{10});
  EXPECT_LT(table.of(100)[0].past.size() + table.of(100)[0].threads.size(), 4U);
}

}  // namespace
}  // namespace flight
