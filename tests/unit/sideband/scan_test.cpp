// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sideband/scan_time.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Tape scan_of_a_server() {
  Tape scan;
  scan.cgroup(0, 9, "/server.slice");
  scan.scanned(200, 1, 3 * kSecond, "server");
  scan.map(0, 200, 0x1000, 0x1000, "/bin/server", 0x55);
  scan.thread(0, 200, 201);
  scan.comm(0, 200, 201, "worker");
  scan.scanned(2, 0, 0, "kthreadd");
  return scan;
}

TEST(Scan, ProcessesOfTheFirstScanAreValidFromTheBeginning) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 100 * kSecond);
  EXPECT_EQ(tracker.stats().processes, 2U);
  // Samples older than the scan have their names, too.
  const auto window = tracker.export_window(50 * kSecond, 60 * kSecond, {2, 200});
  EXPECT_EQ(read(window).text(), "2 of 0: 2=kthreadd\n200 of 1: 200=server 201=worker 1000-2000@1000/bin/server\n");
  EXPECT_EQ(read(window).cgroups.at(9), "/server.slice");
  EXPECT_EQ(window.build_ids.size(), 1U);
}

TEST(Scan, AKnownProcessGetsOnlyMissingFacts) {
  ProcessTracker tracker;
  Tape tape;
  tape.fork(10 * kSecond, 1, 200);
  tape.exec(10 * kSecond + 1, 200, "server");
  tape.map(10 * kSecond + 2, 200, 0x1000, 0x1000, "/bin/server");
  tracker.add(tape.bytes());
  Tape scan;
  scan.scanned(200, 1, 10 * kSecond - 7'000'000, "server");  // /proc rounds down
  scan.map(0, 200, 0x1000, 0x1000, "/bin/server");
  scan.map(0, 200, 0x3000, 0x1000, "/lib/missed.so");
  tracker.add_scan(scan.bytes(), 20 * kSecond);
  EXPECT_EQ(tracker.stats().processes, 1U);
  const auto window = tracker.export_window(15 * kSecond, 30 * kSecond, {200});
  EXPECT_EQ(read(window, 19 * kSecond).map_at(200, 0x3800), "");
  EXPECT_EQ(read(window, 20 * kSecond).text(),
            "200 of 1: 200=server 1000-2000@1000/bin/server 3000-4000@1000/lib/missed.so\n");
  ReaderModel log;
  log.apply_all(window.log);
  EXPECT_EQ(log.processes.at(200).maps.size(), 1U) << "what was known was added again";
  tracker.add_scan(scan.bytes(), 25 * kSecond);  // now there is nothing to add
  EXPECT_THAT(tracker.export_window(21 * kSecond, 30 * kSecond, {}).log, IsEmpty());
}

TEST(Scan, AForkThatIsDrainedAfterTheScanIsTheSameProcess) {
  ProcessTracker tracker;
  Tape scan;
  scan.scanned(200, 1, 10 * kSecond - 7'000'000, "server");
  scan.map(0, 200, 0x1000, 0x1000, "/bin/server");
  tracker.add_scan(scan.bytes(), 11 * kSecond);
  Tape tape;
  tape.fork(10 * kSecond, 1, 200);
  tape.exec(10 * kSecond + 1, 200, "server");
  tape.map(10 * kSecond + 2, 200, 0x1000, 0x1000, "/bin/server");
  tracker.add(tape.bytes());
  tracker.fold(12 * kSecond);
  EXPECT_EQ(tracker.stats().processes, 1U);
  EXPECT_EQ(tracker.stats().exited, 0U);
  EXPECT_EQ(read(tracker.export_window(15 * kSecond, 30 * kSecond, {200})).text(),
            "200 of 1: 200=server 1000-2000@1000/bin/server\n");
}

// The parent, 150, ended before the scan came to it; its FORK is from before the first scan.
TEST(Scan, AForkOfAnUnknownParentKeepsWhatTheFirstScanSays) {
  ProcessTracker tracker;
  Tape scan;
  scan.scanned(200, 1, 10 * kSecond - 7'000'000, "sub");
  scan.map(0, 200, 0x1000, 0x1000, "/bin/sub");
  tracker.add_scan(scan.bytes(), 11 * kSecond);
  Tape tape;
  tape.fork(10 * kSecond, 150, 200);
  tape.exit(10 * kSecond + 1, 150);
  tape.map(12 * kSecond, 200, 0x8000, 0x1000, "/lib/plugin.so");
  tracker.add(tape.bytes());
  EXPECT_EQ(tracker.stats().processes, 1U);
  EXPECT_EQ(read(tracker.export_window(13 * kSecond, 30 * kSecond, {200})).text(),
            "200 of 150: 200=sub 1000-2000@1000/bin/sub 8000-9000@1000/lib/plugin.so\n");
  tracker.fold(14 * kSecond);
  EXPECT_EQ(read(tracker.export_window(15 * kSecond, 30 * kSecond, {200})).map_at(200, 0x1800), "/bin/sub");
}

