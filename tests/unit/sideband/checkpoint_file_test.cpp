// SPDX-License-Identifier: Apache-2.0
// The next flightd finds everything that the previous one knew, up to its last write, whatever happened in between.
#include "libcore/sideband/checkpoint_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "libcore/base/files.hpp"
#include "tests/unit/sideband/file_size_limit.hpp"
#include "tests/unit/sideband/random_lives.hpp"
#include "tests/unit/sideband/reader_model.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

constexpr std::string_view kBoot = "3f1c0d3e-0f5d-4b0e-9a51-7f1f3c6c1a11";

class CheckpointFileTest : public testing::Test {
 protected:
  CheckpointFileTest() {
    std::string pattern = "/tmp/flight-checkpoint.XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~CheckpointFileTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] CheckpointFile checkpoint(CheckpointLimits limits = {}) const {
    return CheckpointFile(folder_, std::string(kBoot), limits);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/" + std::string(CheckpointFile::kName); }
  [[nodiscard]] std::uintmax_t file_bytes() const { return std::filesystem::file_size(path()); }

  // Drains as the recorder thread does.
  void drain(CheckpointFile& checkpoint, ProcessTracker& tracker, std::span<const std::byte> records,
             EventTime now_ns = 0) {
    ASSERT_TRUE(checkpoint.append(tracker, records));
    tracker.add(records);
    ASSERT_TRUE(checkpoint.keep_up(tracker, now_ns));
  }
  // The process tracker of the next flightd.
  [[nodiscard]] ProcessTracker next() const {
    ProcessTracker out;
    const auto left = checkpoint().read();
    EXPECT_TRUE(left) << left.error().what;
    if (left) out.replay(std::as_bytes(std::span<const char>(left->records)), left->losses);
    return out;
  }
  static std::string comm_of(const ProcessTracker& tracker, std::uint32_t pid) {
    return tracker.comms_of(std::vector{ProcessAt{pid, kSecond}})[0];
  }

  std::string folder_;
};

Tape shell_tape() {
  Tape tape;
  tape.fork(10, 1, 100);
  tape.exec(11, 100, "bash");
  tape.map(12, 100, 0x1000, 0x1000, "/bin/bash", 0xba);
  return tape;
}

// A ring's records are still there if flightd died before it freed their space.
TEST_F(CheckpointFileTest, WhateverLifeItIsTheStateAtAnyMomentIsThatOfAllRecordsBefore) {
  for (unsigned seed = 1; seed <= 15; ++seed) {
    RandomLives lives(seed, false);
    while (lives.events().size() < 1500) lives.step();
    const auto& events = lives.events();
    std::mt19937 random(seed + 1000);
    const CheckpointLimits limits{.least_growth_bytes = 2000, .most_growth_bytes = 20'000};
    std::optional<CheckpointFile> kept(checkpoint(limits));
    ProcessTracker tracker;
    ASSERT_TRUE(kept->begin(tracker, 0));
    EventTime horizon = 0;
    for (std::size_t done = 0; done < events.size();) {
      const std::size_t to = std::min(events.size(), done + 1 + random() % 100);
      RecordBuffer batch = drained(events, done, to, random);
      const EventTime batch_from = events[done].time_ns;
      drain(*kept, tracker, batch);
      done = to;
      if (random() % 2 == 0) {
        horizon = std::max(horizon, events[random() % done].time_ns);
        tracker.fold(horizon);
      }
      if (random() % 4 == 0) {
        tracker = next();
        kept.emplace(checkpoint(limits));
        ASSERT_TRUE(kept->begin(tracker, 0));
        // No record that is still in the ring is folded.
        if (batch_from >= horizon) {
          tracker.drop_known(batch);
          EXPECT_TRUE(batch.empty());
          drain(*kept, tracker, batch);
        }
      }
      for (int probe = 0; probe < 3; ++probe) {
        const std::size_t last = random() % done;
        const bool exits = load<perf_event_header>(events[last].bytes.data()).type == PERF_RECORD_EXIT;
        const EventTime time = events[last].time_ns + (exits ? 1 : random() % 2);
        if (time < horizon) continue;
        ReaderModel expected;
        for (std::size_t i = 0; i <= last; ++i) expected.apply_all(events[i].bytes);
        ASSERT_EQ(read(tracker.export_window(time, time, everybody())).text(), expected.text())
            << "seed " << seed << " at " << time << " horizon " << horizon;
      }
    }
    ReaderModel all;
    for (const Event& event : events) all.apply_all(event.bytes);
    tracker.fold(lives.now() + 1);
    EXPECT_EQ(tracker.stats().processes, all.processes.size());
    EXPECT_EQ(tracker.stats().evicted, 0U);
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + std::string(CheckpointFile::kNewName)));
    struct stat info {};
    ASSERT_EQ(::stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0600U);
  }
}

