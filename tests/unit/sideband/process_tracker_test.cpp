// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/process_tracker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// The knowledge at `time` of a reader of a file of [begin, end].
std::vector<EventTime> times_of(std::span<const std::byte> bytes) {
  std::vector<EventTime> times;
  for (auto record = next_record(bytes); !record.empty(); record = next_record(bytes)) {
    times.push_back(parse_trailer(record)->time_ns);
    bytes = bytes.subspan(record.size());
  }
  return times;
}

// A shell that exists since time 10, and a process tracker that has folded its records.
class WithShell : public testing::Test {
 protected:
  WithShell() {
    tape_.fork(10, 1, 100);
    tape_.exec(11, 100, "bash");
    tape_.map(12, 100, 0x1000, 0x1000, "/bin/bash", 0xba);
    tape_.map(13, 100, 0x8000, 0x2000, "/lib/libc.so");
    drain();
    tracker_.fold(50);
  }
  void drain() { tracker_.add(tape_.take()); }
  Tape tape_;
  ProcessTracker tracker_;
};

// perf_event_pid(): in a container all processes outside have the pid 0 or -1, so each would give its name to the
// others.
TEST_F(WithShell, TasksWithoutANumberHaveNoName) {
  for (const std::uint32_t none : {0U, UINT32_MAX}) {
    tape_.fork(60, 100, none);
    tape_.exec(61, none, "stranger");
    tape_.map(62, none, 0x1000, 0x1000, "/bin/stranger");
  }
  drain();
  const auto window = tracker_.export_window(55, 90, {0, 100, UINT32_MAX});
  EXPECT_THAT(window.log, IsEmpty());
  tracker_.fold(80);
  const auto later = read(tracker_.export_window(85, 90, {0, 100, UINT32_MAX}));
  EXPECT_FALSE(later.processes.contains(0));
  EXPECT_FALSE(later.processes.contains(UINT32_MAX));
}

TEST_F(WithShell, ThePrologueIsForkCommMapsWithZeroTrailers) {
  const auto window = tracker_.export_window(60, 90, {100});
  EXPECT_THAT(times_of(window.prologue), ElementsAre(0, 0, 0, 0));
  std::vector<std::uint32_t> types;
  std::span<const std::byte> rest = window.prologue;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    types.push_back(load<perf_event_header>(record.data()).type);
    const Trailer trailer = *parse_trailer(record);
    EXPECT_EQ(trailer.id + trailer.pid + trailer.tid + trailer.cpu, 0U);
    if (const auto fork = parse_task(record)) {
      EXPECT_TRUE(fork->exec) << "a reader would clone the parent's maps";
      EXPECT_EQ(fork->time_ns, 0U);
    }
    rest = rest.subspan(record.size());
  }
  EXPECT_THAT(types, ElementsAre(PERF_RECORD_FORK, PERF_RECORD_COMM, PERF_RECORD_MMAP2, PERF_RECORD_MMAP2));
  EXPECT_THAT(window.log, IsEmpty());
  EXPECT_EQ(read(window).text(), "100 of 1: 100=bash 1000-2000@1000/bin/bash 8000-a000@1000/lib/libc.so\n");
  ASSERT_EQ(window.build_ids.size(), 1U);
  EXPECT_EQ(window.build_ids[0].name, "/bin/bash");
  EXPECT_EQ(window.build_ids[0].id.bytes[0], 0xba);
  EXPECT_EQ(window.stats.processes, 1U);
}

TEST_F(WithShell, OnlyRequestedProcessesAreExported) {
  EXPECT_THAT(tracker_.export_window(60, 90, {}).prologue, IsEmpty());
  EXPECT_THAT(tracker_.export_window(60, 90, {4711}).prologue, IsEmpty());
}

TEST_F(WithShell, ARequesterHasItsNameOfThatTime) {
  tape_.fork(100, 100, 200);
  tape_.exec(110, 200, "flightctl");
  tape_.exec(120, 200, "less");
  tape_.exit(130, 200);
  drain();
  const std::vector<ProcessAt> asked{{200, 105}, {200, 115}, {200, 125}, {200, 140}, {100, 140}, {200, 90}, {999, 140}};
  EXPECT_THAT(tracker_.comms_of(asked), ElementsAre("bash", "flightctl", "less", "less", "bash", "", ""));
  tracker_.fold(112);  // one image is folded, the other records are in the log
  EXPECT_THAT(tracker_.comms_of(std::span(asked).subspan(1, 4)), ElementsAre("flightctl", "less", "less", "bash"));
}

