// SPDX-License-Identifier: Apache-2.0
// The process tracker at its bounds: records that are folded early keep their times, and its memory stays within the
// limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libcore/sideband/checkpoint_file.hpp"
#include "libcore/sideband/forgotten.hpp"
#include "libcore/sideband/mappings.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

constexpr EventTime kStep = 100'000;

// A shell forks; the child execs, maps and exits. Its pid is used again nine processes later.
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

// A log that is folded early keeps only the last mapping of an address.
TEST(Bounds, AMappingThatWasReplacedBeforeItWasFoldedIsCounted) {
  ProcessTracker tracker({.log_bytes = 16U << 10U, .state_bytes = 8U << 20U});
  tracker.add(shell().bytes());
  Tape tape;
  tape.map(kSecond, 100, 0x8000, 0x1000, "/lib/first.so");
  tape.map(2 * kSecond, 100, 0x8000, 0x2000, "/lib/second.so");
  tape.map(2 * kSecond + kStep, 100, 0x20000, 0x1000, "/lib/third.so");
  tracker.add(tape.bytes());
  const auto first_at = [](const ProcessTracker& of) {
    const TrackerExport window = of.export_window(kSecond / 2, 60 * kSecond, {100});
    return read(window, kSecond + kSecond / 2).map_at(100, 0x8000);
  };
  const auto warnings = [](const ProcessTracker& of, EventTime begin_ns) {
    return testing::PrintToString(of.export_window(begin_ns, 60 * kSecond, {100}).warnings);
  };
  const auto counted = testing::HasSubstr("names: 1 executable mapping was replaced by others and forgotten");
  const auto forgotten = testing::HasSubstr("replaced by others");
  EXPECT_EQ(first_at(tracker), "/lib/first.so");
  EXPECT_THAT(warnings(tracker, kSecond / 2), testing::Not(forgotten)) << "the log has it";
  for (int i = 0; i < 1000; ++i) {
    Tape more;
    live(more, 3 * kSecond + static_cast<EventTime>(i) * 10 * kStep, i);
    tracker.add(more.bytes());
  }
  EXPECT_EQ(first_at(tracker), "");
  EXPECT_THAT(warnings(tracker, kSecond / 2), counted);
  EXPECT_THAT(warnings(tracker, 5 * kSecond / 2), testing::Not(forgotten)) << "this window does not need it";
  EXPECT_EQ(tracker.stats().forgotten.replaced, 1U);
  RecordBuffer bytes;
  const auto omissions = tracker.checkpoint(1U << 20U, [&bytes](std::span<const std::byte> records) {
    bytes.insert(bytes.end(), records.begin(), records.end());
  });
  ProcessTracker restored;
  restored.replay(bytes, omissions.losses);
  EXPECT_THAT(warnings(restored, kSecond / 2), counted);
  tracker.fold(3 * kSecond);
  EXPECT_EQ(tracker.stats().forgotten.replaced, 0U) << "no window needs it any more";
}

// prctl(PR_SET_NAME): state has the newest name, and a window begins before the rename.
TEST(Bounds, ARenameThatIsFoldedEarlyKeepsTheNamesBefore) {
  ProcessTracker tracker({.log_bytes = 16U << 10U, .state_bytes = 8U << 20U});
  tracker.add(shell().bytes());
  Tape tape;
  tape.thread(kSecond, 100, 101);
  tape.comm(2 * kSecond, 100, 100, "renamed");
  tape.comm(2 * kSecond + 5, 100, 101, "worker");
  tape.comm(3 * kSecond, 100, 101, "resting");
  tape.exec(4 * kSecond, 100, "other");
  tape.comm(5 * kSecond, 100, 100, "last");
  tracker.add(tape.bytes());
  for (int i = 0; i < 1000; ++i) {
    Tape more;
    live(more, 6 * kSecond + static_cast<EventTime>(i) * 10 * kStep, i);
    tracker.add(more.bytes());
  }
  RecordBuffer bytes;
  const auto omissions = tracker.checkpoint(1U << 20U, [&bytes](std::span<const std::byte> records) {
    bytes.insert(bytes.end(), records.begin(), records.end());
  });
  ProcessTracker restored;
  restored.replay(bytes, omissions.losses);
  const EventTime half = kSecond / 2;
  for (ProcessTracker* of : {&tracker, &restored}) {
    const auto names = [of](EventTime begin_ns, EventTime at_ns) {
      const ReaderModel model = read(of->export_window(begin_ns, 60 * kSecond, {100}), at_ns);
      return model.comm_of(100, 100) + " " + model.comm_of(100, 101);
    };
    for (const EventTime begin_ns : {half, kSecond + 1}) {
      EXPECT_EQ(names(begin_ns, kSecond + half), "bash bash");
      EXPECT_EQ(names(begin_ns, 2 * kSecond + half), "renamed worker");
      EXPECT_EQ(names(begin_ns, 3 * kSecond + half), "renamed resting");
      EXPECT_EQ(names(begin_ns, 4 * kSecond + half), "other ");
      EXPECT_EQ(names(begin_ns, 5 * kSecond + half), "last ");
    }
    EXPECT_EQ(names(2 * kSecond + half, 2 * kSecond + half), "renamed worker");
    EXPECT_EQ(names(4 * kSecond + half, 4 * kSecond + half), "other ");
    of->fold(3 * kSecond + half);
    EXPECT_EQ(names(3 * kSecond + half, 3 * kSecond + half), "renamed resting");
    EXPECT_EQ(names(3 * kSecond + half, 5 * kSecond + half), "last ");
  }
}