TEST(Scan, RecordsBeforeTheFirstScanOverrideIt) {
  for (const bool folded : {false, true}) {
    ProcessTracker tracker;
    Tape tape;
    tape.map(10 * kSecond, 200, 0x8000, 0x1000, "/lib/plugin.so");  // of a process whose beginning flightd has not seen
    tape.thread(10 * kSecond + 1, 200, 202);
    tape.comm(10 * kSecond + 2, 200, 202, "newer");
    tracker.add(tape.bytes());
    if (folded) tracker.fold(11 * kSecond);
    tracker.add_scan(scan_of_a_server().bytes(), 12 * kSecond);
    EXPECT_EQ(tracker.stats().processes, 2U);
    const ReaderModel model = read(tracker.export_window(11 * kSecond, 13 * kSecond, {200}));
    EXPECT_EQ(model.comm_of(200, 200), "server");
    EXPECT_EQ(model.comm_of(200, 201), "worker");
    EXPECT_EQ(model.map_at(200, 0x1800), "/bin/server");
    EXPECT_EQ(model.map_at(200, 0x8800), "/lib/plugin.so");
    if (!folded) {
      EXPECT_EQ(model.comm_of(200, 202), "newer");
    }
  }
}

TEST(Scan, AnExitDuringTheScanStays) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  Tape tape;
  tape.exit(20 * kSecond, 200, 201);
  tape.exit(20 * kSecond + 1, 200);
  tracker.add(tape.bytes());
  tracker.add_scan(scan_of_a_server().bytes(), 20 * kSecond);  // read just before
  EXPECT_EQ(tracker.stats().processes, 1U);
  EXPECT_FALSE(read(tracker.export_window(21 * kSecond, 30 * kSecond, {200})).processes.contains(200));
}

// Only the scan knows the name of a process from before the recording, also if it has records and ends now.
TEST(Scan, AProcessThatEndsDuringTheFirstScanKeepsItsName) {
  for (const bool folded : {false, true}) {
    ProcessTracker tracker;
    Tape tape;
    tape.map(10 * kSecond, 200, 0x8000, 0x1000, "/lib/plugin.so");
    tracker.add(tape.bytes());
    if (folded) tracker.fold(10 * kSecond + 1);
    Tape end;
    end.exit(12 * kSecond, 200, 201);
    end.exit(12 * kSecond + 1, 200);
    tracker.add(end.bytes());
    tracker.add_scan(scan_of_a_server().bytes(), 12 * kSecond);  // read just before
    const TrackerExport window = tracker.export_window(11 * kSecond, 13 * kSecond, {200});
    const ReaderModel model = read(window, 11 * kSecond);
    EXPECT_EQ(model.comm_of(200, 200), "server") << folded;
    EXPECT_EQ(model.map_at(200, 0x1800), "/bin/server");
    EXPECT_EQ(model.map_at(200, 0x8800), "/lib/plugin.so");
    EXPECT_FALSE(read(window).processes.contains(200)) << "it has ended";
  }
}

// Records are missing since the scan at 20 s. The next scan was requested at 50 s.
Tape lost() {
  Tape tape;
  tape.cgroup(20 * kSecond, 1, "/");
  tape.lost(40 * kSecond, 1000);
  return tape;
}

TEST(Scan, AfterALossTheAbsentAreLostAndEndedWithIt) {
  for (const bool lossy : {false, true}) {
    ProcessTracker tracker;
    tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
    if (lossy) tracker.add(lost().bytes());
    Tape young;
    young.fork(49 * kSecond, 2, 300);  // it may have begun during the scan
    tracker.add(young.bytes());
    Tape scan;
    scan.scanned(2, 0, 0, "kthreadd");
    scan.all_listed();
    tracker.add_scan(scan.bytes(), 50 * kSecond);
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200, 300});
    EXPECT_EQ(read(window, 19 * kSecond).comm_of(200, 201), "worker");
    EXPECT_EQ(read(window, 21 * kSecond).comm_of(200, 200), lossy ? "[lost]" : "server");
    EXPECT_NE(read(window, 21 * kSecond).comm_of(200, 201), lossy ? "worker" : "");
    EXPECT_EQ(read(window, 41 * kSecond).processes.contains(200), !lossy);
    EXPECT_EQ(read(window).processes.contains(200), !lossy);
    EXPECT_TRUE(read(window).processes.contains(300));
    tracker.fold(51 * kSecond);
    EXPECT_EQ(tracker.stats().processes, lossy ? 2U : 3U);
    EXPECT_EQ(tracker.stats().exited, 0U);
  }
}

TEST(Scan, AfterALossAnUncertainNameIsLost) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  tracker.add(lost().bytes());
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  scan.scanned(200, 1, 3 * kSecond, "successor");
  scan.map(0, 200, 0x5000, 0x1000, "/bin/successor");
  scan.thread(0, 200, 209);
  scan.comm(0, 200, 209, "fresh");
  tracker.add_scan(scan.bytes(), 50 * kSecond);
  const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {2, 200});
  EXPECT_EQ(read(window, 19 * kSecond).text_of(200), "200 of 1: 200=server 201=worker 1000-2000@1000/bin/server\n");
  EXPECT_EQ(read(window, 39 * kSecond).text_of(200), "200 of 1: 200=[lost]\n") << "in the gap";
  EXPECT_EQ(read(window, 41 * kSecond).text_of(200), "200 of 1: 200=successor 209=fresh 5000-6000@1000/bin/successor\n")
      << "behind it the log is complete, so it was that already";
  EXPECT_EQ(read(window, 39 * kSecond).comm_of(2, 2), "kthreadd") << "confirmed";
  EXPECT_EQ(tracker.stats().unsure, 1U);
  ASSERT_EQ(window.warnings.size(), 1U);
  EXPECT_THAT(window.warnings[0], testing::HasSubstr("1000 sideband records were lost within 20.000 s"));
  EXPECT_THAT(window.warnings[0], testing::HasSubstr("1 process without a certain name is called [lost]"));
  EXPECT_THAT(tracker.export_window(41 * kSecond, 60 * kSecond, {2, 200}).warnings, IsEmpty());
  // After folding the result is the same.
  tracker.fold(55 * kSecond);
  EXPECT_EQ(read(tracker.export_window(60 * kSecond, 70 * kSecond, {200})).text(),
            "200 of 1: 200=successor 209=fresh 5000-6000@1000/bin/successor\n");
}