// prctl(PR_SET_NAME)
TEST_F(WithShell, ARequesterHasItsNameOfBeforeARename) {
  tape_.fork(100, 100, 200);
  tape_.exec(110, 200, "python3");
  tape_.comm(120, 200, 200, "backup");
  tape_.comm(130, 200, 200, "resting");
  tape_.exec(140, 200, "less");
  drain();
  const std::vector<ProcessAt> asked{{200, 105}, {200, 115}, {200, 120}, {200, 135}, {200, 140}};
  EXPECT_THAT(tracker_.comms_of(asked), ElementsAre("bash", "python3", "backup", "resting", "less"));
  tracker_.fold(112);
  EXPECT_THAT(tracker_.comms_of(std::span(asked).subspan(1)), ElementsAre("python3", "backup", "resting", "less"));
}

// An export names a thread's samples by the pid of its process. Until just now the thread's tid was the pid of a
// process whose last moments may lie in the window, too.
TEST(ProcessTracker, AThreadThatHasTheNumberOfADeadProcessIsNotCalledSo) {
  for (const bool folded : {false, true}) {
    ProcessTracker tracker({.dying_ns = 1000});
    Tape tape;
    tape.fork(10, 1, 200);
    tape.exec(11, 200, "server");
    tape.map(12, 200, 0x1000, 0x1000, "/bin/server");
    tape.fork(20, 1, 300);
    tape.exec(21, 300, "victim");
    tape.map(22, 300, 0x1000, 0x1000, "/bin/victim");
    tape.exit(30, 300);
    tape.thread(40, 200, 300);
    tape.comm(41, 200, 300, "worker");
    tracker.add(tape.bytes());
    if (folded) tracker.fold(45);
    const auto later = tracker.export_window(50, 90, {200});
    EXPECT_EQ(read(later).text(), "200 of 1: 200=server 300=worker 1000-2000@1000/bin/server\n");
    EXPECT_EQ(read(tracker.export_window(50, 90, {200, 300})).text(), read(later).text());
    if (folded) continue;
    // An overlapping window has the same names; the dead process's own samples have its name.
    const auto both = tracker.export_window(35, 90, {200, 300});
    EXPECT_EQ(read(both, 36).comm_of(300, 300), "victim");
    EXPECT_EQ(read(both).comm_of(200, 300), "worker");
  }
}

TEST_F(WithShell, AChildOfTheWindowHasItsParentsMaps) {
  tape_.fork(70, 100, 101);
  drain();
  // Only the child was sampled. Its parent must be in the file so that the reader can clone it.
  const ReaderModel model = read(tracker_.export_window(60, 90, {101}));
  EXPECT_EQ(model.comm_of(101, 101), "bash");
  EXPECT_EQ(model.map_at(101, 0x1800), "/bin/bash");
}

TEST_F(WithShell, AChainOfForksWithoutExecBeforeTheWindow) {
  tape_.fork(51, 100, 101);
  tape_.comm(52, 101, 101, "middle");
  tape_.fork(53, 101, 102);
  tape_.map(54, 102, 0xf000, 0x1000, "/lib/late.so");
  tape_.exit(55, 101);
  drain();
  const ReaderModel model = read(tracker_.export_window(60, 90, {102}));
  EXPECT_EQ(model.text(),
            "102 of 101: 102=middle 1000-2000@1000/bin/bash 8000-a000@1000/lib/libc.so f000-10000@1000/lib/late.so\n");
  // The child's mappings are not the parent's.
  EXPECT_EQ(read(tracker_.export_window(60, 90, {100})).map_at(100, 0xf800), "");
}

