// SPDX-License-Identifier: Apache-2.0
// Since when all executable mappings of a process are known, and of which processes they are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/mappings.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr EventTime kNeverKnown = UINT64_MAX;

class CompleteMaps : public testing::Test {
 protected:
  // Of pid 200; `read_ns`: as for add_scan().
  void scan(EventTime asked_ns, EventTime read_ns, bool partly = false) {
    Tape tape;
    tape.scanned(2, 0, 0, "kthreadd");
    tape.scanned(200, 1, 3 * kSecond, "server", partly);
    tape.map(0, 200, 0x1000, 0x1000, "/bin/server");
    tape.all_listed();
    tracker_.add_scan(tape.bytes(), asked_ns, {}, ClockHistory(), read_ns);
  }
  void lose(EventTime begin_ns, EventTime end_ns) {
    Tape tape;
    tape.cgroup(begin_ns, 1, "/");
    tape.lost(end_ns, 1000);
    tracker_.add(tape.bytes());
  }
  [[nodiscard]] TrackerExport window() const { return tracker_.export_window(15 * kSecond, 300 * kSecond, {2, 200}); }

  ProcessTracker tracker_;
};

// What a process unmapped before it was read is not in the scan.
TEST_F(CompleteMaps, AreKnownFromTheEndOfTheScanOn) {
  EXPECT_EQ(window().maps_from_ns, kNeverKnown) << "nobody has looked at the processes";
  scan(10 * kSecond, 12 * kSecond);
  EXPECT_EQ(window().maps_from_ns, 12 * kSecond);
  EXPECT_THAT(window().partial_maps, IsEmpty());
}

TEST_F(CompleteMaps, AreNotKnownIfNobodySaysWhenTheScanWasRead) {
  Tape tape;
  tape.scanned(200, 1, 3 * kSecond, "server");
  tape.all_listed();
  tracker_.add_scan(tape.bytes(), 10 * kSecond);
  EXPECT_EQ(window().maps_from_ns, kNeverKnown);
}

TEST_F(CompleteMaps, AreNotKnownAfterALossUntilTheNextScan) {
  scan(10 * kSecond, 12 * kSecond);
  lose(20 * kSecond, 40 * kSecond);
  EXPECT_EQ(window().maps_from_ns, kNeverKnown);
  scan(50 * kSecond, 51 * kSecond);
  EXPECT_EQ(window().maps_from_ns, 51 * kSecond);
}

TEST_F(CompleteMaps, AScanWithoutProcessesSaysNothing) {
  scan(10 * kSecond, 12 * kSecond);
  tracker_.add_scan({}, 20 * kSecond, {}, ClockHistory(), 21 * kSecond);
  EXPECT_EQ(window().maps_from_ns, 12 * kSecond);
}

// The mark stays when flightd gives up reading the process.
TEST_F(CompleteMaps, OfAProcessThatWasPartlyReadAreNot) {
  EventTime time_ns = 10 * kSecond;
  do {
    scan(time_ns, time_ns + kSecond, true);
    EXPECT_THAT(window().partial_maps, UnorderedElementsAre(200U));
    time_ns += 10 * kSecond;
  } while (tracker_.wants_scan() && time_ns < 200 * kSecond);
  ASSERT_FALSE(tracker_.wants_scan()) << "it has not given up";
  EXPECT_EQ(window().maps_from_ns, time_ns - 9 * kSecond);
  EXPECT_THAT(window().partial_maps, UnorderedElementsAre(200U));
  scan(210 * kSecond, 211 * kSecond);
  EXPECT_THAT(window().partial_maps, IsEmpty());
}

TEST_F(CompleteMaps, OfAProcessWithTooManyAreNot) {
  scan(10 * kSecond, 12 * kSecond);
  Tape tape;
  for (std::uint64_t i = 0; i < 3 * kMaxMapsPerProcess; ++i)
    tape.map(13 * kSecond + i, 200, 0x10000 + i * 0x2000, 0x1000, "//anon");
  tracker_.add(tape.bytes());
  EXPECT_THAT(window().partial_maps, UnorderedElementsAre(200U));
}

// The next flightd has the mappings of its predecessor, but does not know what happened in between.
TEST_F(CompleteMaps, AreNotKnownAfterARestart) {
  scan(10 * kSecond, 12 * kSecond);
  RecordBuffer kept;
  (void)tracker_.checkpoint(
      1U << 20U, [&](std::span<const std::byte> some) { kept.insert(kept.end(), some.begin(), some.end()); });
  ProcessTracker after;
  after.replay(kept, {});
  EXPECT_EQ(after.export_window(15 * kSecond, 300 * kSecond, {200}).maps_from_ns, kNeverKnown);
}

}  // namespace
}  // namespace flight