// A record that Intake puts back can be older than what was folded early.
TEST(Bounds, ALateRecordIsNotOfALaterExec) {
  ProcessTracker tracker({.log_bytes = 16U << 10U, .state_bytes = 8U << 20U});
  tracker.add(shell().bytes());
  Tape tape;
  tape.thread(kSecond, 100, 101);
  tape.exec(4 * kSecond, 100, "other");
  tape.comm(5 * kSecond, 100, 100, "last");
  tracker.add(tape.bytes());
  const auto fold_all = [&tracker](EventTime from_ns) {
    for (int i = 0; i < 1000; ++i) {
      Tape more;
      live(more, from_ns + static_cast<EventTime>(i) * 10 * kStep, i);
      tracker.add(more.bytes());
    }
  };
  fold_all(6 * kSecond);
  Tape late;
  late.comm(3 * kSecond, 100, 100, "late");
  late.comm(3 * kSecond, 100, 101, "worker");
  late.comm(3 * kSecond, 100, 102, "ended");
  late.map(3 * kSecond, 100, 0x9000, 0x1000, "/lib/late.so");
  tracker.add(late.bytes());
  const EventTime half = kSecond / 2;
  for (const bool folded : {false, true}) {
    SCOPED_TRACE(folded);
    if (folded) fold_all(6 * kSecond + 10'000 * kStep);
    const auto names = [&tracker](EventTime begin_ns, EventTime at_ns) {
      const ReaderModel model = read(tracker.export_window(begin_ns, 600 * kSecond, {100}), at_ns);
      return model.comm_of(100, 100) + " " + model.comm_of(100, 101) + model.comm_of(100, 102) + " " +
             model.map_at(100, 0x9000);
    };
    EXPECT_EQ(names(half, 2 * kSecond), "bash bash ");
    for (const EventTime begin_ns : {half, 3 * kSecond + half}) {
      EXPECT_EQ(names(begin_ns, 4 * kSecond + half), "other  ");
      EXPECT_EQ(names(begin_ns, 5 * kSecond + half), "last  ");
    }
    EXPECT_EQ(names(3 * kSecond + half, 3 * kSecond + half), "late worker /lib/late.so");
  }
}

// Memory is short: a name that is forgotten is unknown, and the later one does not take its place.
TEST(Bounds, ANameThatIsForgottenIsNotReplacedByALaterOne) {
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = 1U << 20U});
  tracker.add(shell().bytes());
  Tape tape;
  for (EventTime i = 0; i < 3 * PastNames::kMost; ++i) tape.comm(kSecond + i, 100, 100, "n" + std::to_string(i));
  tape.cgroup(10 * kSecond, 5, "/x");
  tracker.add(tape.bytes(), 20 * kSecond);
  const auto window = tracker.export_window(kSecond / 2, 60 * kSecond, {100});
  EXPECT_EQ(read(window, kSecond + 5).comm_of(100, 100), kLostName);
  EXPECT_EQ(read(window, kSecond + 3 * PastNames::kMost - 5).comm_of(100, 100),
            "n" + std::to_string(3 * PastNames::kMost - 5));
  EXPECT_GT(window.forgotten.names, PastNames::kMost);
  EXPECT_THAT(testing::PrintToString(window.warnings),
              testing::HasSubstr(fmt::format("names: {} names that tasks had before they were renamed were forgotten",
                                             window.forgotten.names)));
}