TEST(Scan, AfterALossANumberMayBelongToAnother) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  tracker.add(lost().bytes());
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  scan.scanned(200, 1, 30 * kSecond, "server");  // even if it has the same name again
  scan.map(0, 200, 0x5000, 0x1000, "/bin/other");
  tracker.add_scan(scan.bytes(), 50 * kSecond);
  const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200});
  EXPECT_EQ(read(window, 19 * kSecond).comm_of(200, 200), "server");
  EXPECT_EQ(read(window, 29 * kSecond).comm_of(200, 200), "") << "whoever had the number then";
  EXPECT_EQ(read(window, 39 * kSecond).text(), "200 of 1: 200=[lost]\n");
  EXPECT_EQ(read(window, 40 * kSecond).text(), "200 of 1: 200=server 5000-6000@1000/bin/other\n");
}

// A machine that slept for an hour after 4 s, and for two after 44 s. Its /proc counts that.
ClockHistory of_a_machine_that_slept() {
  ClockHistory clock;
  const auto look = [&](EventTime at, EventTime slept) {
    clock.look({.monotonic_ns = at,
                .boottime_ns = at + slept,
                .wall = WallTime(static_cast<std::int64_t>(at + slept)),
                .took_ns = 0});
  };
  constexpr EventTime kHour = 3600 * kSecond;
  for (const EventTime at : {1 * kSecond, 4 * kSecond}) look(at, 0);
  for (const EventTime at : {5 * kSecond, 44 * kSecond}) look(at, kHour);
  for (const EventTime at : {45 * kSecond, 50 * kSecond}) look(at, 3 * kHour);
  return clock;
}

TEST(Scan, ANumberThatIsUsedAgainBeforeASuspendIsAnotherProcess) {
  for (const bool again : {false, true}) {
    ProcessTracker tracker;
    Tape tape;
    tape.fork(10 * kSecond, 1, 200);
    tape.exec(10 * kSecond + 1, 200, "server");
    tape.map(10 * kSecond + 2, 200, 0x1000, 0x1000, "/bin/server");
    tracker.add(tape.bytes());
    tracker.add_gap(20 * kSecond, 40 * kSecond);
    Tape scan;
    scan.scanned(200, 1, (again ? 30U : 10U) * kSecond + 3600 * kSecond - 7'000'000, "server");
    scan.map(0, 200, 0x1000, 0x1000, "/bin/server");
    scan.all_listed();
    tracker.add_scan(scan.bytes(), 50 * kSecond, {}, of_a_machine_that_slept());
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200});
    EXPECT_EQ(read(window, 19 * kSecond).comm_of(200, 200), "server");
    EXPECT_EQ(read(window, 35 * kSecond).comm_of(200, 200), again ? "[lost]" : "server");
    EXPECT_EQ(read(window, 45 * kSecond).comm_of(200, 200), "server");
    EXPECT_EQ(tracker.stats().unsure, again ? 1U : 0U);
  }
}

TEST(Scan, AnExecIntoTheSameNameIsSeenByItsMaps) {
  for (const bool execed : {false, true}) {
    ProcessTracker tracker;
    Tape first = scan_of_a_server();
    first.scanned(300, 1, 4 * kSecond, "sh");
    first.map(0, 300, 0x400000, 0x1000, "/bin/sh");
    first.map(0, 300, 0x7f0000, 0x1000, "[vdso]");
    tracker.add_scan(first.bytes(), 10 * kSecond);
    tracker.add(lost().bytes());
    Tape scan;
    scan.scanned(300, 1, 4 * kSecond, "sh");
    scan.map(0, 300, 0x400000, 0x1000, "/bin/sh");
    scan.map(0, 300, execed ? 0x7f5000 : 0x7f0000, 0x1000, "[vdso]");
    tracker.add_scan(scan.bytes(), 50 * kSecond);
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {300});
    EXPECT_EQ(read(window, 39 * kSecond).comm_of(300, 300), execed ? "[lost]" : "sh");
    EXPECT_EQ(read(window).comm_of(300, 300), "sh");
    EXPECT_EQ(read(window).map_at(300, 0x7f0800), execed ? "" : "[vdso]");
  }
}

// /proc shows a removed file as "PATH (deleted)": that is no other file, and the kernel's name stays.
// In a container, the broker sees its own cgroup as the root of all.
TEST(Scan, ACgroupKeepsThePathThatTheKernelRecorded) {
  ProcessTracker tracker;
  Tape tape;
  tape.cgroup(5, 7, "/docker/1/system.slice/web.service");
  tape.cgroup(6, 8, "/docker/1");
  tape.cgroup(7, 9, "/jobs/old");
  tracker.add(tape.take());
  tracker.fold(10);
  tape.scanned(1, 0, 1, "init");
  tape.cgroup(0, 7, "/system.slice/web.service");
  tape.cgroup(0, 8, "/");
  tape.cgroup(0, 9, "/jobs/renamed");  // cgroups(7), version 1
  tape.cgroup(0, 10, "/system.slice");
  tape.all_listed();
  tracker.add_scan(tape.take(), 20);
  EXPECT_EQ(
      read(tracker.export_window(30, 40, {})).cgroups,
      (std::map<std::uint64_t, std::string>{
          {7, "/docker/1/system.slice/web.service"}, {8, "/docker/1"}, {9, "/jobs/renamed"}, {10, "/system.slice"}}));
}

