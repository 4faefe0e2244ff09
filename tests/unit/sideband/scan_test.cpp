// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/ledger.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::IsEmpty;

constexpr EventTime kSecond = 1'000'000'000;

ReaderModel read(const LedgerExport& window, EventTime time = ~EventTime{0}) {
  ReaderModel model;
  model.apply_all(window.prologue);
  model.apply_all(window.log, time);
  return model;
}

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

TEST(Scan, WhatWasThereBeforeUsWasAlwaysThere) {
  Ledger ledger;
  ledger.add_scan(scan_of_a_server().bytes(), 100 * kSecond);
  EXPECT_EQ(ledger.stats().processes, 2U);
  // Samples older than the scan have their names, too.
  const auto window = ledger.export_window(50 * kSecond, 60 * kSecond, {2, 200});
  EXPECT_EQ(read(window).text(), "2 of 0: 2=kthreadd\n200 of 1: 200=server 201=worker 1000-2000@1000/bin/server\n");
  EXPECT_EQ(read(window).cgroups.at(9), "/server.slice");
  EXPECT_EQ(window.build_ids.size(), 1U);
}

TEST(Scan, OfAKnownProcessOnlyWhatIsMissingIsAdded) {
  Ledger ledger;
  Tape tape;
  tape.fork(10 * kSecond, 1, 200);
  tape.exec(10 * kSecond + 1, 200, "server");
  tape.map(10 * kSecond + 2, 200, 0x1000, 0x1000, "/bin/server");
  ledger.add(tape.bytes());
  Tape scan;
  scan.scanned(200, 1, 10 * kSecond - 7'000'000, "server");  // /proc rounds down
  scan.map(0, 200, 0x1000, 0x1000, "/bin/server");
  scan.map(0, 200, 0x3000, 0x1000, "/lib/missed.so");
  ledger.add_scan(scan.bytes(), 20 * kSecond);
  EXPECT_EQ(ledger.stats().processes, 1U);
  const auto window = ledger.export_window(15 * kSecond, 30 * kSecond, {200});
  EXPECT_EQ(read(window, 19 * kSecond).map_at(200, 0x3800), "");
  EXPECT_EQ(read(window, 20 * kSecond).text(),
            "200 of 1: 200=server 1000-2000@1000/bin/server 3000-4000@1000/lib/missed.so\n");
  ReaderModel log;
  log.apply_all(window.log);
  EXPECT_EQ(log.processes.at(200).maps.size(), 1U) << "what was known was added again";
  ledger.add_scan(scan.bytes(), 25 * kSecond);  // now there is nothing to add
  EXPECT_THAT(ledger.export_window(21 * kSecond, 30 * kSecond, {}).log, IsEmpty());
}

TEST(Scan, AForkThatIsDrainedAfterTheScanIsTheSameProcess) {
  Ledger ledger;
  Tape scan;
  scan.scanned(200, 1, 10 * kSecond - 7'000'000, "server");
  scan.map(0, 200, 0x1000, 0x1000, "/bin/server");
  ledger.add_scan(scan.bytes(), 11 * kSecond);
  Tape tape;
  tape.fork(10 * kSecond, 1, 200);
  tape.exec(10 * kSecond + 1, 200, "server");
  tape.map(10 * kSecond + 2, 200, 0x1000, 0x1000, "/bin/server");
  ledger.add(tape.bytes());
  ledger.fold(12 * kSecond);
  EXPECT_EQ(ledger.stats().processes, 1U);
  EXPECT_EQ(ledger.stats().exited, 0U);
  EXPECT_EQ(read(ledger.export_window(15 * kSecond, 30 * kSecond, {200})).text(),
            "200 of 1: 200=server 1000-2000@1000/bin/server\n");
}