// A record that no window needs any more is folded, too.
TEST(Bounds, AMappingThatWasReplacedLongAgoIsNotCounted) {
  ProcessTracker tracker;
  tracker.add(shell().bytes());
  Tape tape;
  tape.map(kSecond, 100, 0x8000, 0x1000, "/lib/first.so");
  tape.map(2 * kSecond, 100, 0x8000, 0x1000, "/lib/second.so");
  tracker.add(tape.bytes());
  tracker.fold(3 * kSecond);
  EXPECT_EQ(tracker.stats().forgotten.replaced, 0U);
  EXPECT_EQ(read(tracker.export_window(4 * kSecond, 5 * kSecond, {100})).map_at(100, 0x8000), "/lib/second.so");
}

TEST(Bounds, EarlyFoldingKeepsTheTimes) {
  ProcessTracker tracker({.log_bytes = 16U << 10U, .state_bytes = 8U << 20U});
  tracker.add(shell().bytes());
  constexpr int kLives = 1000;
  const EventTime first = kSecond;
  const EventTime each = 10 * kStep;
  for (int i = 0; i < kLives; ++i) {
    Tape tape;
    live(tape, first + static_cast<EventTime>(i) * each, i);
    tracker.add(tape.bytes());
    tracker.fold(first - 1);  // a ring still has samples of that time
  }
  EXPECT_LE(tracker.stats().log_bytes, 16U << 10U);
  EXPECT_EQ(tracker.stats().evicted, 0U);
  EXPECT_EQ(tracker.stats().exited, static_cast<std::uint64_t>(kLives));
  std::unordered_set<std::uint32_t> pids;
  for (std::uint32_t pid = 1000; pid < 1010; ++pid) pids.insert(pid);
  for (const int from : {0, 500, 995}) {
    // The window begins in the middle of a process's life, when it has its second name.
    const EventTime begin = first + static_cast<EventTime>(from) * each + 4 * kStep;
    const auto window = tracker.export_window(begin, first + kLives * each, pids);
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
  tracker.fold(first + kLives * each);
  EXPECT_EQ(tracker.stats().exited, 0U);
  EXPECT_EQ(tracker.stats().processes, 1U);
}

// BPF programs come and go at the same addresses, and the log holds much less than the window.
TEST(Bounds, EarlyFoldingKeepsTheTimesOfSymbols) {
  constexpr std::uint64_t kA = 0xffffffffc0001000, kB = 0xffffffffc0002000;
  ProcessTracker tracker({.log_bytes = 16U << 10U, .state_bytes = 8U << 20U});
  tracker.add(shell().bytes());
  Tape tape;
  tape.ksymbol(1 * kSecond, kA, "one");
  tape.ksymbol(2 * kSecond, kA, "one", true);
  tape.ksymbol(2 * kSecond, kB, "old");
  tape.ksymbol(3 * kSecond, kA, "two");
  tape.ksymbol(4 * kSecond, kB, "new");  // the end of the other one was not recorded
  tracker.add(tape.take());
  tracker.fold(kSecond / 2);  // a ring still has samples of that time
  for (int i = 0; i < 1000; ++i) {
    live(tape, 5 * kSecond + static_cast<EventTime>(i) * 10 * kStep, i);
    tracker.add(tape.take());
  }
  ASSERT_LE(tracker.stats().log_bytes, 16U << 10U);
  using Names = std::map<std::uint64_t, std::string>;
  const auto expect_names = [&](const ProcessTracker& known) {
    const auto names = [&](EventTime begin_ns, EventTime at_ns) {
      return read(known.export_window(begin_ns, 10 * kSecond, {}), at_ns).ksymbols;
    };
    const EventTime begin = kSecond / 2, half = kSecond / 2;
    EXPECT_EQ(names(begin, begin), Names{});
    EXPECT_EQ(names(begin, 1 * kSecond + half), (Names{{kA, "one"}}));
    EXPECT_EQ(names(begin, 2 * kSecond + half), (Names{{kB, "old"}}));
    EXPECT_EQ(names(begin, 3 * kSecond + half), (Names{{kA, "two"}, {kB, "old"}}));
    EXPECT_EQ(names(begin, 9 * kSecond), (Names{{kA, "two"}, {kB, "new"}}));
    EXPECT_EQ(names(3 * kSecond + half, 3 * kSecond + half), (Names{{kA, "two"}, {kB, "old"}})) << "a later window";
    EXPECT_EQ(names(3 * kSecond + half, 9 * kSecond), (Names{{kA, "two"}, {kB, "new"}}));
  };
  expect_names(tracker);
  RecordBuffer kept;
  static_cast<void>(
      tracker.checkpoint(1U << 20U, [&](auto part) { kept.insert(kept.end(), part.begin(), part.end()); }));
  ProcessTracker next;
  next.replay(kept, {});
  expect_names(next);
}

TEST(Bounds, SymbolsThatHaveEndedAreForgottenBeforeOthersAndCounted) {
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = 256U << 10U});
  Tape tape;
  tape.ksymbol(kSecond, 0x1000, "stays");
  constexpr std::uint64_t kAll = 1000;
  for (std::uint64_t i = 0; i < kAll; ++i) {
    tape.ksymbol(2 * kSecond + 2 * i, 0x2000, "short" + std::to_string(i));
    tape.ksymbol(2 * kSecond + 2 * i + 1, 0x2000, "short" + std::to_string(i), true);
  }
  tracker.add(tape.take());
  const auto window = [&] { return tracker.export_window(kSecond, 4 * kSecond, {}); };
  EXPECT_GT(window().forgotten.symbols, kAll / 2);
  EXPECT_THAT(window().warnings,
              testing::Contains(testing::HasSubstr("of the kernel's generated code were forgotten")));
  EXPECT_EQ(read(window()).ksymbols, (std::map<std::uint64_t, std::string>{{0x1000, "stays"}}));
  tracker.fold(3 * kSecond);
  EXPECT_EQ(tracker.stats().forgotten.symbols, 0U) << "no window needs them any more";
}