TEST(Scan, ADeletedFileKeepsItsName) {
  for (const bool after_a_loss : {false, true}) {
    ProcessTracker tracker;
    Tape first = scan_of_a_server();
    first.scanned(300, 1, 4 * kSecond, "gone");
    first.map(0, 300, 0x400000, 0x1000, "/bin/gone");
    tracker.add_scan(first.bytes(), 10 * kSecond);
    if (after_a_loss) tracker.add(lost().bytes());
    Tape scan;
    scan.scanned(300, 1, 4 * kSecond, "gone");
    scan.map(0, 300, 0x400000, 0x1000, "/bin/gone (deleted)");
    tracker.add_scan(scan.bytes(), 50 * kSecond);
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {300});
    EXPECT_EQ(read(window).map_at(300, 0x400800), "/bin/gone") << after_a_loss;
    EXPECT_EQ(read(window, 39 * kSecond).comm_of(300, 300), "gone") << "no exec: " << after_a_loss;
  }
}

// In a chroot, or after a rename, /proc shows another name than the kernel recorded. The file is the same.
TEST(Scan, AFileIsTheSameWhateverItsName) {
  for (const bool after_a_loss : {false, true}) {
    ProcessTracker tracker;
    Tape tape;
    tape.fork(10 * kSecond, 1, 300);
    tape.exec(10 * kSecond + 1, 300, "inside");
    tape.map_file(10 * kSecond + 2, 300, 0x400000, 0x2000, "/bin/inside", 5, 0x1000, 77);
    tape.map(10 * kSecond + 3, 300, 0x7f0000, 0x1000, "[vdso]");
    tracker.add(tape.bytes());
    if (after_a_loss) tracker.add(lost().bytes());
    Tape scan;
    scan.scanned(300, 1, 10 * kSecond, "inside");
    // In two parts, because of an mprotect(2).
    scan.map_file(0, 300, 0x400000, 0x1000, "/chroot/bin/inside", 5, 0x1000);
    scan.map_file(0, 300, 0x401000, 0x1000, "/chroot/bin/inside", 5, 0x2000);
    scan.map(0, 300, 0x7f0000, 0x1000, "[vdso]");
    for (const EventTime second : {50, 60}) {
      tracker.add_scan(scan.bytes(), second * kSecond);
      const auto window = tracker.export_window(45 * kSecond, 70 * kSecond, {300});
      EXPECT_EQ(read(window).map_at(300, 0x400800), "/bin/inside") << after_a_loss;
      EXPECT_EQ(read(window, 39 * kSecond).comm_of(300, 300), "inside") << "no exec: " << after_a_loss;
      ReaderModel log;
      log.apply_all(window.log);
      EXPECT_FALSE(log.processes.contains(300)) << "nothing is added by a scan: " << after_a_loss;
    }
  }
}

// The same path at the same address, and another file, or another part of it: what was mapped is not what is mapped.
TEST(Scan, AnotherFileOfTheSameNameIsAnother) {
  for (const bool other_inode : {false, true}) {
    ProcessTracker tracker;
    Tape first = scan_of_a_server();
    first.scanned(300, 1, 4 * kSecond, "sh");
    first.map_file(0, 300, 0x400000, 0x1000, "/bin/sh", 5);
    tracker.add_scan(first.bytes(), 10 * kSecond);
    tracker.add(lost().bytes());
    Tape scan;
    scan.scanned(300, 1, 4 * kSecond, "sh");
    scan.map_file(0, 300, 0x400000, 0x1000, "/bin/sh", other_inode ? 6 : 5, other_inode ? 0x1000 : 0x5000);
    tracker.add_scan(scan.bytes(), 50 * kSecond);
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {300});
    EXPECT_EQ(read(window, 39 * kSecond).comm_of(300, 300), "[lost]") << other_inode;
    EXPECT_EQ(read(window).comm_of(300, 300), "sh");
    std::uint64_t inode = 0, offset = 0;
    std::span<const std::byte> rest = window.log;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      if (const auto map = parse_mmap2(record)) inode = map->inode, offset = map->page_offset;
    }
    EXPECT_EQ(inode, other_inode ? 6U : 5U);
    EXPECT_EQ(offset, other_inode ? 0x1000U : 0x5000U);
  }
}

TEST(Scan, AKernelWorkerIsTheSameWhateverItWorksAt) {
  ProcessTracker tracker;
  Tape first;
  first.scanned(40, 2, 0, "kworker/0:1-mm_");
  tracker.add_scan(first.bytes(), 10 * kSecond);
  tracker.add(lost().bytes());
  Tape scan;
  scan.scanned(40, 2, 0, "kworker/0:1-eve");
  tracker.add_scan(scan.bytes(), 50 * kSecond);
  EXPECT_EQ(tracker.stats().unsure, 0U);
  EXPECT_EQ(read(tracker.export_window(15 * kSecond, 60 * kSecond, {40})).comm_of(40, 40), "kworker/0:1-mm_");
  Tape another;
  another.scanned(40, 2, 0, "kworker/1:1-eve");
  tracker.add_gap(51 * kSecond, 52 * kSecond);
  tracker.add_scan(another.bytes(), 53 * kSecond);
  EXPECT_EQ(tracker.stats().unsure, 1U);
}