std::vector<ClockTriple> triples(std::size_t count, EventTime from_ns) {
  std::vector<ClockTriple> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back({from_ns + i * kSecond, from_ns + i * kSecond + 7, std::chrono::hours(400'000 + i), i});
  return out;
}

bool same(const std::vector<ClockTriple>& a, const std::vector<ClockTriple>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ClockTriple& x, const ClockTriple& y) {
    return x.monotonic_ns == y.monotonic_ns && x.boottime_ns == y.boottime_ns && x.wall == y.wall &&
           x.took_ns == y.took_ns;
  });
}

// Those of the beginning, and those that came between the records.
TEST_F(CheckpointFileTest, TheClocksPastIsKeptBesideTheRecords) {
  std::vector<ClockTriple> all = triples(ClockHistory::kMaxTriples, kSecond);
  CheckpointFile kept = checkpoint({.least_growth_bytes = 400'000, .most_growth_bytes = 400'000});
  const CheckpointFile::ClockSource source = [&] { return all; };
  ProcessTracker tracker;
  ASSERT_TRUE(kept.append_clock(all)) << "does nothing before the first begin()";
  ASSERT_TRUE(kept.begin(tracker, 0, source));
  drain(kept, tracker, shell_tape().bytes());
  const auto later = triples(3, 5000 * kSecond);
  ASSERT_TRUE(kept.append_clock(later));
  Tape more;
  more.fork(20, 100, 200);
  more.comm(21, 200, 200, "child");
  drain(kept, tracker, more.bytes());
  all.insert(all.end(), later.begin(), later.end());

  const auto left = checkpoint().read();
  ASSERT_TRUE(left) << left.error().what;
  EXPECT_TRUE(same(left->clock, all)) << left->clock.size();
  ProcessTracker expected;
  expected.add(shell_tape().bytes());
  expected.add(more.bytes());
  EXPECT_EQ(read(next().export_window(0, kSecond, everybody())).text(),
            read(expected.export_window(0, kSecond, everybody())).text());

  // A new file has them as well; a torn end costs the last one.
  ASSERT_TRUE(kept.begin(tracker, 0, source));
  EXPECT_TRUE(same(checkpoint().read()->clock, all));
  ASSERT_TRUE(kept.append_clock(triples(3, 6000 * kSecond)));
  std::filesystem::resize_file(path(), file_bytes() - 1);
  EXPECT_EQ(checkpoint().read()->clock.size(), all.size() + 2);
  ASSERT_EQ(::unlink(path().c_str()), 0);
  ASSERT_TRUE(kept.keep_up(tracker, 0, source));
  EXPECT_TRUE(same(checkpoint().read()->clock, all)) << "a new file because the old one was removed";
}

// Version 3 is the same without the clock.
TEST_F(CheckpointFileTest, AnOlderOneWithoutTheClockIsRead) {
  CheckpointFile kept = checkpoint();
  ProcessTracker tracker;
  ASSERT_TRUE(kept.begin(tracker, 0));
  drain(kept, tracker, shell_tape().bytes());
  std::fstream(path(), std::ios::in | std::ios::out | std::ios::binary).write("FLTRACK3", 8);
  const auto left = checkpoint().read();
  ASSERT_TRUE(left) << left.error().what;
  EXPECT_TRUE(left->found);
  EXPECT_TRUE(left->clock.empty());
  EXPECT_EQ(comm_of(next(), 100), "bash");
  std::fstream(path(), std::ios::in | std::ios::out | std::ios::binary).write("FLTRACK2", 8);
  EXPECT_FALSE(checkpoint().read());
}

TEST_F(CheckpointFileTest, RepeatedRecordsAreDropped) {
  CheckpointFile kept = checkpoint();
  ProcessTracker tracker;
  ASSERT_TRUE(kept.begin(tracker, 0));
  const RecordBuffer records = shell_tape().take();
  drain(kept, tracker, records);
  ProcessTracker again = next();
  EXPECT_TRUE(again.stats().stale) << "who ended meanwhile has to be asked for";
  Tape more;
  more.comm(12, 100, 100, "other");
  RecordBuffer drained = records;
  drained.insert(drained.end(), more.bytes().begin(), more.bytes().end());
  again.drop_known(drained);
  EXPECT_EQ(drained, more.bytes());
  EXPECT_EQ(again.export_window(0, kSecond, {100}).log, tracker.export_window(0, kSecond, {100}).log);
  EXPECT_EQ(again.stats().processes, 1U);
}

TEST_F(CheckpointFileTest, TornAnywhereItIsReadUpToThere) {
  CheckpointFile kept = checkpoint();
  ProcessTracker tracker;
  ASSERT_TRUE(kept.begin(tracker, 0));
  const std::size_t header_bytes = file_bytes();
  const RecordBuffer records = shell_tape().take();
  drain(kept, tracker, records);
  const std::string whole = *read_file(path());
  ASSERT_EQ(whole.size(), header_bytes + records.size());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole.substr(0, cut);
    const auto left = checkpoint().read();
    ASSERT_EQ(left.has_value(), cut >= header_bytes) << cut;
    if (!left) continue;
    ProcessTracker torn;
    torn.replay(std::as_bytes(std::span<const char>(left->records)), left->losses);
    const RecordBuffer log = torn.export_window(0, kSecond, {}).log;
    std::size_t expected = 0;
    for (auto rest = std::span(records).first(cut - header_bytes); !next_record(rest).empty();) {
      expected += next_record(rest).size();
      rest = rest.subspan(next_record(rest).size());
    }
    ASSERT_EQ(log.size(), expected) << cut;
    ASSERT_TRUE(std::equal(log.begin(), log.end(), records.begin())) << cut;
  }
}

