// SPDX-License-Identifier: Apache-2.0
// The ledger under its bounds: records that are folded early keep their times, and memory stays where it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/ledger.hpp"
#include "libcore/sideband/mappings.hpp"
#include "libcore/sideband/process_table.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

constexpr EventTime kSecond = 1'000'000'000;
constexpr EventTime kStep = 100'000;

ReaderModel read(const LedgerExport& window, EventTime time = ~EventTime{0}) {
  ReaderModel model;
  model.apply_all(window.prologue);
  model.apply_all(window.log, time);
  return model;
}

// A shell forks, the child execs, maps and exits; its number is used again by the next but nine.
void live(Tape& tape, EventTime start, int number) {
  const auto pid = static_cast<std::uint32_t>(1000 + number % 10);
  const std::string name = "life" + std::to_string(number);
  tape.fork(start, 100, pid);
  tape.exec(start + kStep, pid, name);
  tape.map(start + 2 * kStep, pid, 0x5000, 0x1000, "/bin/" + name);
  tape.thread(start + 3 * kStep, pid, pid + 50);
  tape.exit(start + 6 * kStep, pid, pid + 50);
  tape.exit(start + 8 * kStep, pid);
}

Tape shell() {
  Tape tape;
  tape.fork(10, 1, 100);
  tape.exec(11, 100, "bash");
  tape.map(12, 100, 0x1000, 0x1000, "/bin/bash");
  return tape;
}

TEST(Bounds, WhatIsFoldedEarlyKeepsItsTimes) {
  Ledger ledger({.log_bytes = 16U << 10U, .state_bytes = 8U << 20U});
  ledger.add(shell().bytes());
  constexpr int kLives = 1000;
  const EventTime first = kSecond;
  const EventTime each = 10 * kStep;
  for (int i = 0; i < kLives; ++i) {
    Tape tape;
    live(tape, first + static_cast<EventTime>(i) * each, i);
    ledger.add(tape.bytes());
    ledger.fold(first - 1);  // a ring still has samples of that time
  }
  EXPECT_LE(ledger.stats().log_bytes, 16U << 10U);
  EXPECT_EQ(ledger.stats().evicted, 0U);
  EXPECT_EQ(ledger.stats().exited, static_cast<std::uint64_t>(kLives));
  std::unordered_set<std::uint32_t> pids;
  for (std::uint32_t pid = 1000; pid < 1010; ++pid) pids.insert(pid);
  for (const int from : {0, 500, 995}) {
    // The window begins in the middle of a life, when it has its second name.
    const EventTime begin = first + static_cast<EventTime>(from) * each + 4 * kStep;
    const auto window = ledger.export_window(begin, first + kLives * each, pids);
    EventTime last = 0;
    for (std::span<const std::byte> rest = window.log; !rest.empty(); rest = rest.subspan(next_record(rest).size())) {
      const EventTime time = parse_trailer(next_record(rest))->time_ns;
      EXPECT_GE(time, std::max(last, begin));
      last = time;
    }
    for (int i = from; i < kLives; i += 199) {
      const EventTime start = first + static_cast<EventTime>(i) * each;
      const auto pid = static_cast<std::uint32_t>(1000 + i % 10);
      const std::string name = "life" + std::to_string(i);
      if (start > begin) {
        EXPECT_EQ(read(window, start).comm_of(pid, pid), "bash") << "forked, not yet execed";
        EXPECT_EQ(read(window, start).map_at(pid, 0x1800), "/bin/bash");
      }
      const ReaderModel model = read(window, start + 5 * kStep);
      EXPECT_EQ(model.comm_of(pid, pid), name);
      EXPECT_EQ(model.comm_of(pid, pid + 50), name);
      EXPECT_EQ(model.map_at(pid, 0x5800), "/bin/" + name);
      EXPECT_EQ(model.map_at(pid, 0x1800), "");
      EXPECT_FALSE(read(window, start + 8 * kStep).processes.contains(pid)) << i;
    }
  }
  ledger.fold(first + kLives * each);
  EXPECT_EQ(ledger.stats().exited, 0U);
  EXPECT_EQ(ledger.stats().processes, 1U);
}