TEST(Scan, AProcessThatLivedInAGapIsLost) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  Tape tape = lost();
  // Another CPU, whose ring had space, recorded it. On the CPU where it called exec there was no space.
  tape.fork(25 * kSecond, 200, 400);
  tape.fork(26 * kSecond, 200, 401);
  tape.exec(27 * kSecond, 401, "sh");
  tape.exit(30 * kSecond, 400);
  tape.exit(45 * kSecond, 401);
  tracker.add(tape.bytes());
  Tape scan = scan_of_a_server();
  tracker.add_scan(scan.bytes(), 50 * kSecond);
  for (const bool folded : {false, true}) {
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200, 400, 401});
    EXPECT_EQ(read(window, 29 * kSecond).comm_of(400, 400), "[lost]");
    EXPECT_EQ(read(window, 29 * kSecond).comm_of(401, 401), "[lost]") << folded;
    EXPECT_EQ(read(window, 29 * kSecond).comm_of(200, 200), "server") << "confirmed";
    EXPECT_FALSE(read(window, 46 * kSecond).processes.contains(401));
    EXPECT_FALSE(read(window, 46 * kSecond).processes.contains(400));
    tracker.fold(15 * kSecond);
    ProcessTracker after;
    RecordBuffer kept;
    (void)tracker.checkpoint(
        1U << 20U, [&](std::span<const std::byte> some) { kept.insert(kept.end(), some.begin(), some.end()); });
    after.replay(kept, {});
    tracker = std::move(after);  // the same again with the state of the next flightd
  }
}

// A process that calls itself as the tracker calls those whose name is unknown is doubted like any other, once.
TEST(Scan, AProcessCanCallItselfLost) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  Tape tape;
  tape.fork(12 * kSecond, 200, 400);
  tape.exec(13 * kSecond, 400, "[lost]");
  tape.thread(14 * kSecond, 400, 402);
  tape.exit(30 * kSecond, 400, 402);
  tape.exit(30 * kSecond, 400);
  tracker.add(tape.bytes());
  const auto name_at = [](const ProcessTracker& of, EventTime time) {
    const ProcessAt asked{.pid = 400, .time_ns = time};
    return of.comms_of(std::span(&asked, 1)).front();
  };
  EXPECT_EQ(name_at(tracker, 15 * kSecond), "[lost]") << "as it says";
  tracker.add_gap(20 * kSecond, 40 * kSecond);
  tracker.add_scan(scan_of_a_server().bytes(), 50 * kSecond);
  EXPECT_EQ(tracker.stats().unsure, 1U);
  EXPECT_EQ(name_at(tracker, 15 * kSecond), "[lost]");
  EXPECT_EQ(name_at(tracker, 25 * kSecond), "") << "it can have executed something";
  tracker.fold(26 * kSecond);
  EXPECT_EQ(name_at(tracker, 27 * kSecond), "") << "from the state";
  ProcessTracker after;
  RecordBuffer kept;
  (void)tracker.checkpoint(1U << 20U,
                           [&](std::span<const std::byte> some) { kept.insert(kept.end(), some.begin(), some.end()); });
  after.replay(kept, {});
  EXPECT_EQ(name_at(after, 27 * kSecond), "") << "of the next flightd";
}

TEST(Scan, WithoutAScanNoNameIsConfirmed) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  tracker.add(lost().bytes());
  Tape tape;
  tape.exec(45 * kSecond, 2, "new");
  tracker.add(tape.bytes());
  const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {2, 200});
  EXPECT_EQ(read(window, 19 * kSecond).comm_of(200, 200), "server");
  EXPECT_EQ(read(window, 21 * kSecond).text(), "2 of 0: 2=[lost]\n200 of 1: 200=[lost]\n");
  EXPECT_EQ(read(window).comm_of(2, 2), "new") << "the log has a newer name";
  EXPECT_EQ(window.warnings.size(), 2U);
  // A scan can still confirm it.
  tracker.add_scan(scan_of_a_server().bytes(), 50 * kSecond);
  EXPECT_EQ(read(tracker.export_window(15 * kSecond, 60 * kSecond, {200}), 21 * kSecond).comm_of(200, 200), "server");
}

// The kernel writes LOST only with the next record, which may come minutes later.
TEST(Scan, AFullRingIsAGapBeforeItsLostRecord) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  tracker.add_full(0, 20 * kSecond, 21 * kSecond);
  EXPECT_TRUE(tracker.stale());
  auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200});
  EXPECT_EQ(read(window).comm_of(200, 200), "[lost]");
  EXPECT_THAT(window.warnings.at(0), testing::HasSubstr("may have been lost within 1.000 s"));
  Tape scan;
  scan.scanned(200, 1, 3 * kSecond, "successor");
  scan.all_listed();
  tracker.add_scan(scan.bytes(), 22 * kSecond);
  EXPECT_FALSE(tracker.stale());
  Tape late;
  late.lost(50 * kSecond, 300);
  tracker.add(late.bytes());
  EXPECT_FALSE(tracker.stale()) << "it reports the same gap";
  ASSERT_EQ(tracker.gaps().size(), 1U);
  EXPECT_EQ(tracker.gaps()[0].lost, 300U);
  window = tracker.export_window(15 * kSecond, 60 * kSecond, {200});
  EXPECT_EQ(read(window, 20 * kSecond + 1).comm_of(200, 200), "[lost]");
  EXPECT_EQ(read(window, 21 * kSecond).comm_of(200, 200), "successor");
  Tape again;
  again.lost(55 * kSecond, 1);  // and this is another loss
  tracker.add(again.bytes());
  EXPECT_TRUE(tracker.stale());
}