TEST(Bounds, TheLongestDeadGoFirstAndAreCounted) {
  constexpr std::size_t kState = 256U << 10U;
  ProcessTracker tracker({.log_bytes = 8U << 10U, .state_bytes = kState});
  tracker.add(shell().bytes());
  constexpr int kLives = 5000;
  for (int i = 0; i < kLives; ++i) {
    Tape tape;
    live(tape, kSecond + static_cast<EventTime>(i) * 10 * kStep, i);
    tracker.add(tape.bytes());
    ASSERT_LE(tracker.stats().state_bytes, kState);
  }
  const TrackerStats stats = tracker.stats();
  EXPECT_GT(stats.evicted, 1000U);
  EXPECT_GT(stats.exited, 100U);
  EXPECT_EQ(stats.evicted + stats.exited, static_cast<std::uint64_t>(kLives));
  EXPECT_EQ(stats.processes, 1U) << "the living must stay";
  const auto window = tracker.export_window(0, 100 * kSecond, {100, 1000, 1009});
  const auto life = [&](int i) {
    const auto pid = static_cast<std::uint32_t>(1000 + i % 10);
    return read(window, kSecond + static_cast<EventTime>(i) * 10 * kStep + 5 * kStep).comm_of(pid, pid);
  };
  EXPECT_EQ(window.stats.evicted, stats.evicted);
  EXPECT_EQ(window.names_from_ns, stats.evicted_until_ns + 1);
  EXPECT_EQ(life(kLives - 1), "life4999");
  EXPECT_EQ(life(0), "");
  EXPECT_EQ(read(window, kSecond).comm_of(100, 100), "bash");
}

// Windows that begin later are complete. When no ring reaches back that far, no warning remains.
TEST(Bounds, ForgettingAffectsOnlyTheTimeBefore) {
  ProcessTracker tracker({.log_bytes = 8U << 10U, .state_bytes = 256U << 10U});
  tracker.add(shell().bytes());
  Tape tape;
  for (int i = 0; i < 5000; ++i) {
    live(tape, kSecond + static_cast<EventTime>(i) * 10 * kStep, i);
    tracker.add(tape.take());
  }
  const TrackerStats stats = tracker.stats();
  ASSERT_GT(stats.evicted_until_ns, 3 * kSecond);
  const auto warned = [&](EventTime begin_ns) {
    const TrackerExport window = tracker.export_window(begin_ns, 10 * kSecond, {1000});
    EXPECT_EQ(window.names_from_ns != 0, window.stats.evicted != 0);
    std::string out;
    for (const std::string& warning : window.warnings)
      if (warning.find("that had exited") != std::string::npos && warning.find("mappings") == std::string::npos)
        out += warning;
    return out;
  };
  EXPECT_THAT(warned(0), testing::HasSubstr(fmt::format("{} processes that had exited", stats.evicted)));
  EXPECT_THAT(warned(0), testing::HasSubstr("a larger memory.max keeps more"));
  EXPECT_THAT(warned(stats.evicted_until_ns), testing::HasSubstr("that had exited"));
  const TrackerExport half = tracker.export_window(3 * kSecond, 10 * kSecond, {1000});
  EXPECT_GT(half.stats.evicted, 100U);
  EXPECT_LT(half.stats.evicted, stats.evicted) << "not those of the seconds before";
  EXPECT_EQ(warned(stats.evicted_until_ns + 1), "");
  tracker.fold(stats.evicted_until_ns);
  EXPECT_GT(tracker.stats().evicted, 0U);
  tracker.fold(stats.evicted_until_ns + 1);
  EXPECT_EQ(tracker.stats().evicted, 0U) << "no ring holds a sample of them";
}

