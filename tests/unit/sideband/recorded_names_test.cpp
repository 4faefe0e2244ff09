// SPDX-License-Identifier: Apache-2.0
// The names in a file that is written while the process tracker learns more: a recording. What a scan finds out about
// times that the file has already must not be missing, and no name may be given that is in doubt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sideband/revisions.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kProgramAt = 0xffff0000;

TEST(RevisionsTest, TheEarliestChangeSinceOneIsKnown) {
  Revisions revisions;
  EXPECT_EQ(revisions.changed_from_ns(0), Revisions::kNever);
  revisions.add(7);
  revisions.add(5);
  revisions.add(9);
  EXPECT_EQ(revisions.number(), 3U);
  EXPECT_EQ(revisions.changed_from_ns(0), 5U);
  EXPECT_EQ(revisions.changed_from_ns(2), 9U);
  EXPECT_EQ(revisions.changed_from_ns(3), Revisions::kNever);
  for (EventTime time = 100; time < 200; ++time) revisions.add(time);
  EXPECT_EQ(revisions.changed_from_ns(3), 0U) << "it is too long ago";
  EXPECT_EQ(revisions.changed_from_ns(revisions.number() - 1), 199U);
}

// The file begins at 15 s, has everything up to 21 s, and nothing was recorded between 20 s and 40 s.
class RecordedNames : public testing::Test {
 protected:
  RecordedNames() {
    Tape first;
    add_server(first);
    first.scanned(300, 1, 3 * kSecond, "killed");
    first.all_listed();
    tracker_.add_scan(first.bytes(), 10 * kSecond);
    Tape tape;
    tape.ksymbol(12 * kSecond, kProgramAt, "bpf_prog_old");
    tracker_.add(tape.bytes());
    const TrackerExport whole = tracker_.export_window(15 * kSecond, 15 * kSecond, tracker_.pids());
    names_.revision = tracker_.revision();
    file_.apply_all(whole.prologue);
    file_.apply_all(whole.log);
    at_ns_ = 15 * kSecond;
  }
  static void add_server(Tape& scan) {
    scan.scanned(2, 0, 0, "kthreadd");
    scan.scanned(200, 1, 3 * kSecond, "server");
    scan.map(0, 200, 0x1000, 0x1000, "/bin/server");
    scan.thread(0, 200, 201);
    scan.comm(0, 200, 201, "worker");
  }
  // Writes the next round.
  ProcessTracker::Next write(EventTime until_ns) {
    auto next = tracker_.export_next(at_ns_, until_ns, names_);
    EXPECT_EQ(next.whole, !next.state.prologue.empty());
    file_.apply_all(next.state.prologue);
    file_.apply_all(next.state.log);
    at_ns_ = until_ns;
    return next;
  }
  void write_and_pause() {
    EXPECT_FALSE(write(21 * kSecond).whole);
    tracker_.add_gap(20 * kSecond, 40 * kSecond);
  }
  // The process with the number of the one that was killed in the pause ends. No scan has seen it.
  void end_of_successor(EventTime time_ns) {
    Tape tape;
    tape.exit(time_ns, 300);
    tracker_.add(tape.bytes());
  }
  void scan(EventTime asked_ns) {
    Tape scan;
    add_server(scan);
    scan.all_listed();
    tracker_.add_scan(scan.bytes(), asked_ns);
  }

  static constexpr const char* kServer = "200 of 1: 200=server 201=worker 1000-2000@1000/bin/server\n";
  static constexpr const char* kLostServer = "200 of 1: 200=[lost]\n";
  ProcessTracker tracker_;
  ReaderModel file_;
  FileNames names_;
  EventTime at_ns_ = 0;
};

