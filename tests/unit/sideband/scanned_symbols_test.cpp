// SPDX-License-Identifier: Apache-2.0
// Generated code that a scan lists: before the recording, after a gap, and while records come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::uint64_t kA = 0xffffffffc0001000, kB = 0xffffffffc0002000;
using Symbols = std::vector<std::pair<std::uint64_t, std::string_view>>;

class Listed : public testing::Test {
 protected:
  // `asked`: later than `read` if the broker sends a list again; 0: just before it.
  void scan(EventTime read, const Symbols& symbols, std::uint64_t bits = 0, EventTime asked = 0) {
    Tape tape;
    tape.scanned(1, 0, 1, "init");
    for (const auto& [address, name] : symbols) tape.listed_symbol(address, name);
    tape.symbols_listed(read, bits);
    tape.all_listed();
    tracker_.add_scan(tape.bytes(), asked != 0 ? asked : read - 1);
  }
  void record(EventTime time, std::uint64_t address, std::string_view name, bool gone = false) {
    Tape tape;
    tape.ksymbol(time, address, name, gone);
    tracker_.add(tape.bytes());
  }
  // The names at `time`, of a window [begin, 1000].
  [[nodiscard]] std::map<std::uint64_t, std::string> names(EventTime time, EventTime begin = 0) const {
    return read(tracker_.export_window(begin, 1000, {}), time).ksymbols;
  }
  ProcessTracker tracker_;
};