TEST(Scan, APauseIsAGap) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  tracker.add_gap(20 * kSecond, 40 * kSecond);
  EXPECT_TRUE(tracker.stats().stale);
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  scan.scanned(200, 1, 3 * kSecond, "server");
  scan.map(0, 200, 0x1000, 0x1000, "/bin/server", 0x55);
  scan.thread(0, 200, 201);
  scan.comm(0, 200, 201, "renamed");
  scan.scanned(300, 1, 30 * kSecond, "young");
  scan.map(0, 300, 0x1000, 0x1000, "/bin/young");
  tracker.add_scan(scan.bytes(), 41 * kSecond);
  const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {2, 200, 300});
  EXPECT_EQ(read(window, 40 * kSecond).text(),
            "2 of 0: 2=kthreadd\n200 of 1: 200=server 201=renamed 1000-2000@1000/bin/server\n"
            "300 of 1: 300=young 1000-2000@1000/bin/young\n");
  EXPECT_EQ(tracker.stats().lost, 0U);
}

// The first one ended before the pause. Another one got its number in the pause, and ended before the scan: of it there
// is only an EXIT, and readers of a file keep the name of a task after its EXIT.
TEST(Scan, AProcessOfWhichOnlyTheExitIsKnownIsLost) {
  for (const bool scanned : {false, true}) {
    ProcessTracker tracker;
    tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
    Tape tape;
    tape.fork(12 * kSecond, 1, 300);
    tape.exec(12 * kSecond + 1, 300, "before");
    tape.exit(18 * kSecond, 300);
    tracker.add(tape.bytes());
    tracker.add_gap(20 * kSecond, 40 * kSecond);
    Tape end;
    end.exit(41 * kSecond, 300);
    tracker.add(end.bytes());
    if (scanned) tracker.add_scan(scan_of_a_server().bytes(), 42 * kSecond);
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200, 300});
    EXPECT_EQ(read(window, 17 * kSecond).comm_of(300, 300), "before");
    EXPECT_EQ(read(window, 40 * kSecond).comm_of(300, 300), "[lost]") << scanned;
    EXPECT_FALSE(read(window, 42 * kSecond).processes.contains(300));
  }
}

TEST(Scan, TheDeadAreNotThoughtToBeDyingWhereTheirNumberMayHaveBeenTaken) {
  for (const bool lossy : {false, true}) {
    ProcessTracker tracker({.dying_ns = 60 * kSecond});
    tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
    Tape tape;
    tape.exit(19 * kSecond, 200, 201);
    tape.exit(19 * kSecond + 1, 200);
    tracker.add(tape.bytes());
    if (lossy) tracker.add(lost().bytes());
    Tape scan;
    scan.scanned(2, 0, 0, "kthreadd");
    tracker.add_scan(scan.bytes(), 50 * kSecond);
    EXPECT_EQ(read(tracker.export_window(41 * kSecond, 60 * kSecond, {200})).comm_of(200, 200), lossy ? "" : "server");
  }
}

TEST(Scan, AnEmptyScanEndsNoProcess) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  tracker.add(lost().bytes());
  tracker.add_scan({}, 50 * kSecond);
  EXPECT_EQ(tracker.stats().processes, 2U);
}

TEST(Scan, ItsEndSaysWhenItBegan) {
  Tape scan = scan_of_a_server();
  EXPECT_EQ(scan_time(scan.bytes()), 0U) << "it has no end";
  scan.all_listed(30);
  EXPECT_EQ(scan_time(scan.bytes()), 30U);
  EXPECT_EQ(scan_time(std::span(scan.bytes()).first(scan.bytes().size() - 8)), 0U) << "it is cut";
  EXPECT_EQ(scan_time({}), 0U);
}

TEST(Scan, ItIsNotLaterThanItsRequest) {
  ProcessTracker tracker;
  Tape scan = scan_of_a_server();
  scan.all_listed(12 * kSecond);  // the broker was busy
  EXPECT_EQ(tracker.add_scan(scan.bytes(), 10 * kSecond), 10 * kSecond);
}