TEST(Bounds, TheLongestDeadGoFirstAndAreCounted) {
  constexpr std::size_t kState = 256U << 10U;
  Ledger ledger({.log_bytes = 8U << 10U, .state_bytes = kState});
  ledger.add(shell().bytes());
  constexpr int kLives = 5000;
  for (int i = 0; i < kLives; ++i) {
    Tape tape;
    live(tape, kSecond + static_cast<EventTime>(i) * 10 * kStep, i);
    ledger.add(tape.bytes());
    ASSERT_LE(ledger.stats().state_bytes, kState);
  }
  const LedgerStats stats = ledger.stats();
  EXPECT_GT(stats.evicted, 1000U);
  EXPECT_GT(stats.exited, 100U);
  EXPECT_EQ(stats.evicted + stats.exited, static_cast<std::uint64_t>(kLives));
  EXPECT_EQ(stats.processes, 1U) << "the living must stay";
  const auto window = ledger.export_window(0, 100 * kSecond, {100, 1000, 1009});
  const auto life = [&](int i) {
    const auto pid = static_cast<std::uint32_t>(1000 + i % 10);
    return read(window, kSecond + static_cast<EventTime>(i) * 10 * kStep + 5 * kStep).comm_of(pid, pid);
  };
  EXPECT_EQ(life(kLives - 1), "life4999");
  EXPECT_EQ(life(0), "");
  EXPECT_EQ(read(window, kSecond).comm_of(100, 100), "bash");
}

TEST(Bounds, SoMuchAtOnceThatRingsMayBeBehindMakesItStale) {
  Ledger ledger({.log_bytes = 4096, .state_bytes = 1U << 20U});
  Tape tape;
  for (std::uint32_t i = 0; i < 1000; ++i) tape.fork(kSecond + i, 1, 5000 + i);
  ledger.add(tape.bytes());
  EXPECT_LE(ledger.stats().log_bytes, 4096U);
  EXPECT_TRUE(ledger.stats().stale);
  EXPECT_EQ(ledger.stats().processes, 1000U);
}

TEST(Bounds, AFloodOfLivingProcessesWithManyMapsIsBounded) {
  constexpr std::size_t kState = 1U << 20U;
  Ledger ledger({.log_bytes = 64U << 10U, .state_bytes = kState});
  EventTime time = kSecond;
  for (std::uint32_t pid = 100; pid < 400; ++pid) {
    Tape tape;
    tape.fork(time++, 1, pid);
    for (std::uint64_t i = 0; i < 100; ++i) {
      tape.map(time++, pid, 0x10000 + i * 0x2000, 0x1000, "/tmp/code" + std::to_string(pid));
      tape.thread(time++, pid, 10000 + pid * 100 + static_cast<std::uint32_t>(i));
    }
    ledger.add(tape.bytes());
    ASSERT_LE(ledger.stats().state_bytes, kState) << pid;
  }
  const ReaderModel model = read(ledger.export_window(time, time, {399}));
  EXPECT_NE(model.text_of(399), "");
}

TEST(Bounds, AJitDoesNotGrowForEver) {
  ProcessTable table;
  Tape tape;
  tape.fork(1, 1, 100);
  for (std::uint64_t i = 0; i < 3 * kMaxMapsPerProcess; ++i) tape.map(2 + i, 100, i * 0x2000, 0x1000, "//anon");
  std::span<const std::byte> rest = tape.bytes();
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    table.apply(record, parse_trailer(record)->time_ns);
    rest = rest.subspan(record.size());
  }
  const auto& maps = table.of(100)[0].image.maps->all();
  EXPECT_LE(maps.size(), kMaxMapsPerProcess);
  EXPECT_GE(maps.size(), kMaxMapsPerProcess / 2);
  EXPECT_EQ(maps.back().address, (3 * kMaxMapsPerProcess - 1) * 0x2000) << "the newest must stay";
}

TEST(Bounds, TheBooksAreEmptyWhenAllIsForgotten) {
  ProcessTable table;
  const std::size_t empty = table.bytes();
  Tape tape = shell();
  for (int i = 0; i < 100; ++i) live(tape, kSecond + static_cast<EventTime>(i) * kSecond, i);
  tape.exit(200 * kSecond, 100);
  std::span<const std::byte> rest = tape.bytes();
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    table.apply(record, parse_trailer(record)->time_ns);
    rest = rest.subspan(record.size());
  }
  EXPECT_EQ(table.dead(), 101U);
  EXPECT_GT(table.bytes(), empty + 10'000);
  table.forget(300 * kSecond);
  EXPECT_EQ(table.dead() + table.alive(), 0U);
  EXPECT_EQ(table.bytes(), empty);
}

TEST(Bounds, AForkSharesItsParentsMaps) {
  ProcessTable table;
  Tape tape = shell();
  for (std::uint32_t pid = 200; pid < 1200; ++pid) tape.fork(pid, 100, pid);
  std::span<const std::byte> rest = tape.bytes();
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    table.apply(record, parse_trailer(record)->time_ns);
    rest = rest.subspan(record.size());
  }
  EXPECT_EQ(table.of(1199)[0].image.maps, table.of(100)[0].image.maps);
  EXPECT_LT(table.bytes(), 1000U * 400U);
}

}  // namespace
}  // namespace flight