TEST_F(Listed, WithoutAGapItWasThereBefore) {
  record(60, kB, "bpf_prog_two");
  scan(50, {{kA, "bpf_prog_one"}});
  EXPECT_THAT(names(10), ElementsAre(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(names(70), ElementsAre(Pair(kA, "bpf_prog_one"), Pair(kB, "bpf_prog_two")));
  EXPECT_THAT(names(70, 65), ElementsAre(Pair(kA, "bpf_prog_one"), Pair(kB, "bpf_prog_two")));
}

TEST_F(Listed, WhatEndedAfterTheListWasReadWasThereBefore) {
  record(60, kA, "bpf_prog_one", true);
  scan(50, {{kA, "bpf_prog_one"}});
  EXPECT_THAT(names(10), ElementsAre(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(names(70), IsEmpty());
}

TEST_F(Listed, WhatWasLoadedInAGapIsKnownFromItsEndOn) {
  scan(10, {});
  tracker_.add_gap(20, 30);
  scan(40, {{kA, "bpf_prog_one"}});
  EXPECT_THAT(names(29), IsEmpty());
  EXPECT_THAT(names(30), ElementsAre(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(names(30, 35), ElementsAre(Pair(kA, "bpf_prog_one"))) << "a window that begins later";
}

TEST_F(Listed, WhatEndedInAGapEndsWithItsBeginning) {
  record(5, kA, "bpf_prog_one");
  tracker_.add_gap(20, 30);
  scan(40, {});
  EXPECT_THAT(names(19), ElementsAre(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(names(20), IsEmpty());
}

TEST_F(Listed, AnAddressThatIsUsedAgainHasNoNameInTheGap) {
  record(5, kA, "bpf_prog_one");
  record(6, kB, "bpf_prog_two");
  tracker_.add_gap(20, 30);
  scan(40, {{kA, "bpf_prog_other"}, {kB, "bpf_prog_two"}});
  EXPECT_THAT(names(19), Contains(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(names(25), ElementsAre(Pair(kB, "bpf_prog_two"))) << "confirmed, so it has its name all the time";
  EXPECT_THAT(names(30), ElementsAre(Pair(kA, "bpf_prog_other"), Pair(kB, "bpf_prog_two")));
}

TEST_F(Listed, LaterRecordsAreRight) {
  tracker_.add_gap(20, 30);
  record(45, kA, "bpf_prog_new");
  record(46, kB, "bpf_prog_two", true);
  scan(40, {{kA, "bpf_prog_new"}, {kB, "bpf_prog_two"}});
  EXPECT_THAT(names(44), ElementsAre(Pair(kB, "bpf_prog_two")));
  EXPECT_THAT(names(50), ElementsAre(Pair(kA, "bpf_prog_new")));
}

TEST_F(Listed, WithoutAGapTheListEndsNothing) {
  record(5, kA, "bpf_prog_one");
  scan(40, {});
  EXPECT_THAT(names(50), ElementsAre(Pair(kA, "bpf_prog_one")));
}

TEST_F(Listed, AListFromBeforeAGapDoesNotEndIt) {
  record(5, kA, "bpf_prog_one");
  tracker_.add_gap(20, 30);
  scan(15, {{kA, "bpf_prog_one"}}, 0, 40);
  EXPECT_THAT(names(40), ElementsAre(Pair(kA, "bpf_prog_one"))) << "the broker knows that none was lost";
  scan(50, {{kA, "bpf_prog_other"}});
  EXPECT_THAT(names(19), ElementsAre(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(names(25), IsEmpty());
  EXPECT_THAT(names(50), ElementsAre(Pair(kA, "bpf_prog_other")));
}

TEST_F(Listed, UntilTheScanComesNothingFromBeforeAGapHasAName) {
  scan(10, {{kA, "bpf_prog_one"}});
  tracker_.add_gap(20, 30);
  record(35, kB, "bpf_prog_two");
  EXPECT_THAT(names(19), ElementsAre(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(names(40), ElementsAre(Pair(kB, "bpf_prog_two")));
  scan(50, {{kA, "bpf_prog_one"}, {kB, "bpf_prog_two"}});
  EXPECT_THAT(names(25), ElementsAre(Pair(kA, "bpf_prog_one"))) << "confirmed later";
}

// An older broker, hidden addresses, or a list that was cut off on its way.
TEST_F(Listed, WithoutAListNothingChanges) {
  record(5, kA, "bpf_prog_one");
  tracker_.add_gap(20, 30);
  Tape tape;
  tape.scanned(1, 0, 1, "init");
  tape.listed_symbol(kB, "bpf_prog_two");
  tape.all_listed();
  tracker_.add_scan(tape.bytes(), 40);
  EXPECT_FALSE(tracker_.stale());
  EXPECT_THAT(names(50), ElementsAre(Pair(kA, "bpf_prog_one")));
}

// The records are no longer in the log when the list comes.
TEST(ListedLate, WhatHasEndedSinceTheListWasReadDoesNotComeBack) {
  ProcessTracker tracker({.log_bytes = 4096});
  Tape tape;
  tape.ksymbol(40, kA, "bpf_prog_one");
  tape.ksymbol(60, kA, "bpf_prog_one", true);
  tape.ksymbol(70, kB, "bpf_prog_two");
  for (std::uint64_t id = 1; id <= 200; ++id) tape.cgroup(100 + id, id, "/system.slice");
  tracker.add(tape.take());
  ASSERT_LE(tracker.stats().log_bytes, 4096U);
  tape.scanned(1, 0, 1, "init");
  tape.listed_symbol(kA, "bpf_prog_one");
  tape.listed_symbol(kB, "bpf_prog_before");
  tape.symbols_listed(50);
  tape.all_listed();
  tracker.add_scan(tape.take(), 49);
  const auto window = tracker.export_window(0, 1000, {});
  EXPECT_THAT(read(window, 45).ksymbols, ElementsAre(Pair(kA, "bpf_prog_one")));
  EXPECT_THAT(read(window, 80).ksymbols, ElementsAre(Pair(kB, "bpf_prog_two")));
}

TEST_F(Listed, NothingIsKnownFromBeforeALostPredecessor) {
  tracker_.know_from(50);
  scan(60, {{kA, "bpf_prog_one"}});
  EXPECT_THAT(names(49), IsEmpty());
  EXPECT_THAT(names(50), ElementsAre(Pair(kA, "bpf_prog_one")));
}

TEST_F(Listed, WhatTheKernelHidesIsReported) {
  const auto window = [&] { return tracker_.export_window(0, 1000, {}); };
  scan(10, {}, kScanSymbolsNoBpf);
  EXPECT_THAT(window().notes, ElementsAre(HasSubstr("the kernel lists no BPF programs")));
  record(15, kA, "bpf_prog_one");
  scan(20, {}, kScanSymbolsNoBpf);
  EXPECT_THAT(window().notes, IsEmpty());
  EXPECT_THAT(window().warnings, ElementsAre(HasSubstr("bpf_jit_harden")));
  scan(30, {{kA, "bpf_prog_one"}}, kScanSymbolsCut);
  EXPECT_THAT(window().warnings, ElementsAre(HasSubstr("too many BPF programs")));
  scan(40, {{kA, "bpf_prog_one"}});
  EXPECT_THAT(window().warnings, IsEmpty());
}

TEST_F(Listed, ACheckpointKeepsIt) {
  scan(10, {{kA, "bpf_prog_one"}});
  RecordBuffer kept;
  (void)tracker_.checkpoint(1U << 20U, [&](auto part) { kept.insert(kept.end(), part.begin(), part.end()); });
  ProcessTracker next;
  next.replay(kept, {});
  EXPECT_THAT(read(next.export_window(0, 1000, {})).ksymbols, ElementsAre(Pair(kA, "bpf_prog_one")));
  bool guessed = false;
  const auto window = next.export_window(0, 1000, {});
  for (const RecordBuffer* records : {&window.prologue, &window.log}) {
    std::span<const std::byte> rest = *records;
    for (auto one = next_record(rest); !one.empty(); one = next_record(rest)) {
      rest = rest.subspan(one.size());
      if (const auto symbol = parse_ksymbol(one)) guessed = (symbol->flags & kGuessedSymbolEnd) != 0;
    }
  }
  EXPECT_TRUE(guessed) << "that its end is a guess";
}

}  // namespace
}  // namespace flight