// Another broker looked at the processes at 30 s, before its recording. flightd finds that broker, and requests this
// scan, at 50 s. Its records of the time between the two are newer.
TEST(OldScan, EndsNoneThatBeganSinceThenAndRevivesNoneThatEnded) {
  const auto running = [] {
    Tape scan = scan_of_a_server();
    scan.scanned(300, 1, 4 * kSecond, "ended");
    return scan;
  };
  ProcessTracker tracker;
  tracker.add_scan(running().bytes(), 10 * kSecond);
  Tape tape;
  tape.exit(32 * kSecond, 200, 201);
  tape.exit(32 * kSecond, 200);
  tape.exit(33 * kSecond, 300);
  tape.fork(40 * kSecond, 2, 200);  // the number again
  tape.exec(40 * kSecond + 1, 200, "fresh");
  tape.map(40 * kSecond + 2, 200, 0x8000, 0x1000, "/bin/fresh");
  tape.fork(41 * kSecond, 2, 400);
  tape.exec(41 * kSecond + 1, 400, "young");
  tracker.add(tape.bytes());
  tracker.add_gap(20 * kSecond, 50 * kSecond);
  Tape old = running();
  old.all_listed(30 * kSecond);
  EXPECT_EQ(tracker.add_scan(old.bytes(), 50 * kSecond), 30 * kSecond);
  EXPECT_TRUE(tracker.stale()) << "it does not say what ran in the rest of the gap";
  auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200, 300, 400});
  EXPECT_EQ(read(window, 55 * kSecond).comm_of(200, 200), "[lost]") << "not as who had its number before";
  EXPECT_FALSE(read(window, 55 * kSecond).processes.contains(300));
  EXPECT_TRUE(read(window, 55 * kSecond).processes.contains(400));
  Tape now;
  now.scanned(2, 0, 0, "kthreadd");
  now.scanned(200, 2, 40 * kSecond, "fresh");
  now.map(0, 200, 0x8000, 0x1000, "/bin/fresh");
  now.scanned(400, 2, 41 * kSecond, "young");
  now.all_listed(51 * kSecond);
  EXPECT_EQ(tracker.add_scan(now.bytes(), 51 * kSecond), 51 * kSecond);
  EXPECT_FALSE(tracker.stale());
  window = tracker.export_window(15 * kSecond, 60 * kSecond, {200, 300, 400});
  EXPECT_EQ(read(window, 55 * kSecond).text_of(200), "200 of 2: 200=fresh 8000-9000@1000/bin/fresh\n");
  EXPECT_EQ(read(window, 55 * kSecond).comm_of(400, 400), "young");
  EXPECT_FALSE(read(window, 55 * kSecond).processes.contains(300));
}

TEST(OldScan, HasTheMappingsOfTheImageBeforeAnExec) {
  ProcessTracker tracker;
  Tape tape;
  tape.fork(10 * kSecond, 1, 200);
  tape.exec(10 * kSecond + 1, 200, "old");
  tape.map(10 * kSecond + 2, 200, 0x1000, 0x1000, "/bin/old");
  tape.exec(40 * kSecond, 200, "new");
  tape.map(40 * kSecond + 1, 200, 0x1000, 0x1000, "/bin/new");
  tracker.add(tape.bytes());
  Tape scan;
  scan.scanned(200, 1, 10 * kSecond, "old");
  scan.map(0, 200, 0x1000, 0x1000, "/bin/old");
  scan.map(0, 200, 0x3000, 0x1000, "/lib/missed.so");
  scan.all_listed(30 * kSecond);
  tracker.add_scan(scan.bytes(), 50 * kSecond);
  const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200});
  EXPECT_EQ(read(window, 35 * kSecond).text(),
            "200 of 1: 200=old 1000-2000@1000/bin/old 3000-4000@1000/lib/missed.so\n");
  EXPECT_EQ(read(window, 55 * kSecond).text(), "200 of 1: 200=new 1000-2000@1000/bin/new\n");
}

// It began when nothing was recorded, or was not known before. Its first record is that of a plugin.
TEST(OldScan, NamesAProcessWhoseFirstRecordIsNewer) {
  for (const EventTime started : {5 * kSecond, 25 * kSecond}) {
    for (const std::string_view then : {"goes on", "ends", "executes"}) {
      ProcessTracker tracker;
      tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
      Tape tape;
      tape.map(35 * kSecond, 500, 0x8000, 0x1000, "/lib/plugin.so");
      if (then == "ends") tape.exit(40 * kSecond, 500);
      if (then == "executes") tape.exec(40 * kSecond, 500, "next");
      tracker.add(tape.bytes());
      tracker.add_gap(20 * kSecond, 29 * kSecond);
      Tape scan = scan_of_a_server();
      scan.scanned(500, 1, started, "tool");
      scan.map(0, 500, 0x1000, 0x1000, "/bin/tool");
      scan.all_listed(30 * kSecond);
      tracker.add_scan(scan.bytes(), 50 * kSecond);
      EXPECT_FALSE(tracker.stale());
      const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {500});
      EXPECT_EQ(read(window, 28 * kSecond).comm_of(500, 500), "[lost]") << then;
      // The scan can have seen what it executed.
      const bool is_known = then != "executes";
      EXPECT_EQ(read(window, 36 * kSecond).comm_of(500, 500), is_known ? "tool" : "[lost]") << then;
      EXPECT_EQ(read(window, 36 * kSecond).map_at(500, 0x1800), is_known ? "/bin/tool" : "") << then;
      EXPECT_EQ(read(window, 36 * kSecond).map_at(500, 0x8800), "/lib/plugin.so") << then;
      EXPECT_EQ(read(window, 45 * kSecond).comm_of(500, 500), then == "goes on" ? "tool" : is_known ? "" : "next");
    }
  }
}

// The number was another's, whose EXIT is in the log; the FORK after it was lost.
TEST(OldScan, NamesTheSecondOfANumberOnlyAfterTheFirst) {
  ProcessTracker tracker;
  tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  Tape tape;
  tape.exit(25 * kSecond, 200, 201);
  tape.exit(25 * kSecond, 200);
  tape.exec(35 * kSecond, 200, "next");
  tracker.add(tape.bytes());
  tracker.add_gap(20 * kSecond, 29 * kSecond);
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  scan.scanned(200, 2, 25 * kSecond - 7'000'000, "sh");  // /proc rounds down
  scan.all_listed(30 * kSecond);
  tracker.add_scan(scan.bytes(), 50 * kSecond);
  const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200});
  EXPECT_EQ(read(window, 19 * kSecond).comm_of(200, 200), "server");
  EXPECT_EQ(read(window, 28 * kSecond).text_of(200), "200 of 2: 200=[lost]\n");
  EXPECT_EQ(read(window, 34 * kSecond).text_of(200), "200 of 2: 200=[lost]\n");
  EXPECT_EQ(read(window, 45 * kSecond).text_of(200), "200 of 2: 200=next\n");
}