TEST_F(WithShell, TheDeadStayKnownUntilTheHorizonHasPassedThem) {
  tape_.fork(60, 100, 101);
  tape_.exec(61, 101, "burner");
  tape_.map(62, 101, 0x5000, 0x1000, "/bin/burner", 0xbb);
  tape_.exit(80, 101);
  drain();
  tracker_.fold(70);
  EXPECT_EQ(tracker_.stats().exited, 1U);
  const auto window = tracker_.export_window(75, 200, {101});
  const ReaderModel at_its_sample = read(window, 79);
  EXPECT_EQ(at_its_sample.comm_of(101, 101), "burner");
  EXPECT_EQ(at_its_sample.map_at(101, 0x5800), "/bin/burner");
  EXPECT_EQ(window.build_ids.size(), 1U);
  tracker_.fold(80);  // a sample at time 80 may be its last
  EXPECT_EQ(read(tracker_.export_window(80, 200, {101}), 79).comm_of(101, 101), "burner");
  tracker_.fold(81);
  EXPECT_EQ(read(tracker_.export_window(81, 200, {101})).comm_of(101, 101), "");
  EXPECT_EQ(tracker_.stats().exited, 0U);
}

// A process frees its memory after its EXIT record, and is sampled meanwhile.
TEST(ProcessTracker, AnExitedProcessHasANameForItsLastSamples) {
  ProcessTracker tracker(TrackerLimits{.dying_ns = 100});
  Tape tape;
  tape.fork(10, 1, 100);
  tape.exec(11, 100, "large");
  tape.map(12, 100, 0x1000, 0x1000, "/bin/large");
  tape.exit(200, 100);
  tracker.add(tape.take());
  const auto named = [&tracker](EventTime begin_ns) {
    return read(tracker.export_window(begin_ns, begin_ns + 500, {100}), begin_ns).comm_of(100, 100);
  };
  EXPECT_EQ(named(150), "large");
  EXPECT_EQ(named(250), "large") << "from the log";
  tracker.fold(250);
  EXPECT_EQ(named(250), "large") << "from the state";
  EXPECT_EQ(read(tracker.export_window(250, 300, {100})).map_at(100, 0x1800), "/bin/large");
  EXPECT_EQ(named(301), "");
  // Another process gets its pid.
  tape.fork(260, 1, 100);
  tape.exec(261, 100, "other");
  tracker.add(tape.take());
  EXPECT_EQ(named(255), "large");
  EXPECT_EQ(named(270), "other");
  EXPECT_EQ(tracker.stats().exited, 1U);
  tracker.fold(301);
  EXPECT_EQ(tracker.stats().exited, 0U);
}

TEST_F(WithShell, AnExecDropsTheMapsAndTheOtherThreads) {
  tape_.thread(51, 100, 105);
  tape_.exit(52, 100, 100);  // execve of thread 105: the leader exits, 105 takes its number
  tape_.exec(53, 100, "vim");
  tape_.map(54, 100, 0x7000, 0x1000, "/bin/vim");
  drain();
  EXPECT_EQ(read(tracker_.export_window(60, 90, {100})).text(), "100 of 1: 100=vim 7000-8000@1000/bin/vim\n");
  tape_.exit(70, 100);
  drain();
  EXPECT_EQ(tracker_.stats().processes, 0U);
}

TEST_F(WithShell, AnExecInsideTheWindowHasTheOldNameBefore) {
  tape_.exec(70, 100, "vim");
  tape_.map(71, 100, 0x7000, 0x1000, "/bin/vim");
  drain();
  const auto window = tracker_.export_window(60, 90, {100});
  EXPECT_EQ(read(window, 69).comm_of(100, 100), "bash");
  EXPECT_EQ(read(window, 69).map_at(100, 0x1800), "/bin/bash");
  EXPECT_EQ(read(window, 71).text(), "100 of 1: 100=vim 7000-8000@1000/bin/vim\n");
}

TEST_F(WithShell, ThreadsHaveTheNameOfTheirMakerThenTheirOwn) {
  tape_.thread(51, 100, 101);
  tape_.comm(52, 100, 101, "worker");
  tape_.thread(53, 100, 102, 101);
  tape_.fork(54, 100, 103, 101);
  drain();
  const ReaderModel model = read(tracker_.export_window(60, 90, {100, 103}));
  EXPECT_EQ(model.comm_of(100, 100), "bash");
  EXPECT_EQ(model.comm_of(100, 101), "worker");
  EXPECT_EQ(model.comm_of(100, 102), "worker");
  EXPECT_EQ(model.comm_of(103, 103), "worker");
  EXPECT_EQ(model.map_at(103, 0x1800), "/bin/bash");
}

