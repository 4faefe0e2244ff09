// SPDX-License-Identifier: Apache-2.0
// Incomplete scans on a busy machine, or when processes hang. A process that was not read is neither ended nor
// confirmed; all others are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void add_server(Tape& scan, std::string_view name = "server") {
  scan.scanned(200, 1, 3 * kSecond, name);
  scan.map(0, 200, 0x1000, 0x1000, "/bin/server");
  scan.thread(0, 200, 201);
  scan.comm(0, 200, 201, "worker");
}

class PartialScan : public testing::Test {
 protected:
  // Both are known. Then records are missing between 20 s and 40 s.
  PartialScan() {
    Tape first;
    first.scanned(2, 0, 0, "kthreadd");
    add_server(first);
    first.all_listed();
    tracker_.add_scan(first.bytes(), 10 * kSecond);
    lose(20 * kSecond, 40 * kSecond);
  }
  void lose(EventTime begin_ns, EventTime end_ns) {
    Tape tape;
    tape.cgroup(begin_ns, 1, "/");
    tape.lost(end_ns, 1000);
    tracker_.add(tape.bytes());
  }
  void scan_without_server(EventTime asked_ns) {
    Tape scan;
    scan.scanned(2, 0, 0, "kthreadd");
    scan.unread(200);
    scan.all_listed();
    tracker_.add_scan(scan.bytes(), asked_ns);
  }
  void scan_all(EventTime asked_ns, std::string_view name = "server") {
    Tape scan;
    scan.scanned(2, 0, 0, "kthreadd");
    add_server(scan, name);
    scan.all_listed();
    tracker_.add_scan(scan.bytes(), asked_ns);
  }
  [[nodiscard]] std::string name_of(std::uint32_t pid, EventTime time_ns) const {
    return read(tracker_.export_window(15 * kSecond, 300 * kSecond, {2, 200}), time_ns).comm_of(pid, pid);
  }
  void expect_server_in_doubt() const {
    EXPECT_TRUE(tracker_.stale());
    EXPECT_EQ(tracker_.stats().processes, 2U) << "it was ended";
    EXPECT_EQ(name_of(200, 19 * kSecond), "server");
    EXPECT_EQ(name_of(200, 21 * kSecond), "[lost]");
    EXPECT_EQ(name_of(200, 60 * kSecond), "[lost]");
    EXPECT_EQ(name_of(2, 30 * kSecond), "kthreadd") << "the others are confirmed";
  }

  ProcessTracker tracker_;
};

TEST_F(PartialScan, OneThatWasNotReadStaysInDoubtAndTheOthersAreConfirmed) {
  scan_without_server(50 * kSecond);
  expect_server_in_doubt();
  const auto window = tracker_.export_window(15 * kSecond, 60 * kSecond, {2, 200});
  EXPECT_THAT(testing::PrintToString(window.warnings), HasSubstr("1 process that had run before"));
  scan_all(52 * kSecond);
  EXPECT_FALSE(tracker_.wants_scan());
  EXPECT_EQ(name_of(200, 30 * kSecond), "server") << "confirmed after all";
  EXPECT_EQ(tracker_.stats().unsure, 0U);
}

TEST_F(PartialScan, WhatTheNextScanFindsHoldsFromTheEndOfTheGap) {
  scan_without_server(50 * kSecond);
  scan_all(52 * kSecond, "successor");
  EXPECT_FALSE(tracker_.wants_scan());
  EXPECT_EQ(name_of(200, 39 * kSecond), "[lost]");
  EXPECT_EQ(name_of(200, 40 * kSecond), "successor");
  EXPECT_EQ(name_of(2, 30 * kSecond), "kthreadd");
}

TEST_F(PartialScan, AScanThatMayNotHaveListedAllEndsNobody) {
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  tracker_.add_scan(scan.bytes(), 50 * kSecond);
  expect_server_in_doubt();
  // A scan whose end is missing does not either.
  Tape cut;
  cut.scanned(2, 0, 0, "kthreadd");
  cut.scanned(7, 0, 0, "gone");
  cut.all_listed();
  RecordBuffer bytes = cut.take();
  const RecordBuffer seven = [] {
    Tape tape;
    tape.scanned(7, 0, 0, "gone");
    return tape.take();
  }();
  const auto at = std::search(bytes.begin(), bytes.end(), seven.begin(), seven.end());
  bytes.erase(at, at + static_cast<std::ptrdiff_t>(seven.size()));
  tracker_.add_scan(bytes, 52 * kSecond);
  expect_server_in_doubt();
  scan_all(54 * kSecond);
  EXPECT_EQ(name_of(200, 30 * kSecond), "server");
}

TEST_F(PartialScan, TheDoubtSurvivesARestart) {
  scan_without_server(50 * kSecond);
  ProcessTracker after;
  RecordBuffer kept;
  (void)tracker_.checkpoint(
      1U << 20U, [&](std::span<const std::byte> some) { kept.insert(kept.end(), some.begin(), some.end()); });
  after.replay(kept, {});
  tracker_ = std::move(after);
  expect_server_in_doubt();
  scan_all(60 * kSecond, "successor");
  EXPECT_EQ(name_of(200, 39 * kSecond), "[lost]");
  EXPECT_EQ(name_of(200, 40 * kSecond), "successor");
  EXPECT_EQ(name_of(2, 30 * kSecond), "kthreadd");
}

