// SPDX-License-Identifier: Apache-2.0
// Which executable a process runs: the tracker knows it from the kernel's records or a scan, and keeps it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using Programs = std::map<std::uint32_t, std::string>;

// What a file of [begin, end] says, apart from the kernel's own records.
Programs programs_in(const ProcessTracker& tracker, EventTime begin_ns, EventTime end_ns,
                     const std::unordered_set<std::uint32_t>& pids) {
  const TrackerExport window = tracker.export_window(begin_ns, end_ns, pids);
  Programs out;
  for (const RecordBuffer* records : {&window.prologue, &window.log}) {
    std::span<const std::byte> rest(*records);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      if (const auto map = parse_mmap2(record)) {
        EXPECT_GT(map->bytes, 0U) << "perf does not expect this";
        if (map->is_program && pids.contains(map->pid)) out[map->pid] = map->name;
      }
    }
  }
  for (const TrackerExport::Program& program : window.programs)
    if (pids.contains(program.pid)) out[program.pid] = program.path;
  return out;
}

ProcessTracker restored(const ProcessTracker& tracker) {
  RecordBuffer bytes;
  const auto omissions = tracker.checkpoint(1U << 20U, [&](std::span<const std::byte> records) {
    bytes.insert(bytes.end(), records.begin(), records.end());
  });
  ProcessTracker out;
  out.replay(bytes, omissions.losses);
  return out;
}

class Program : public testing::Test {
 protected:
  Program() {
    tape_.fork(10, 1, 100);
    tape_.exec(11, 100, "bash");
    tape_.map(12, 100, 0x8000, 0x1000, "/bin/bash");
    tape_.map(13, 100, 0x1000, 0x1000, "/lib/ld.so");
  }
  void fold(EventTime horizon_ns) {
    tracker_.add(tape_.take());
    tracker_.fold(horizon_ns);
  }
  // Also after a restart.
  void expect(EventTime begin_ns, EventTime end_ns, const Programs& wanted) {
    std::unordered_set<std::uint32_t> pids;
    for (const auto& [pid, path] : wanted) pids.insert(pid);
    EXPECT_EQ(programs_in(tracker_, begin_ns, end_ns, pids), wanted);
    EXPECT_EQ(programs_in(restored(tracker_), begin_ns, end_ns, pids), wanted);
  }
  Tape tape_;
  ProcessTracker tracker_;
};

TEST_F(Program, IsTheFirstFileAfterAnExec) {
  fold(50);
  expect(60, 70, {{100, "/bin/bash"}});
}

TEST_F(Program, IsInheritedWhateverIsMappedLater) {
  tape_.fork(20, 100, 101);
  tape_.comm(21, 101, 101, "sshd");
  tape_.map(22, 101, 0x500, 0x1000, "/lib/early.so");
  fold(50);
  expect(60, 70, {{100, "/bin/bash"}, {101, "/bin/bash"}});
}

TEST_F(Program, IsUnknownFromAnExecUntilAFileIsMapped) {
  tape_.fork(20, 100, 101);
  tape_.exec(30, 101, "true");
  tape_.map(31, 101, 0x7000, 0x1000, "//anon");
  fold(35);
  EXPECT_THAT(programs_in(tracker_, 40, 50, {101}), testing::IsEmpty());
  EXPECT_THAT(programs_in(restored(tracker_), 40, 50, {101}), testing::IsEmpty());
  tape_.map(36, 101, 0x9000, 0x1000, "/bin/true");
  tape_.map(37, 101, 0x2000, 0x1000, "/lib/ld.so");
  fold(50);
  expect(60, 70, {{101, "/bin/true"}});
}

TEST_F(Program, OfAScanIsKnownAndInherited) {
  fold(15);
  tape_.scanned(200, 1, 5, "java");
  tape_.map(0, 200, 0x100, 0x1000, "/opt/classes.jsa");
  tape_.scanned_program(200, 0x8000, "/opt/bin/java");
  tracker_.add_scan(tape_.take(), 20);
  tape_.fork(30, 200, 201);
  fold(50);
  expect(60, 70, {{200, "/opt/bin/java"}, {201, "/opt/bin/java"}});
}

// Its parent was not known when it was forked.
TEST_F(Program, OfAKnownProcessIsLearnedFromAScan) {
  tape_.fork(20, 50, 300);
  tape_.map(21, 300, 0x8000, 0x1000, "/bin/daemon");
  fold(50);
  EXPECT_THAT(programs_in(tracker_, 60, 70, {300}), testing::IsEmpty()) << "it need not be the executable";
  tape_.scanned(300, 50, 20, "");
  tape_.scanned_program(300, 0x8000, "/bin/daemon");
  tracker_.add_scan(tape_.take(), 55);
  tracker_.fold(56);
  expect(60, 70, {{300, "/bin/daemon"}});
}