TEST(Bounds, MoreMemoryIsAdvisedOnlyWhereItHelps) {
  const auto advice = [](std::uint64_t max_bytes, std::uint64_t cgroup_bytes = BesideRings::kNoCgroupLimit) {
    return std::string(ProcessTracker(TrackerLimits::of(beside_rings(max_bytes, cgroup_bytes), 0)).memory_advice());
  };
  const auto larger_max =
      testing::AllOf(testing::HasSubstr("larger memory.max"), testing::Not(testing::HasSubstr("cgroup")));
  EXPECT_THAT(advice(200U << 20U), larger_max);
  EXPECT_THAT(advice(400U << 20U),
              testing::AllOf(testing::HasSubstr("no more"), testing::Not(testing::HasSubstr("larger"))));
  EXPECT_THAT(advice(200U << 20U, 400U << 20U), larger_max);
  EXPECT_THAT(advice(400U << 20U, 100U << 20U), testing::HasSubstr("of flightd's cgroup keeps more (MemoryMax="));
}

// What is known about processes, with the checkpoint, fits into a quarter of the memory that flightd may use.
TEST(Bounds, ArePartOfWhatTheCgroupMayUse) {
  constexpr std::uint64_t kMiB = 1U << 20U, kPlenty = 8U << 10U;
  const auto together = [](std::uint64_t max_mib, std::uint64_t cgroup_mib) {
    const BesideRings beside = beside_rings(max_mib * kMiB, cgroup_mib * kMiB);
    const TrackerLimits limits = TrackerLimits::of(beside, 0);
    const CheckpointLimits file = CheckpointLimits::of(beside.bytes);
    // The checkpoint, what it grows by, and its successor.
    const std::size_t files = 2 * (file.state_bytes + limits.log_bytes) + file.most_growth_bytes;
    EXPECT_LE(limits.log_bytes + limits.state_bytes + files, tracker_bytes(beside.bytes) + 16);
    return tracker_bytes(beside.bytes);
  };
  EXPECT_LE(together(kPlenty, kPlenty), 32 * kMiB);
  EXPECT_GT(together(kPlenty, kPlenty), 31 * kMiB);
  for (std::uint64_t cgroup_mib = 32; cgroup_mib <= 160; cgroup_mib += 4) {
    EXPECT_LE(together(kPlenty, cgroup_mib), cgroup_mib * kMiB / 4) << cgroup_mib;
    EXPECT_GT(together(kPlenty, cgroup_mib), std::min<std::uint64_t>(cgroup_mib * 6 / 25, 31) * kMiB) << cgroup_mib;
  }
  EXPECT_EQ(together(kPlenty, 1), together(1, 1)) << "the smallest share";
  EXPECT_GT(together(kPlenty, 1), 7 * kMiB);
  EXPECT_EQ(together(100, kPlenty), together(100, 100)) << "memory.max asks for less";
  EXPECT_EQ(beside_rings(kPlenty * kMiB, 64 * kMiB).bound, MemoryBound::cgroup);
  EXPECT_EQ(beside_rings(100 * kMiB, 64 * kMiB).bound, MemoryBound::config);
}

TEST(Forgotten, IsBoundedAndCountsAll) {
  Forgotten forgotten;
  for (EventTime second = 1; second <= 2000; ++second)
    for (EventTime part = 0; part < 10; ++part) forgotten.add(second * kSecond + part * kSecond / 10, 7);
  EXPECT_EQ(forgotten.since(0), 2000U * 70);
  EXPECT_EQ(forgotten.since(1999 * kSecond), 140U);
  EXPECT_EQ(forgotten.since(2001 * kSecond), 0U);
  forgotten.forget(1999 * kSecond);
  EXPECT_EQ(forgotten.since(0), 140U);
  forgotten.add(Forgotten::kLiving, 3);
  forgotten.forget(3000 * kSecond);
  EXPECT_EQ(forgotten.since(3000 * kSecond), 3U) << "they live";
  forgotten.found_living(3001 * kSecond);
  EXPECT_EQ(forgotten.until_ns(), 3001 * kSecond);
  forgotten.forget(3002 * kSecond);
  EXPECT_EQ(forgotten.until_ns(), 0U);
}