TEST_F(CheckpointFileTest, OfAnotherBootOrLayoutIsNothing) {
  CheckpointFile kept = checkpoint();
  ProcessTracker tracker;
  tracker.add(shell_tape().bytes());
  ASSERT_TRUE(kept.begin(tracker, 0));
  CheckpointFile other(folder_, "00000000-0f5d-4b0e-9a51-7f1f3c6c1a11");
  EXPECT_EQ(other.read()->records, "");
  EXPECT_NE(checkpoint().read()->records, "");
  std::fstream(path(), std::ios::binary | std::ios::in | std::ios::out).seekp(24).write("x", 1);
  EXPECT_EQ(checkpoint().read()->records, "");
}

TEST_F(CheckpointFileTest, NothingThereIsNothing) {
  EXPECT_EQ(checkpoint().read()->records, "");
  EXPECT_FALSE(checkpoint().read()->found);
}

TEST_F(CheckpointFileTest, AnUntrustedFileIsRefusedAndReplaced) {
  ProcessTracker tracker;
  tracker.add(shell_tape().bytes());
  const auto refused = [this](std::string_view why) {
    const auto left = checkpoint().read();
    ASSERT_FALSE(left);
    EXPECT_THAT(left.error().what, HasSubstr("names of processes that exited before")) << why;
    EXPECT_THAT(left.error().what, HasSubstr(std::string(why)));
    std::filesystem::remove(folder_ + "/elsewhere");
  };
  const auto begun = [&] {
    CheckpointFile kept = checkpoint();
    ASSERT_TRUE(kept.begin(tracker, 0));
    ASSERT_NE(checkpoint().read()->records, "") << "a good one";
  };
  begun();
  ASSERT_EQ(::rename(path().c_str(), (folder_ + "/elsewhere").c_str()), 0);
  ASSERT_EQ(::symlink("elsewhere", path().c_str()), 0);
  refused("symbolic link");
  begun();
  ASSERT_EQ(::unlink(path().c_str()), 0);
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  refused("not a regular file");
  begun();
  ASSERT_EQ(::chmod(path().c_str(), 0620), 0);
  refused("writable for others");
  begun();
  ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(CheckpointFile::kMaxFileBytes + 1)), 0);
  refused("more than a checkpoint can have");
  begun();
  std::ofstream(path()) << std::string(1000, 'x');
  refused("not a checkpoint");
  begun();
  for (std::uint32_t i = 1; i < CheckpointFile::kMaxReadings; ++i) EXPECT_TRUE(checkpoint().read()) << i;
  refused("flightd exited each time");
  begun();
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
  refused("belongs to user 12345");
  begun();
}