TEST_F(WithShell, TheProcessLivesUntilItsLastThreadHasExited) {
  tape_.thread(51, 100, 101);
  tape_.exit(52, 100, 100);
  drain();
  tracker_.fold(55);
  EXPECT_EQ(read(tracker_.export_window(60, 90, {100})).comm_of(100, 101), "bash");
  tape_.exit(70, 100, 101);
  drain();
  tracker_.fold(71);
  EXPECT_THAT(tracker_.export_window(71, 90, {100}).prologue, IsEmpty());
  EXPECT_EQ(tracker_.stats().exited, 0U);
}

TEST_F(WithShell, AThreadThatExitedBeforeTheWindowIsNotWritten) {
  tape_.thread(51, 100, 101);
  tape_.exit(55, 100, 101);
  tape_.thread(56, 100, 101);  // the same tid again
  tape_.comm(57, 100, 101, "second");
  drain();
  const auto model = read(tracker_.export_window(60, 90, {100}));
  EXPECT_EQ(model.processes.at(100).threads.size(), 2U);
  EXPECT_EQ(model.comm_of(100, 101), "second");
}

TEST_F(WithShell, ALateDlopenIsThereFromItsTimeOn) {
  tape_.map(70, 100, 0xf000, 0x1000, "/lib/plugin.so", 0xcc);
  drain();
  const auto window = tracker_.export_window(60, 90, {100});
  EXPECT_EQ(read(window, 69).map_at(100, 0xf800), "");
  EXPECT_EQ(read(window, 70).map_at(100, 0xf800), "/lib/plugin.so");
  EXPECT_EQ(window.build_ids.size(), 2U);
  EXPECT_EQ(read(tracker_.export_window(75, 90, {100})).map_at(100, 0xf800), "/lib/plugin.so");
}

TEST_F(WithShell, AMapOverAnotherCutsIt) {
  tape_.map(55, 100, 0x8800, 0x800, "/lib/inside.so");
  tape_.map(56, 100, 0x1000, 0x1000, "//anon");
  drain();
  EXPECT_EQ(read(tracker_.export_window(60, 90, {100})).text(),
            "100 of 1: 100=bash 1000-2000@1000//anon 8000-8800@1000/lib/libc.so 8800-9000@1000/lib/inside.so "
            "9000-a000@2000/lib/libc.so\n");
}

TEST_F(WithShell, ThreeLivesOfOnePidInOneWindow) {
  for (const auto& [start, name] : {std::pair{60U, "one"}, {70U, "two"}, {80U, "three"}}) {
    tape_.fork(start, 100, 101);
    tape_.exec(start + 1, 101, name);
    tape_.map(start + 2, 101, 0x5000, 0x1000, std::string("/bin/") + name);
    tape_.exit(start + 5, 101);
  }
  drain();
  for (const EventTime begin : {EventTime{55}, EventTime{63}, EventTime{74}, EventTime{84}}) {
    const auto window = tracker_.export_window(begin, 200, {101});
    for (const auto& [start, name] : {std::pair{60U, "one"}, {70U, "two"}, {80U, "three"}}) {
      if (start + 4 < begin) continue;
      const ReaderModel model = read(window, start + 4);
      EXPECT_EQ(model.comm_of(101, 101), name) << begin;
      EXPECT_EQ(model.map_at(101, 0x5800), std::string("/bin/") + name) << begin;
      EXPECT_TRUE(!read(window, start + 6).processes.contains(101)) << begin;
    }
  }
}

TEST_F(WithShell, AReusedPidEndsTheProcessWithALostExit) {
  tape_.fork(60, 1, 100);
  tape_.exec(61, 100, "other");
  drain();
  const auto window = tracker_.export_window(55, 90, {100});
  EXPECT_EQ(read(window, 59).comm_of(100, 100), "bash");
  EXPECT_EQ(read(window, 90).comm_of(100, 100), "other");
  tracker_.fold(65);
  EXPECT_EQ(tracker_.stats().processes, 1U);
  EXPECT_EQ(tracker_.stats().exited, 0U);
}