TEST(Scan, WhatWasRecordedBeforeTheFirstScanLiesOverIt) {
  for (const bool folded : {false, true}) {
    Ledger ledger;
    Tape tape;
    tape.map(10 * kSecond, 200, 0x8000, 0x1000, "/lib/plugin.so");  // of a process whose beginning we have not seen
    tape.thread(10 * kSecond + 1, 200, 202);
    tape.comm(10 * kSecond + 2, 200, 202, "newer");
    ledger.add(tape.bytes());
    if (folded) ledger.fold(11 * kSecond);
    ledger.add_scan(scan_of_a_server().bytes(), 12 * kSecond);
    EXPECT_EQ(ledger.stats().processes, 2U);
    const ReaderModel model = read(ledger.export_window(11 * kSecond, 13 * kSecond, {200}));
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
  Ledger ledger;
  ledger.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  Tape tape;
  tape.exit(20 * kSecond, 200, 201);
  tape.exit(20 * kSecond + 1, 200);
  ledger.add(tape.bytes());
  ledger.add_scan(scan_of_a_server().bytes(), 20 * kSecond);  // read just before
  EXPECT_EQ(ledger.stats().processes, 1U);
  EXPECT_FALSE(read(ledger.export_window(21 * kSecond, 30 * kSecond, {200})).processes.contains(200));
}

Tape lost() {
  Tape tape;
  tape.raw(PERF_RECORD_LOST, 16 + sizeof(Trailer));
  return tape;
}

TEST(Scan, AfterALossTheAbsentHaveExited) {
  for (const bool lossy : {false, true}) {
    Ledger ledger;
    ledger.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
    Tape young;
    young.fork(49 * kSecond, 2, 300);  // it may have begun behind the scan's back
    ledger.add(young.bytes());
    if (lossy) ledger.add(lost().bytes());
    Tape scan;
    scan.scanned(2, 0, 0, "kthreadd");
    ledger.add_scan(scan.bytes(), 50 * kSecond);
    const auto window = ledger.export_window(45 * kSecond, 60 * kSecond, {200, 300});
    EXPECT_EQ(read(window, 49 * kSecond).comm_of(200, 201), "worker");
    EXPECT_EQ(read(window).processes.contains(200), !lossy);
    EXPECT_TRUE(read(window).processes.contains(300));
    ledger.fold(51 * kSecond);
    EXPECT_EQ(ledger.stats().processes, lossy ? 2U : 3U);
    EXPECT_EQ(ledger.stats().exited, 0U);
  }
}

TEST(Scan, AfterALossNamesThreadsAndAnExecAreMended) {
  Ledger ledger;
  ledger.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  ledger.add(lost().bytes());
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  scan.scanned(200, 1, 3 * kSecond, "successor");
  scan.map(0, 200, 0x5000, 0x1000, "/bin/successor");
  scan.thread(0, 200, 209);
  scan.comm(0, 200, 209, "fresh");
  ledger.add_scan(scan.bytes(), 50 * kSecond);
  EXPECT_EQ(read(ledger.export_window(60 * kSecond, 70 * kSecond, {200})).text(),
            "200 of 1: 200=successor 209=fresh 5000-6000@1000/bin/successor\n");
}

TEST(Scan, AfterALossANumberMayBelongToAnother) {
  Ledger ledger;
  ledger.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  ledger.add(lost().bytes());
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  scan.scanned(200, 1, 40 * kSecond, "other");
  scan.map(0, 200, 0x5000, 0x1000, "/bin/other");
  ledger.add_scan(scan.bytes(), 50 * kSecond);
  const auto window = ledger.export_window(30 * kSecond, 60 * kSecond, {200});
  EXPECT_EQ(read(window, 39 * kSecond).comm_of(200, 200), "server");
  EXPECT_EQ(read(window, 40 * kSecond).text(), "200 of 1: 200=other 5000-6000@1000/bin/other\n");
}

TEST(Scan, AScanThatFoundNothingEndsNobody) {
  Ledger ledger;
  ledger.add_scan(scan_of_a_server().bytes(), 10 * kSecond);
  ledger.add(lost().bytes());
  ledger.add_scan({}, 50 * kSecond);
  EXPECT_EQ(ledger.stats().processes, 2U);
}

}  // namespace
}  // namespace flight