TEST_F(RecordedNames, AScanBeforeTheNextRoundCorrectsWhatTheFileHas) {
  write_and_pause();
  EXPECT_EQ(file_.comm_of(300, 300), "killed");
  end_of_successor(41 * kSecond);
  scan(42 * kSecond);
  EXPECT_TRUE(write(40 * kSecond + 1).whole);
  EXPECT_EQ(file_.comm_of(300, 300), "[lost]") << "the number is that of another process";
  EXPECT_EQ(file_.text_of(200), kServer) << "confirmed";
  const auto snapshot = tracker_.export_window(15 * kSecond, 60 * kSecond, tracker_.pids());
  EXPECT_EQ(read(snapshot, 40 * kSecond + 1).comm_of(300, 300), "[lost]") << "a snapshot has the same";
  EXPECT_EQ(read(snapshot, 40 * kSecond + 1).text_of(200), kServer);
  const auto next = write(50 * kSecond);
  EXPECT_FALSE(next.whole) << "once";
  EXPECT_FALSE(file_.processes.contains(300));
}

TEST_F(RecordedNames, NobodyHasANameUntilTheScanAndThenAllHave) {
  write_and_pause();
  const auto doubted = write(41 * kSecond);
  EXPECT_TRUE(doubted.whole);
  EXPECT_THAT(testing::PrintToString(doubted.state.warnings), HasSubstr("could not be looked up in time"));
  EXPECT_EQ(file_.text_of(200), kLostServer);
  EXPECT_EQ(file_.comm_of(300, 300), "[lost]");
  Tape tape;
  tape.fork(42 * kSecond, 200, 400);
  tape.exec(42 * kSecond + 1, 400, "cc1plus");
  tape.map(42 * kSecond + 2, 400, 0x8000, 0x1000, "/bin/cc");
  tracker_.add(tape.bytes());
  EXPECT_FALSE(write(43 * kSecond).whole);
  EXPECT_EQ(file_.text_of(400), "400 of 200: 400=[lost]\n");
  Tape scan;
  add_server(scan);
  scan.scanned(400, 200, 42 * kSecond, "cc1plus");
  scan.map(0, 400, 0x8000, 0x1000, "/bin/cc");
  scan.all_listed();
  tracker_.add_scan(scan.bytes(), 44 * kSecond);
  EXPECT_TRUE(write(45 * kSecond).whole);
  EXPECT_EQ(file_.text_of(200), kServer);
  EXPECT_EQ(file_.text_of(400), "400 of 200: 400=cc1plus 8000-9000@1000/bin/cc\n");
  EXPECT_FALSE(names_.all_lost);
  EXPECT_FALSE(write(46 * kSecond).whole);
}

// A storm of records: losses follow each other faster than scans. What was recorded between two of them is in doubt
// after the second one.
TEST_F(RecordedNames, AnotherGapBeforeTheScanNeedsNoStateAndLeavesNoName) {
  write_and_pause();
  EXPECT_TRUE(write(41 * kSecond).whole);
  Tape tape;
  tape.exec(42 * kSecond, 200, "renamed");
  tape.fork(42 * kSecond + 1, 200, 400);
  tape.map(42 * kSecond + 2, 200, 0x8000, 0x1000, "/bin/renamed");
  tracker_.add(tape.bytes());
  EXPECT_FALSE(write(43 * kSecond).whole);
  tracker_.add_gap(43 * kSecond - 1, 44 * kSecond);
  EXPECT_FALSE(write(45 * kSecond).whole);
  EXPECT_EQ(file_.text_of(200), kLostServer);
  EXPECT_EQ(file_.comm_of(400, 400), "[lost]");
}

TEST_F(RecordedNames, AGapThatBeginsInsideOfARoundLeavesTheNamesBefore) {
  tracker_.add_gap(20 * kSecond, 40 * kSecond);
  auto next = tracker_.export_next(at_ns_, 45 * kSecond, names_);
  EXPECT_FALSE(next.whole);
  EXPECT_THAT(next.state.prologue, IsEmpty());
  ReaderModel before = file_;
  before.apply_all(next.state.log, 20 * kSecond - 1);
  EXPECT_EQ(before.text_of(200), kServer);
  file_.apply_all(next.state.log);
  EXPECT_EQ(file_.text_of(200), kLostServer);
  EXPECT_THAT(testing::PrintToString(next.state.warnings), HasSubstr("could not be looked up in time"));
}