// Children of a process with thousands of mappings, each with its own: the tracker drops their maps before their names.
TEST(Bounds, TheDeadLoseTheirMapsBeforeTheirNames) {
  constexpr std::size_t kState = 1536U << 10U;
  ProcessTracker tracker({.log_bytes = 256U << 10U, .state_bytes = kState, .export_bytes = 1U << 20U});
  Tape tape;
  tape.fork(10, 1, 100);
  for (std::uint64_t i = 0; i < 1000; ++i) tape.map(11, 100, 0x100000 + i * 0x2000, 0x1000, "//anon");
  tracker.add(tape.take());
  constexpr std::uint32_t kChildren = 500;
  for (std::uint32_t i = 0; i < kChildren; ++i) {
    const EventTime at = kSecond + i * kStep;
    tape.fork(at, 100, 1000 + i);
    tape.comm(at + 1, 1000 + i, 1000 + i, "child" + std::to_string(i));
    tape.map(at + 2, 1000 + i, 0x50000000, 0x1000, "/bin/own");
    tape.exit(at + 3, 1000 + i);
    tracker.add(tape.take(), at + kStep);
    ASSERT_LE(tracker.stats().state_bytes, kState);
  }
  EXPECT_EQ(tracker.stats().evicted, 0U);
  std::unordered_set<std::uint32_t> all{100};
  for (std::uint32_t i = 0; i < kChildren; ++i) all.insert(1000 + i);
  const auto window = tracker.export_window(0, 10 * kSecond, all);
  EXPECT_LT(window.prologue.size() + window.log.size(), 12U << 20U);
  for (const std::uint32_t i : {0U, 1U, 250U, kChildren - 1}) {
    const ReaderModel then = read(window, kSecond + i * kStep + 2);
    EXPECT_EQ(then.comm_of(1000 + i, 1000 + i), "child" + std::to_string(i));
  }
  EXPECT_EQ(read(window, kSecond + (kChildren - 1) * kStep + 2).map_at(1000 + kChildren - 1, 0x50000800), "/bin/own");
  std::string warnings;
  for (const std::string& warning : window.warnings) warnings += warning;
  EXPECT_NE(warnings.find("that had exited were forgotten (limit reached): in this window these"), std::string::npos)
      << warnings;
  EXPECT_EQ(tracker.export_window(10 * kSecond, 11 * kSecond, all).warnings.size(), 0U) << "that is long ago";
}

TEST(Bounds, SoMuchAtOnceThatRingsMayBeBehindMakesItStale) {
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = 1U << 20U});
  Tape tape;
  for (std::uint32_t i = 0; i < 1000; ++i) tape.fork(kSecond + i, 1, 5000 + i);
  tracker.add(tape.bytes());
  EXPECT_LE(tracker.stats().log_bytes, 4096U);
  EXPECT_TRUE(tracker.stats().stale);
  EXPECT_EQ(tracker.stats().processes, 1000U);
}

TEST(Bounds, AFloodOfLivingProcessesWithManyMapsIsBounded) {
  constexpr std::size_t kState = 1U << 20U;
  ProcessTracker tracker({.log_bytes = 64U << 10U, .state_bytes = kState});
  EventTime time = kSecond;
  for (std::uint32_t pid = 100; pid < 400; ++pid) {
    Tape tape;
    tape.fork(time++, 1, pid);
    for (std::uint64_t i = 0; i < 100; ++i) {
      tape.map(time++, pid, 0x10000 + i * 0x2000, 0x1000, "/tmp/code" + std::to_string(pid));
      tape.thread(time++, pid, 10000 + pid * 100 + static_cast<std::uint32_t>(i));
    }
    tracker.add(tape.bytes());
    ASSERT_LE(tracker.stats().state_bytes, kState) << pid;
  }
  const ReaderModel model = read(tracker.export_window(time, time, {399}));
  EXPECT_NE(model.text_of(399), "");
}