TEST_F(WithShell, RingsAreDrainedOneAfterTheOther) {
  Tape other;  // CPU 1 has the fork; CPU 0, which is drained first, has what the child did then
  tape_.exec(61, 101, "late");
  tape_.map(62, 101, 0x5000, 0x1000, "/bin/late");
  tape_.exit(80, 101);
  other.fork(60, 100, 101);
  drain();
  tracker_.add(other.bytes());
  const auto window = tracker_.export_window(55, 200, {101});
  EXPECT_THAT(times_of(window.log), ElementsAre(60, 61, 62, 80));
  EXPECT_EQ(read(window, 60).comm_of(101, 101), "bash");
  EXPECT_EQ(read(window, 79).comm_of(101, 101), "late");
}

TEST_F(WithShell, TheLogHasAllOfTheWindowAndNothingElse) {
  for (EventTime time = 60; time < 70; ++time) tape_.comm(time, 4000, 4000, "x");
  drain();
  EXPECT_THAT(times_of(tracker_.export_window(62, 65, {}).log), ElementsAre(62, 63, 64, 65));
  EXPECT_THAT(times_of(tracker_.export_window(0, 59, {}).log), IsEmpty());
}

// What a recording asks for: first everything, then each part of the log once.
TEST_F(WithShell, ARecordingGetsTheWholeStateAndThenTheLogPieceByPiece) {
  tape_.fork(60, 100, 101);
  tape_.exec(61, 101, "make");
  tape_.fork(70, 100, 102);
  drain();
  EXPECT_THAT(tracker_.pids(), testing::UnorderedElementsAre(100U, 101U, 102U));
  const ReaderModel model = read(tracker_.export_window(65, 65, tracker_.pids()));
  EXPECT_EQ(model.comm_of(100, 100), "bash");
  EXPECT_EQ(model.comm_of(101, 101), "make");
  EXPECT_FALSE(model.processes.contains(102)) << "it is newer";

  tape_.exec(80, 102, "cc");
  tape_.exit(90, 102);
  drain();
  FileNames names{.revision = tracker_.revision()};
  const auto first = tracker_.export_next(65, 80, names);
  const auto second = tracker_.export_next(80, 200, names);
  EXPECT_FALSE(first.whole || second.whole);
  EXPECT_THAT(first.state.prologue, IsEmpty());
  EXPECT_THAT(times_of(first.state.log), ElementsAre(70, 80));
  EXPECT_THAT(times_of(second.state.log), ElementsAre(90));
}

TEST_F(WithShell, ALogThatWasFoldedIsNotGivenInPart) {
  tape_.exec(60, 100, "make");
  tape_.exec(70, 100, "cc");
  drain();
  tracker_.fold(65);
  FileNames names{.revision = tracker_.revision()};
  EXPECT_TRUE(tracker_.export_next(50, 80, names).whole) << "one of its records is state now";
  const auto next = tracker_.export_next(60, 80, names);
  EXPECT_FALSE(next.whole);
  EXPECT_THAT(times_of(next.state.log), ElementsAre(70));
  EXPECT_THAT(times_of(tracker_.export_window(50, 80, tracker_.pids()).log), ElementsAre(60, 70));
}

TEST_F(WithShell, ALogWithNamesInDoubtHasNone) {
  tape_.exec(55, 100, "make");
  drain();
  tape_.lost(60, 3);
  drain();
  FileNames names{.revision = tracker_.revision()};
  const auto before = tracker_.export_next(13, 20, names);
  EXPECT_FALSE(before.whole || names.all_lost) << "before the gap";
  const auto piece = tracker_.export_next(50, 80, names);
  EXPECT_FALSE(piece.whole) << "it has the beginning of the gap";
  EXPECT_TRUE(names.all_lost);
  std::span<const std::byte> rest = piece.state.log;
  std::size_t found = 0;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    const auto comm = parse_comm(record);
    if (!comm) continue;
    ++found;
    EXPECT_EQ(comm->name, "[lost]");
  }
  EXPECT_GT(found, 0U);
}