// It has moved its code to memory without a file: only /proc/PID/exe says what it is.
TEST_F(Program, OfAScanNeedsNoMapping) {
  fold(15);
  const auto scan = [this](EventTime asked_ns) {
    tape_.scanned(200, 1, 5, "mysqld");
    tape_.map(0, 200, 0x8000, 0x1000, "//anon");
    tape_.scanned_executable(200, "/opt/bin/mysqld");
    tracker_.add_scan(tape_.take(), asked_ns);
  };
  scan(20);
  const std::size_t log_bytes = tracker_.stats().log_bytes;
  for (EventTime asked_ns = 21; asked_ns < 25; ++asked_ns) scan(asked_ns);
  EXPECT_EQ(tracker_.stats().log_bytes, log_bytes) << "the next scan has nothing new";
  tape_.fork(30, 200, 201);
  fold(50);
  expect(60, 70, {{200, "/opt/bin/mysqld"}, {201, "/opt/bin/mysqld"}});
}

// The broker could not read the path of an executable that there is.
TEST_F(Program, ThatCouldNotBeReadIsLearnedFromALaterScan) {
  fold(15);
  const auto scan = [this](EventTime asked_ns, std::string_view path) {
    tape_.scanned(20, 2, 5, "[helper]");
    tape_.scanned_executable(20, path);
    tracker_.add_scan(tape_.take(), asked_ns);
  };
  scan(20, kUnreadProgram);
  expect(60, 70, {{20, std::string(kUnreadProgram)}});
  scan(30, "/sbin/helper");
  expect(60, 70, {{20, "/sbin/helper"}});
  scan(40, kUnreadProgram);
  expect(60, 70, {{20, "/sbin/helper"}});
}

// Its text is another mapping than before the pause, so all that was known of it is in doubt.
TEST_F(Program, IsKnownAfterAGapWhateverIsMapped) {
  fold(15);
  tracker_.add_gap(2 * kSecond, 4 * kSecond);
  tape_.scanned(100, 1, 10, "bash");
  tape_.map(0, 100, 0x8000, 0x1000, "//anon");
  tape_.map(0, 100, 0x1000, 0x1000, "/lib/ld.so");
  tape_.scanned_executable(100, "/bin/bash");
  tape_.all_listed();
  tracker_.add_scan(tape_.take(), 5 * kSecond);
  tape_.fork(6 * kSecond, 100, 101);
  tracker_.add(tape_.take());
  for (const EventTime horizon_ns : {EventTime{20}, 7 * kSecond}) {
    tracker_.fold(horizon_ns);
    expect(8 * kSecond, 9 * kSecond, {{100, "/bin/bash"}, {101, "/bin/bash"}});
    expect(3 * kSecond, 9 * kSecond, {{100, "/bin/bash"}});
  }
}

// The record of an executable that covers nothing is no other mapping.
TEST_F(Program, AScanOfTheExecutableAloneConfirms) {
  fold(15);
  tracker_.add_gap(2 * kSecond, 4 * kSecond);
  tape_.scanned(100, 1, 10, "bash", true);
  tape_.scanned_executable(100, "/bin/bash");
  tape_.all_listed();
  tracker_.add_scan(tape_.take(), 5 * kSecond);
  EXPECT_EQ(tracker_.stats().unsure, 0U);
  expect(8 * kSecond, 9 * kSecond, {{100, "/bin/bash"}});
}

// Memory is short: the ended lose their mappings, and keep name and program.
TEST(ProgramOfTheDead, IsKeptWithoutMappings) {
  ProcessTracker tracker({.log_bytes = 64U << 10U, .state_bytes = 192U << 10U, .export_bytes = 1U << 20U});
  Tape tape;
  constexpr std::uint32_t kMany = 400;
  for (std::uint32_t pid = 1000; pid < 1000 + kMany; ++pid) {
    const EventTime at = kSecond + pid * 1000;
    tape.fork(at, 1, pid);
    tape.exec(at + 1, pid, "child");
    tape.map(at + 2, pid, 0x8000, 0x1000, "/bin/child");
    for (std::uint64_t i = 0; i < 20; ++i) tape.map(at + 3, pid, 0x100000 + i * 0x2000, 0x1000, "//anon");
    tape.exit(at + 4, pid);
    tracker.add(tape.take());
  }
  ASSERT_EQ(tracker.stats().evicted, 0U);
  const TrackerExport window = tracker.export_window(0, 10 * kSecond, {1000, 1000 + kMany - 1});
  ASSERT_EQ(window.programs.size(), 1U) << "only the newest has its mappings";
  EXPECT_EQ(window.programs[0].pid, 1000U);
  const Programs wanted{{1000, "/bin/child"}};
  EXPECT_EQ(programs_in(tracker, 0, 10 * kSecond, {1000}), wanted);
  EXPECT_EQ(programs_in(restored(tracker), 0, 10 * kSecond, {1000}), wanted);
}

}  // namespace
}  // namespace flight