// The first ten are in a snapshot; then more and more processes live, each with mappings of its own.
TEST(Bounds, WhatASnapshotHasSamplesOfIsForgottenLast) {
  constexpr std::size_t kState = 512U << 10U;
  constexpr std::uint32_t kFirst = 100, kSampled = 10, kAll = 3000;
  constexpr std::uint64_t kMaps = 100;
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = kState});
  EventTime time = kSecond;
  const auto live_on = [&](std::uint32_t pid) {
    Tape tape;
    tape.fork(time++, 1, pid);
    tape.exec(time++, pid, "life" + std::to_string(pid));
    for (std::uint64_t i = 0; i < kMaps; ++i) tape.map(time++, pid, 0x10000 + i * 0x2000, 0x1000, "/lib/one");
    tracker.add(tape.bytes());
  };
  std::unordered_set<std::uint32_t> sampled;
  std::uint32_t pid = kFirst;
  for (; pid < kFirst + kSampled; ++pid) {
    live_on(pid);
    sampled.insert(pid);
  }
  tracker.fold(time);
  tracker.mark_sampled(kSecond, time, sampled);
  // The others lose mappings.
  for (std::uint64_t gone = 0; gone == 0; ++pid) {
    ASSERT_LT(pid, kFirst + kAll);
    live_on(pid);
    gone = tracker.export_window(time, time, {kFirst + kSampled}).forgotten.maps;
  }
  EXPECT_EQ(tracker.export_window(time, time, sampled).forgotten.maps, 0U);
  // Then they are forgotten.
  for (; pid < kFirst + kAll; ++pid) {
    live_on(pid);
    ASSERT_LE(tracker.stats().state_bytes, kState) << pid;
  }
  const TrackerStats stats = tracker.stats();
  EXPECT_GT(stats.living, kAll / 2);
  EXPECT_EQ(stats.evicted, 0U) << "none of them has exited";
  const TrackerExport window = tracker.export_window(time, time, sampled);
  EXPECT_THAT(window.warnings, testing::Contains(testing::StartsWith(fmt::format(
                                   "names: {} processes were forgotten while they were alive", stats.living))));
  const ReaderModel model = read(window);
  for (const std::uint32_t one : sampled) EXPECT_EQ(model.comm_of(one, one), "life" + std::to_string(one));
}

// A user who may make cgroups can make thousands with long paths, and programs that load BPF code make symbols.
TEST(Bounds, CgroupsAndSymbolsLeaveSpaceForTheNamesOfProcesses) {
  constexpr std::size_t kState = 1U << 20U;
  constexpr std::uint64_t kFirst = 1000, kBusy = kFirst + 700, kAll = 3000;
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = kState});
  EventTime time = kSecond;
  Tape tape;
  tape.cgroup(time++, 1, "/system.slice");
  std::unordered_set<std::uint32_t> pids;
  for (std::uint32_t pid = 100; pid < 600; ++pid) {
    tape.fork(time++, 1, pid);
    tape.exec(time++, pid, "life" + std::to_string(pid));
    pids.insert(pid);
  }
  tracker.add(tape.take());
  for (std::uint64_t id = kFirst; id < kFirst + kAll; ++id) {
    tape.cgroup(time++, id, "/user.slice/" + std::string(4000, 'x') + std::to_string(id));
    if (id == kBusy) tape.cgroup(time++, id, "/system.slice/busy.service");
    tape.ksymbol(time++, 0x1000 * id, std::string(200, 'y') + std::to_string(id));
    tracker.add(tape.take());
    tracker.fold(time);
    if (id == kBusy) tracker.mark_sampled(kSecond, time, {}, {kBusy});
    ASSERT_LE(tracker.stats().state_bytes, kState) << id;
  }
  EXPECT_EQ(tracker.stats().living, 0U);
  const TrackerExport window = tracker.export_window(time, time, pids);
  EXPECT_GT(window.forgotten.cgroups, kAll / 2);
  EXPECT_GT(window.forgotten.symbols, kAll / 4);
  const ReaderModel model = read(window);
  for (const std::uint32_t pid : pids) EXPECT_EQ(model.comm_of(pid, pid), "life" + std::to_string(pid));
  EXPECT_EQ(model.cgroups.at(1), "/system.slice") << "the oldest stay";
  EXPECT_TRUE(model.cgroups.contains(kFirst + kAll - 1)) << "the newest";
  EXPECT_EQ(model.cgroups.at(kBusy), "/system.slice/busy.service") << "a snapshot has samples of it";
  EXPECT_GT(model.cgroups.size(), 40U);
  EXPECT_GT(model.ksymbols.size(), 300U);
}