TEST(ProcessTracker, TheIdleTaskAndTheKernelAreNotProcesses) {
  Tape tape;
  tape.fork(5, 0, 1);
  tape.comm(6, 0, 0, "swapper");
  tape.map(7, kKernelPid, 0x1000, 0x1000, "module");
  ProcessTracker tracker;
  tracker.add(tape.bytes());
  tracker.fold(10);
  EXPECT_EQ(tracker.stats().processes, 1U);
  const ReaderModel model = read(tracker.export_window(20, 30, {0, 1, kKernelPid}));
  EXPECT_THAT(model.processes, ElementsAre(Pair(1U, testing::_)));
}

TEST(ProcessTracker, CgroupsAndKernelSymbols) {
  Tape tape;
  tape.cgroup(5, 7, "/system.slice");
  tape.ksymbol(6, 0xffff0000, "bpf_prog_one");
  tape.ksymbol(7, 0xffff1000, "bpf_prog_two");
  tape.cgroup(15, 8, "/user.slice");
  tape.ksymbol(16, 0xffff0000, "", true);
  tape.ksymbol(25, 0xffff2000, "bpf_prog_three");
  ProcessTracker tracker;
  tracker.add(tape.bytes());
  tracker.fold(10);
  const auto window = tracker.export_window(20, 30, {});
  ReaderModel model;
  model.apply_all(window.prologue);
  EXPECT_THAT(model.cgroups, ElementsAre(Pair(7U, "/system.slice"), Pair(8U, "/user.slice")));
  EXPECT_THAT(model.ksymbols, ElementsAre(Pair(0xffff1000U, "bpf_prog_two")));
  model.apply_all(window.log);
  EXPECT_EQ(model.ksymbols.size(), 2U);
}

TEST(ProcessTracker, LostRecordsMakeItStaleAndAreNotKept) {
  Tape tape;
  tape.lost(40, 17);
  tape.raw(PERF_RECORD_THROTTLE, 24 + sizeof(Trailer));
  ProcessTracker tracker;
  EXPECT_FALSE(tracker.stats().stale);
  tracker.add(tape.bytes());
  EXPECT_TRUE(tracker.stats().stale);
  EXPECT_EQ(tracker.stats().lost, 17U);
  EXPECT_THAT(tracker.export_window(0, 100, {}).log, IsEmpty());
  Tape scan;
  scan.scanned(2, 0, 0, "kthreadd");
  tracker.add_scan(scan.bytes(), 30);
  EXPECT_TRUE(tracker.stats().stale) << "it was asked for before the loss was over";
  tracker.add_scan({}, 50);
  EXPECT_TRUE(tracker.stats().stale) << "it has nobody in it";
  tracker.add_scan(scan.bytes(), 50);
  EXPECT_FALSE(tracker.stats().stale);
}

TEST(ProcessTracker, OneLostRecordIsReportedInTheSingular) {
  Tape tape;
  tape.lost(40, 1);
  ProcessTracker tracker;
  tracker.add(tape.bytes());
  const auto window = tracker.export_window(0, 100, {});
  EXPECT_THAT(window.warnings, testing::Contains(testing::HasSubstr("1 sideband record was lost within")));
}

TEST(ProcessTracker, HostileBytesAreNotFollowed) {
  Tape tape;
  tape.fork(5, 1, 100);
  RecordBuffer bytes = tape.take();
  const std::size_t whole = bytes.size();
  for (std::size_t at = 0; at < whole; ++at) {  // any wrong byte, any truncation: no crash, at most one process
    for (const auto value : {std::byte{0}, std::byte{0xff}, std::byte{0x0a}}) {
      RecordBuffer bad = bytes;
      bad[at] = value;
      ProcessTracker tracker;
      tracker.add(bad);
      tracker.add_scan(bad, 7);
      tracker.fold(10);
      EXPECT_LE(tracker.stats().processes, 2U);
    }
    ProcessTracker tracker;
    tracker.add(std::span(bytes).first(at));
    EXPECT_EQ(tracker.stats().processes, 0U);
    EXPECT_EQ(tracker.stats().stale, at != 0);
  }
  Tape names;  // a name without its end
  names.comm(5, 100, 100, "1234567");
  bytes = names.take();
  for (std::size_t i = 16; i < 24; ++i) bytes[i] = std::byte{'x'};
  ProcessTracker tracker;
  tracker.add(bytes);
  EXPECT_THAT(tracker.export_window(0, 100, {}).log, IsEmpty());
}

}  // namespace
}  // namespace flight