TEST_F(PartialScan, AnotherGapBeginsItsOwnDoubt) {
  scan_without_server(50 * kSecond);
  lose(60 * kSecond, 70 * kSecond);
  scan_all(80 * kSecond, "successor");
  EXPECT_EQ(name_of(2, 65 * kSecond), "kthreadd");
  EXPECT_EQ(name_of(200, 21 * kSecond), "[lost]");
  EXPECT_EQ(name_of(200, 55 * kSecond), "[lost]") << "it was never confirmed in between";
  EXPECT_EQ(name_of(200, 70 * kSecond), "successor");
}

// While a process cannot be read, flightd requests it again, after longer and longer intervals, but not for ever.
TEST_F(PartialScan, AfterSomeScansItIsLostForGood) {
  int scans = 0;
  for (; tracker_.wants_scan() && scans < 20; ++scans) {
    EXPECT_EQ(name_of(200, 60 * kSecond), "[lost]");
    scan_without_server((50 + static_cast<EventTime>(scans)) * kSecond);
  }
  EXPECT_GT(scans, 3);
  EXPECT_LT(scans, 10);
  EXPECT_FALSE(tracker_.stale());
  EXPECT_EQ(tracker_.stats().processes, 2U);
  EXPECT_EQ(name_of(200, 19 * kSecond), "server");
  EXPECT_EQ(name_of(200, 299 * kSecond), "[lost]");
  EXPECT_EQ(name_of(2, 299 * kSecond), "kthreadd");
  // It has no name until something is recorded of it, or the scan after another gap reads it.
  lose(100 * kSecond, 110 * kSecond);
  scan_all(120 * kSecond);
  EXPECT_EQ(name_of(200, 111 * kSecond), "server");
}

TEST_F(PartialScan, WithoutItsThreadsAndMappingsAProcessIsConfirmedByItsName) {
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  scan.scanned(200, 1, 3 * kSecond, "server", true);
  scan.scanned(300, 1, 30 * kSecond, "young", true);
  scan.all_listed();
  tracker_.add_scan(scan.bytes(), 50 * kSecond);
  EXPECT_FALSE(tracker_.stale());
  EXPECT_TRUE(tracker_.wants_scan());
  auto window = tracker_.export_window(15 * kSecond, 300 * kSecond, {200, 300});
  EXPECT_EQ(read(window, 30 * kSecond).text_of(200), "200 of 1: 200=server 201=worker 1000-2000@1000/bin/server\n")
      << "no thread ended, no mapping went";
  EXPECT_EQ(read(window, 50 * kSecond).text_of(300), "300 of 1: 300=young\n");
  Tape whole;
  whole.scanned(2, 0, 0, "kthreadd");
  add_server(whole);
  whole.map(0, 200, 0x3000, 0x1000, "/lib/new.so");
  whole.scanned(300, 1, 30 * kSecond, "young");
  whole.map(0, 300, 0x1000, 0x1000, "/bin/young");
  whole.all_listed();
  tracker_.add_scan(whole.bytes(), 52 * kSecond);
  EXPECT_FALSE(tracker_.wants_scan());
  window = tracker_.export_window(15 * kSecond, 300 * kSecond, {200, 300});
  EXPECT_EQ(read(window, 30 * kSecond).comm_of(200, 200), "server");
  EXPECT_EQ(read(window, 50 * kSecond).map_at(200, 0x3800), "/lib/new.so");
  EXPECT_EQ(read(window, 50 * kSecond).map_at(300, 0x1800), "/bin/young");
  EXPECT_EQ(read(window, 50 * kSecond).comm_of(300, 300), "young");
}

// If the mappings of a process hang, flightd requests it a few more times, and then accepts its name only.
TEST_F(PartialScan, MappingsThatAreNeverReadAreNotAskedForForEver) {
  int scans = 0;
  for (; tracker_.wants_scan() && scans < 20; ++scans) {
    Tape scan;
    scan.scanned(2, 0, 0, "kthreadd");
    scan.scanned(200, 1, 3 * kSecond, "server", true);
    scan.all_listed();
    tracker_.add_scan(scan.bytes(), (50 + static_cast<EventTime>(scans)) * kSecond);
    EXPECT_EQ(name_of(200, 60 * kSecond), "server");
  }
  EXPECT_GT(scans, 3);
  EXPECT_LT(scans, 10);
}

TEST(FirstScan, WhatItDidNotReadIsAskedForAgain) {
  ProcessTracker tracker;
  Tape scan;
  scan.unread(200);
  scan.scanned(300, 1, 3 * kSecond, "young", true);
  scan.all_listed();
  tracker.add_scan(scan.bytes(), 10 * kSecond);
  EXPECT_FALSE(tracker.stale());
  EXPECT_TRUE(tracker.wants_scan());
  EXPECT_EQ(read(tracker.export_window(0, 60 * kSecond, {200, 300})).comm_of(200, 200), "");
  Tape whole;
  add_server(whole);
  whole.scanned(300, 1, 3 * kSecond, "young");
  whole.map(0, 300, 0x1000, 0x1000, "/bin/young");
  whole.all_listed();
  tracker.add_scan(whole.bytes(), 12 * kSecond);
  EXPECT_FALSE(tracker.wants_scan());
  const auto window = tracker.export_window(5 * kSecond, 60 * kSecond, {200, 300});
  EXPECT_EQ(read(window, 6 * kSecond).comm_of(200, 200), "server");
  EXPECT_EQ(read(window, 13 * kSecond).map_at(300, 0x1800), "/bin/young");
  EXPECT_THAT(window.warnings, IsEmpty());
}

}  // namespace
}  // namespace flight