// Cgroups of which earlier snapshots had samples do not keep out new ones for ever.
TEST(Bounds, SampledCgroupsThatMayBeGoneLeaveSpaceForNewOnes) {
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = 1U << 20U});
  EventTime time = kSecond;
  Tape tape;
  constexpr std::uint64_t kAll = 10'000;
  for (std::uint64_t id = 1; id <= kAll; ++id) {
    tape.cgroup(time++, id, fmt::format("/machine.slice/container-{}.scope", id));
    tracker.add(tape.take());
    tracker.fold(time);
    tracker.mark_sampled(kSecond, time, {}, {id});
  }
  const ReaderModel model = read(tracker.export_window(time, time, {1}));
  ASSERT_GT(model.cgroups.size(), 1000U);
  for (std::uint64_t id = kAll - 500; id <= kAll; ++id) EXPECT_TRUE(model.cgroups.contains(id)) << id;
}

// A list that many share is in memory once: it is cut only if none of them is in a snapshot.
TEST(Bounds, MappingsSharedWithASampledProcessStay) {
  constexpr std::size_t kState = 256U << 10U;
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = kState});
  Tape tape;
  EventTime time = kSecond;
  tape.fork(time++, 1, 100);
  for (std::uint64_t i = 0; i < 100; ++i) tape.map(time++, 100, 0x10000 + i * 0x2000, 0x1000, "/lib/one");
  tape.fork(time++, 100, 101);
  tape.fork(time++, 100, 102);
  tracker.add(tape.take());
  tracker.fold(time);
  tracker.mark_sampled(kSecond, time, {102});
  tape.fork(time++, 1, 200);
  for (std::uint32_t i = 0; i < 6000; ++i) tape.thread(time++, 200, 10000 + i);
  tracker.add(tape.take());
  tracker.fold(time);
  ASSERT_GT(tracker.stats().forgotten.threads, 0U) << "memory was short";
  ReaderModel model = read(tracker.export_window(time, time, {100, 101, 102}));
  for (const std::uint32_t pid : {100U, 101U, 102U}) EXPECT_EQ(model.processes[pid].maps.size(), 100U) << pid;
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

TEST(Bounds, FilesOutliveAnonymousMappings) {
  constexpr std::uint64_t kHigh = 1ULL << 40U;
  ProcessTable table;
  Tape tape;
  tape.fork(1, 1, 100);
  tape.map(2, 100, kHigh, 0x1000, "/bin/program");
  tape.map(3, 100, kHigh + 0x10000, 0x1000, "/lib/libc.so");
  for (std::uint64_t i = 0; i < 3 * kMaxMapsPerProcess; ++i) tape.map(4 + i, 100, i * 0x2000, 0x1000, "//anon");
  std::span<const std::byte> rest = tape.bytes();
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    table.apply(record, parse_trailer(record)->time_ns);
    rest = rest.subspan(record.size());
  }
  const auto& maps = table.of(100)[0].image.maps->all();
  EXPECT_LE(maps.size(), kMaxMapsPerProcess);
  ASSERT_GE(maps.size(), 3U);
  EXPECT_EQ(maps[maps.size() - 1].file->name, "/lib/libc.so");
  EXPECT_EQ(maps[maps.size() - 2].file->name, "/bin/program");
  EXPECT_EQ(maps[maps.size() - 3].address, (3 * kMaxMapsPerProcess - 1) * 0x2000) << "the newest anonymous one";
}

// More files than fit: the program and its first libraries stay, and the newest.
TEST(Bounds, OfManyFilesTheFirstAndTheNewestStay) {
  Meter meter;
  FilePool pool;
  {
    MapList list(meter);
    for (std::uint64_t i = 0; i < 200; ++i) {
      Mmap2Record record{};
      const std::string name = "/lib/" + std::to_string(i);
      record.name = name;
      list.insert({.address = (1000 - i) * 0x2000, .bytes = 0x1000, .since_ns = i, .file = pool.intern(record)});
    }
    list.trim(64);
    std::vector<std::string> names;
    for (const ProcessMap& map : list.all()) names.push_back(map.file->name);
    EXPECT_EQ(names.size(), 64U);
    for (const char* name : {"/lib/0", "/lib/31", "/lib/168", "/lib/199"}) EXPECT_THAT(names, testing::Contains(name));
    for (const char* name : {"/lib/32", "/lib/167"}) EXPECT_THAT(names, testing::Not(testing::Contains(name)));
    EXPECT_TRUE(std::is_sorted(list.all().begin(), list.all().end(),
                               [](const ProcessMap& a, const ProcessMap& b) { return a.address < b.address; }));
  }
  EXPECT_EQ(meter.bytes, 0U);
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