// The server has more threads than a scan lists. One of them began later, so its name is known.
TEST(Scan, ThreadsThatItDoesNotListAreCounted) {
  ProcessTracker tracker;
  const auto scan = [&tracker](EventTime asked_ns, std::uint64_t left_out) {
    Tape tape = scan_of_a_server();
    tape.scanned(300, 1, kSecond, "crowd");
    tape.thread(0, 300, 301);
    tape.comm(0, 300, 301, "worker");
    if (left_out != 0) tape.threads_left_out(300, left_out);
    tape.all_listed();
    tracker.add_scan(tape.bytes(), asked_ns);
  };
  const auto warnings = [](const ProcessTracker& of, EventTime begin_ns, std::uint32_t pid) {
    return testing::PrintToString(of.export_window(begin_ns, 60 * kSecond, {pid}).warnings);
  };
  scan(10 * kSecond, 3);
  Tape tape;
  tape.thread(11 * kSecond, 300, 302);
  tracker.add(tape.bytes());
  const auto three = HasSubstr("names: 3 threads of 1 process have no names, only numbers: flightd looks up at most");
  EXPECT_THAT(warnings(tracker, 12 * kSecond, 300), three);
  EXPECT_THAT(warnings(tracker, 12 * kSecond, 200), Not(HasSubstr("threads")));
  const std::size_t log_bytes = tracker.stats().log_bytes;
  scan(13 * kSecond, 4);
  EXPECT_EQ(tracker.stats().log_bytes, log_bytes) << "the other one is known";
  EXPECT_THAT(warnings(tracker, 12 * kSecond, 300), three);
  scan(14 * kSecond, 2);
  EXPECT_THAT(warnings(tracker, 12 * kSecond, 300), three) << "at the beginning";
  const auto one = HasSubstr("names: 1 thread of 1 process has no name, only a number:");
  EXPECT_THAT(warnings(tracker, 15 * kSecond, 300), one);
  for (const EventTime horizon_ns : {12 * kSecond, 15 * kSecond}) {
    tracker.fold(horizon_ns);
    EXPECT_THAT(warnings(tracker, 15 * kSecond, 300), one);
    RecordBuffer bytes;
    const auto omissions = tracker.checkpoint(1U << 20U, [&bytes](std::span<const std::byte> records) {
      bytes.insert(bytes.end(), records.begin(), records.end());
    });
    ProcessTracker restored;
    restored.replay(bytes, omissions.losses);
    EXPECT_THAT(warnings(restored, 15 * kSecond, 300), one);
  }
  tracker.add_gap(17 * kSecond, 18 * kSecond);
  scan(20 * kSecond, 5);
  EXPECT_THAT(warnings(tracker, 21 * kSecond, 300), HasSubstr("names: 4 threads of 1 process"));
  const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {300});
  EXPECT_EQ(read(window, 30 * kSecond).text_of(300), "300 of 1: 300=crowd 301=worker 302=crowd\n")
      << "a thread that was not listed has not ended";
  scan(30 * kSecond, 0);
  EXPECT_THAT(warnings(tracker, 31 * kSecond, 300), Not(HasSubstr("threads")));
  Tape later;
  later.exec(40 * kSecond, 300, "other");
  scan(35 * kSecond, 9);
  tracker.add(later.bytes());
  EXPECT_THAT(warnings(tracker, 36 * kSecond, 300), HasSubstr("names: 8 threads of 1 process"));
  EXPECT_THAT(warnings(tracker, 41 * kSecond, 300), Not(HasSubstr("threads"))) << "an exec ends them";
}

// A child was forked when the name of its parent was in doubt: the scan says what it is called, if it is still the one
// that the scan saw.
TEST(OldScan, DoesNotNameAChildThatHasTheNumberNow) {
  for (const bool is_old : {false, true}) {
    ProcessTracker tracker;
    tracker.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
    Tape tape;
    tape.fork(12 * kSecond, 200, 250);
    tape.exit(35 * kSecond, 250);
    tape.fork(40 * kSecond, 200, 250);
    tape.exit(45 * kSecond, 200, 201);
    tape.exit(45 * kSecond, 200);
    tracker.add(tape.bytes());
    tracker.add_gap(20 * kSecond, 29 * kSecond);
    Tape scan;
    scan.scanned(2, 0, 0, "kthreadd");
    if (is_old) scan.scanned(200, 1, 3 * kSecond, "server");
    scan.scanned(250, 200, (is_old ? 12U : 40U) * kSecond, "server");
    scan.all_listed((is_old ? 30U : 50U) * kSecond);
    tracker.add_scan(scan.bytes(), 50 * kSecond);
    const auto window = tracker.export_window(15 * kSecond, 60 * kSecond, {200, 250});
    EXPECT_EQ(read(window, 55 * kSecond).comm_of(250, 250), is_old ? "[lost]" : "server");
  }
}

}  // namespace
}  // namespace flight