TEST_F(CheckpointFileTest, AStormStaysWithinItsBoundTheLongestDeadGoFirstAndAreCounted) {
  const CheckpointLimits limits{.state_bytes = 200'000, .least_growth_bytes = 100'000, .most_growth_bytes = 100'000};
  constexpr std::size_t kLogBytes = 100'000;
  ProcessTracker tracker({.log_bytes = kLogBytes, .state_bytes = 48U << 20U});
  CheckpointFile kept = checkpoint(limits);
  ASSERT_TRUE(kept.begin(tracker, 0));
  drain(kept, tracker, shell_tape().bytes());
  constexpr std::uint32_t kLives = 5000;
  std::size_t largest = 0;
  for (std::uint32_t i = 0; i < kLives; ++i) {
    Tape tape;
    const EventTime at = kSecond + i * 1'000'000ULL;
    tape.fork(at, 100, 1000 + i);
    tape.exec(at + 1, 1000 + i, "life" + std::to_string(i));
    tape.map(at + 2, 1000 + i, 0x5000, 0x1000, "/bin/life");
    tape.exit(at + 500'000, 1000 + i);
    drain(kept, tracker, tape.bytes());
    largest = std::max<std::size_t>(largest, file_bytes());
  }
  EXPECT_LT(largest, limits.state_bytes + limits.most_growth_bytes + kLogBytes + 10'000);
  EXPECT_EQ(tracker.stats().evicted, 0U) << "it is the checkpoint's bound that is tried";
  const ProcessTracker after = next();
  const TrackerStats stats = after.stats();
  EXPECT_GT(stats.evicted, 1000U);
  EXPECT_GT(stats.exited, 500U);
  EXPECT_EQ(stats.evicted + stats.exited, kLives);
  // The next flightd knows for which time names are missing, and since when all forks are counted.
  const TrackerExport whole = after.export_window(0, 10 * kSecond, {100});
  EXPECT_GT(whole.names_from_ns, 2 * kSecond);
  EXPECT_LT(whole.names_from_ns, 6 * kSecond);
  EXPECT_EQ(whole.stats.evicted, stats.evicted);
  EXPECT_EQ(whole.names_from_ns, stats.evicted_until_ns + 1);
  EXPECT_EQ(after.export_window(whole.names_from_ns, 10 * kSecond, {100}).names_from_ns, 0U);
  EXPECT_EQ(tracker.export_window(0, 10 * kSecond, {100}).forks_from_ns, 0U) << "the one before knew them all";
  const auto forks = [](const TrackerExport& window, EventTime from_ns) {
    std::uint64_t count = 0;
    for (const ForkCount& one : window.forks) count += one.begin_ns >= from_ns ? one.count : 0;
    return count;
  };
  ASSERT_GT(whole.forks_from_ns, 3 * kSecond) << "the older ones were in no record any more";
  ASSERT_LT(whole.forks_from_ns, 6 * kSecond);
  EXPECT_LT(forks(whole, 0), kLives);
  const std::uint64_t later = (6 * kSecond - whole.forks_from_ns + 999'999) / 1'000'000;
  EXPECT_NEAR(static_cast<double>(forks(whole, whole.forks_from_ns)), static_cast<double>(later), 101)
      << "those of its newest slice, 0.1 s, begin before";
  EXPECT_EQ(after.export_window(whole.forks_from_ns, 10 * kSecond, {100}).forks_from_ns, 0U);
  const ReaderModel model =
      read(after.export_window(6 * kSecond - 600'000, 6 * kSecond - 600'000, {100, 1000 + kLives - 1}));
  EXPECT_EQ(model.comm_of(1000 + kLives - 1, 1000 + kLives - 1), "life4999");
  EXPECT_EQ(model.map_at(1000 + kLives - 1, 0x5800), "/bin/life");
  EXPECT_EQ(model.comm_of(100, 100), "bash");
}

// A quiet machine: the next flightd counts the records of the log again.
TEST_F(CheckpointFileTest, ForksThatAreInTheLogAreKnownAfterARestart) {
  ProcessTracker tracker;
  CheckpointFile kept = checkpoint();
  ASSERT_TRUE(kept.begin(tracker, 0));
  Tape tape = shell_tape();
  for (std::uint32_t i = 0; i < 20; ++i) tape.fork(kSecond + i, 100, 1000 + i);
  drain(kept, tracker, tape.bytes());
  ASSERT_TRUE(kept.begin(tracker, 0));
  const TrackerExport window = next().export_window(kSecond, 2 * kSecond, {100});
  EXPECT_EQ(window.forks_from_ns, 0U);
  EXPECT_EQ(window.names_from_ns, 0U);
  EXPECT_EQ(window.forks.size(), 20U);
}

TEST(TrackerLosses, WithoutACheckpointNothingIsKnownOfTheTimeBefore) {
  ProcessTracker tracker;
  tracker.know_from(5 * kSecond);
  const TrackerExport window = tracker.export_window(3 * kSecond, 9 * kSecond, {100});
  EXPECT_EQ(window.names_from_ns, 5 * kSecond);
  EXPECT_EQ(window.forks_from_ns, 5 * kSecond);
  ASSERT_EQ(window.warnings.size(), 1U);
  EXPECT_THAT(window.warnings[0], HasSubstr("earlier than 4.0 s before the end"));
  EXPECT_TRUE(tracker.export_window(5 * kSecond, 9 * kSecond, {100}).warnings.empty());
}

TEST_F(CheckpointFileTest, AProcessThatDidNotFitIsWrittenAtItsExit) {
  ProcessTracker tracker;
  for (std::uint32_t pid = 100; pid < 600; ++pid) {
    Tape tape;
    tape.fork(pid, 1, pid);
    tape.exec(pid + 1, pid, "server" + std::to_string(pid));
    for (std::uint64_t i = 0; i < 20; ++i) tape.map(pid + 2 + i, pid, i * 0x4000, 0x2000, "/lib/a" + std::to_string(i));
    tracker.add(tape.bytes());
  }
  tracker.fold(kSecond);
  CheckpointFile kept = checkpoint({.state_bytes = 20'000});
  ASSERT_TRUE(kept.begin(tracker, 0));
  ASSERT_LT(next().stats().processes, 50U);
  const std::size_t before = file_bytes();
  Tape end;
  for (std::uint32_t pid = 100; pid < 600; pid += 50) end.exit(2 * kSecond + pid, pid);
  drain(kept, tracker, end.bytes());
  EXPECT_LT(file_bytes(), before + 10 * 4000 + end.bytes().size());
  const ProcessTracker after = next();
  for (std::uint32_t pid = 100; pid < 600; pid += 50) {
    const ReaderModel model = read(after.export_window(2 * kSecond, 2 * kSecond, {pid}));
    EXPECT_EQ(model.comm_of(pid, pid), "server" + std::to_string(pid));
    EXPECT_EQ(model.map_at(pid, 19 * 0x4000), "/lib/a19");
    EXPECT_EQ(read(after.export_window(3 * kSecond, 3 * kSecond, {pid})).comm_of(pid, pid), "") << "it has ended";
  }
}

// A server with many maps and many children: shared maps are written once.
TEST_F(CheckpointFileTest, ChildrenWithTheirParentsMapsNeedLittleSpace) {
  ProcessTracker tracker;
  Tape tape = shell_tape();
  for (std::uint64_t i = 0; i < 1000; ++i) tape.map(20 + i, 100, 0x100000 + i * 0x4000, 0x2000, "/lib/part");
  for (std::uint32_t pid = 1000; pid < 2000; ++pid) {
    tape.fork(kSecond + pid, 100, pid);
    tape.comm(kSecond + pid + 1, pid, pid, "child" + std::to_string(pid));
    tape.exit(2 * kSecond + pid, pid);
  }
  tape.fork(kSecond + 5000, 100, 3000);
  tape.map(kSecond + 5001, 3000, 0x100000, 0x2000, "/lib/own");
  tracker.add(tape.bytes());
  // Folded, so that the state is written.
  tracker.fold(kSecond + 10'000);
  CheckpointFile kept = checkpoint();
  ASSERT_TRUE(kept.begin(tracker, 0));
  EXPECT_LT(file_bytes(), 1'000'000U);
  const ProcessTracker after = next();
  const ReaderModel model = read(after.export_window(kSecond + 10'000, kSecond + 10'000, {1000, 1999, 3000}));
  for (const std::uint32_t pid : {1000U, 1999U}) {
    EXPECT_EQ(model.comm_of(pid, pid), "child" + std::to_string(pid));
    EXPECT_EQ(model.map_at(pid, 0x100000), "/lib/part");
    EXPECT_EQ(model.map_at(pid, 0x100000 + 999 * 0x4000), "/lib/part");
  }
  EXPECT_EQ(model.map_at(3000, 0x100000), "/lib/own");
  EXPECT_EQ(model.map_at(3000, 0x104000), "/lib/part");
}

TEST_F(CheckpointFileTest, CgroupsAndKernelSymbolsAreKept) {
  ProcessTracker tracker;
  Tape tape;
  tape.cgroup(5, 77, "/system.slice/gone.service");
  tape.ksymbol(6, 0xffff0000, "bpf_prog_1");
  tracker.add(tape.bytes());
  tracker.fold(kSecond);
  CheckpointFile kept = checkpoint();
  ASSERT_TRUE(kept.begin(tracker, 0));
  const ReaderModel model = read(next().export_window(kSecond, kSecond, {}));
  EXPECT_EQ(model.cgroups.at(77), "/system.slice/gone.service");
  EXPECT_EQ(model.ksymbols.at(0xffff0000), "bpf_prog_1");
}

TEST_F(CheckpointFileTest, AFullDiskIsReportedOnceAndRetried) {
  const CheckpointLimits limits{};
  ProcessTracker tracker;
  CheckpointFile kept = checkpoint(limits);
  ASSERT_TRUE(kept.begin(tracker, kSecond));
  {
    const FileSizeLimit full(300);
    Tape tape = shell_tape();
    const auto appended = kept.append(tracker, tape.bytes());
    ASSERT_FALSE(appended);
    EXPECT_THAT(appended.error().what, HasSubstr("have no names"));
    EXPECT_EQ(kept.trouble(), appended.error().what);
    tracker.add(tape.bytes());
    EXPECT_TRUE(kept.append(tracker, Tape().bytes()));
    EXPECT_TRUE(kept.keep_up(tracker, kSecond + limits.retry_ns)) << "it is reported once";
    EXPECT_NE(kept.trouble(), "");
    EXPECT_EQ(comm_of(next(), 100), "bash") << "what came before the disk was full";
    EXPECT_FALSE(checkpoint().read()->complete);
  }
  EXPECT_TRUE(kept.keep_up(tracker, kSecond + 2 * limits.retry_ns - 1));
  EXPECT_NE(kept.trouble(), "") << "not yet";
  EXPECT_TRUE(kept.keep_up(tracker, kSecond + 2 * limits.retry_ns));
  EXPECT_EQ(kept.trouble(), "");
  EXPECT_TRUE(checkpoint().read()->complete);
  EXPECT_EQ(read(next().export_window(20, kSecond, {100})).text(),
            read(tracker.export_window(20, kSecond, {100})).text());
  const FileSizeLimit full(10);
  Tape more;
  more.fork(kSecond, 100, 200);
  EXPECT_FALSE(kept.append(tracker, more.bytes())) << "reported again, after a success";
}

TEST_F(CheckpointFileTest, ARemovedFileOrFolderIsCreatedAgain) {
  ProcessTracker tracker;
  CheckpointFile kept = checkpoint();
  ASSERT_TRUE(kept.begin(tracker, 0));
  drain(kept, tracker, shell_tape().bytes());
  ASSERT_EQ(::unlink(path().c_str()), 0);
  ASSERT_TRUE(kept.keep_up(tracker, 0));
  EXPECT_EQ(comm_of(next(), 100), "bash");
  std::filesystem::remove_all(folder_);
  const auto kept_up = kept.keep_up(tracker, kSecond);
  ASSERT_FALSE(kept_up);
  EXPECT_THAT(kept_up.error().what, HasSubstr(folder_));
  ASSERT_EQ(::mkdir(folder_.c_str(), 0755), 0);
  ASSERT_TRUE(kept.keep_up(tracker, 60 * kSecond));
  EXPECT_EQ(kept.trouble(), "");
  EXPECT_EQ(comm_of(next(), 100), "bash");
}

}  // namespace
}  // namespace flight