// A part that begins while names are in doubt.
TEST_F(RecordedNames, APartThatBeganWithoutNamesGetsThem) {
  tracker_.add_gap(20 * kSecond, 40 * kSecond);
  const TrackerExport whole = tracker_.export_window(41 * kSecond, 41 * kSecond, tracker_.pids());
  FileNames names{.revision = tracker_.revision()};
  ReaderModel part = read(whole);
  EXPECT_EQ(part.text_of(200), kLostServer);
  scan(42 * kSecond);
  const auto next = tracker_.export_next(41 * kSecond, 43 * kSecond, names);
  EXPECT_TRUE(next.whole);
  part.apply_all(next.state.prologue);
  part.apply_all(next.state.log);
  EXPECT_EQ(part.text_of(200), kServer);
}

TEST_F(RecordedNames, OneThatWasNotReadIsNamedWhenItIs) {
  write_and_pause();
  Tape partial;
  partial.scanned(2, 0, 0, "kthreadd");
  partial.unread(200);
  partial.all_listed();
  tracker_.add_scan(partial.bytes(), 42 * kSecond);
  EXPECT_TRUE(write(43 * kSecond).whole);
  EXPECT_EQ(file_.text_of(200), kLostServer);
  EXPECT_EQ(file_.comm_of(2, 2), "kthreadd");
  EXPECT_FALSE(names_.all_lost);
  EXPECT_FALSE(write(44 * kSecond).whole);
  EXPECT_EQ(file_.text_of(200), kLostServer);
  scan(45 * kSecond);
  EXPECT_TRUE(write(46 * kSecond).whole);
  EXPECT_EQ(file_.text_of(200), kServer);
}

TEST_F(RecordedNames, ASymbolThatEndedInTheGapEnds) {
  write_and_pause();
  Tape scan;
  add_server(scan);
  scan.symbols_listed(42 * kSecond);
  scan.all_listed();
  tracker_.add_scan(scan.bytes(), 42 * kSecond);
  EXPECT_TRUE(file_.ksymbols.contains(kProgramAt));
  EXPECT_TRUE(write(43 * kSecond).whole);
  EXPECT_FALSE(file_.ksymbols.contains(kProgramAt));
}

// Readers act at once on a record of time 0, on samples of earlier rounds, too; and not all of them keep the order of
// equal times, in which a FORK must come first.
TEST_F(RecordedNames, AStateInTheMiddleHasTheTimeOfTheRoundBefore) {
  write_and_pause();
  scan(42 * kSecond);
  const auto next = write(43 * kSecond);
  ASSERT_TRUE(next.whole);
  std::span<const std::byte> rest = next.state.prologue;
  std::size_t forks = 0;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    const EventTime time_ns = parse_trailer(record)->time_ns;
    if (load<perf_event_header>(record.data()).type == PERF_RECORD_FORK) {
      ++forks;
      EXPECT_EQ(time_ns, 21 * kSecond);
    } else if (const auto comm = parse_comm(record); !comm || comm->name != "[lost]") {
      EXPECT_EQ(time_ns, 21 * kSecond + 1);
    }
  }
  EXPECT_GT(forks, 2U) << "also those that a file's beginning does not need: each ends what was known before";
}

class AfterAPause : public RecordedNames {
 protected:
  [[nodiscard]] std::string warnings_of(const std::unordered_set<std::uint32_t>& pids) const {
    return testing::PrintToString(tracker_.export_window(15 * kSecond, 60 * kSecond, pids).warnings);
  }
};

TEST_F(AfterAPause, ALostNameHasItsReason) {
  write_and_pause();
  end_of_successor(41 * kSecond);
  scan(42 * kSecond);
  EXPECT_THAT(warnings_of({200, 300}),
              HasSubstr("nothing was recorded for 20.000 s: 1 process is called [lost], because it ended or changed"));
  EXPECT_EQ(warnings_of({2, 200}), testing::PrintToString(std::vector<std::string>())) << "the others are confirmed";
}

}  // namespace
}  // namespace flight
