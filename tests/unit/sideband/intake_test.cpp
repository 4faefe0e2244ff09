// SPDX-License-Identifier: Apache-2.0
// Records without news are dropped, and one process gets no more than its share.
#include "libcore/sideband/intake.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

std::size_t records_in(std::span<const std::byte> bytes) {
  std::size_t count = 0;
  for (auto record = next_record(bytes); !record.empty(); record = next_record(bytes)) {
    bytes = bytes.subspan(record.size());
    ++count;
  }
  return count;
}

class IntakeTest : public testing::Test {
 protected:
  // The number of the tape's records that are kept.
  std::size_t sift() {
    RecordBuffer records = tape_.take();
    intake_.sift(records, now_);
    return records_in(records);
  }
  // As a thread that toggles mprotect(PROT_EXEC) does it.
  void toggle(int times, std::uint32_t pid = 100) {
    for (int i = 0; i < times; ++i) tape_.map(time_++, pid, 0x10000, 0x1000, "//anon");
  }
  Intake intake_;
  Tape tape_;
  EventTime now_ = 10 * kSecond, time_ = 10 * kSecond;
};

TEST_F(IntakeTest, ARepeatedMappingIsDropped) {
  toggle(100'000);
  EXPECT_EQ(sift(), 1U);
  EXPECT_EQ(intake_.repeated(), 99'999U);
  now_ += kSecond / 2;
  toggle(1000);
  EXPECT_EQ(sift(), 0U);
  EXPECT_FALSE(intake_.wants_scan());
}

TEST_F(IntakeTest, DifferentMappingsAreKept) {
  toggle(1000);
  tape_.map(time_++, 100, 0x10000, 0x2000, "//anon");  // longer
  toggle(1);                                           // over the previous one
  tape_.map(time_++, 100, 0x10000, 0x1000, "/lib/x");  // of another file
  toggle(1);
  tape_.map(time_++, 101, 0x10000, 0x1000, "//anon");  // of another process
  EXPECT_EQ(sift(), 6U);
}

TEST_F(IntakeTest, AnExecAndAnotherLifeBeginAnew) {
  toggle(1000);
  tape_.exec(time_++, 100, "other");
  toggle(1);
  EXPECT_EQ(sift(), 3U);
  toggle(1000);
  tape_.exit(time_++, 100);
  tape_.fork(time_++, 1, 100);
  toggle(1);
  EXPECT_EQ(sift(), 3U);
  toggle(1000);
  tape_.thread(time_++, 100, 120);  // only a thread
  toggle(1);
  EXPECT_EQ(sift(), 1U);
}

// Rings are read one after the other, so the order of arrival is not that of time. Whatever it is, the tracker has what
// the records say by their times.
TEST_F(IntakeTest, TheOrderOfTheRingsDoesNotMatter) {
  const auto map = [](EventTime time, std::string_view name) {
    Tape tape;
    tape.map(time, 100, 0x10000, 0x1000, name);
    return tape.take();
  };
  Tape other;
  other.exec(15, 100, "other");
  const std::vector<RecordBuffer> by_time{map(11, "/a"), map(12, "/a"), other.take(), map(16, "/a"),
                                          map(17, "/a"), map(18, "/b"), map(19, "/a")};
  std::vector<std::size_t> order(by_time.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    for (const bool apart : {false, true}) {  // in one pass over the rings, or each in another one
      Intake intake;
      ProcessTracker tracker;
      Tape first;
      first.fork(10, 1, 100);
      tracker.add(first.bytes());
      RecordBuffer batch;
      for (const std::size_t i : order) {
        batch.insert(batch.end(), by_time[i].begin(), by_time[i].end());
        if (!apart && i != order.back()) continue;
        intake.sift(batch, now_);
        tracker.add(batch);
        batch.clear();
      }
      const auto window = tracker.export_window(0, 100, {100});
      const auto at = [&](EventTime time) { return read(window, time).map_at(100, 0x10800); };
      ASSERT_EQ(at(14), "/a");
      ASSERT_EQ(at(15), "");
      ASSERT_THAT(at(17), testing::AnyOf("/a", "")) << "a repetition before the exec was read may be missing";
      ASSERT_EQ(at(18), "/b");
      ASSERT_EQ(at(20), "/a");
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// The others have no name until a scan finds them, and are counted.
TEST_F(IntakeTest, OfOneThatMakesCgroupsInALoopSomePathsAreKept) {
  const auto make = [this](std::uint64_t count) {
    for (std::uint64_t id = 1; id <= count; ++id) tape_.cgroup(time_++, id, "/x/" + std::to_string(id));
  };
  make(5000);
  RecordBuffer records = tape_.take();
  intake_.sift(records, now_);
  EXPECT_EQ(records_in(records), Intake::kCgroupsPerSecond + 1) << "and a note";
  ProcessTracker tracker;
  tracker.add(records);
  EXPECT_EQ(tracker.stats().forgotten.cgroups, 4000U);
  EXPECT_EQ(intake_.loudest().pid, 1U);
  EXPECT_TRUE(intake_.wants_scan());
  intake_.looked(time_);
  EXPECT_FALSE(intake_.wants_scan());
  now_ += kSecond;
  make(10);
  EXPECT_EQ(sift(), 10U);
  EXPECT_FALSE(intake_.wants_scan());
}

TEST_F(IntakeTest, OrdinaryRecordsPassWholeAndInOrder) {
  Tape expected;
  for (Tape* tape : {&tape_, &expected}) {
    tape->fork(1, 1, 100);
    tape->exec(2, 100, "sh");
    tape->map(3, 100, 0x1000, 0x1000, "/bin/sh");
    tape->map(4, 100, 0x8000, 0x1000, "/lib/libc.so");
    tape->cgroup(5, 9, "/x");
    tape->exit(7, 100);
  }
  RecordBuffer records = tape_.take();
  intake_.sift(records, now_);
  EXPECT_EQ(records, expected.bytes());
}

// The dropped records were intact: the gap begins after them.
TEST_F(IntakeTest, ALossBeginsAtTheRecordBeforeIt) {
  toggle(1000);
  const EventTime last = time_ - 1;
  tape_.lost(time_ + kSecond, 5);
  RecordBuffer records = tape_.take();
  intake_.sift(records, now_);
  ProcessTracker tracker;
  tracker.add(records);
  ASSERT_EQ(tracker.gaps().size(), 1U);
  EXPECT_EQ(tracker.gaps()[0].begin_ns, last);
  EXPECT_EQ(tracker.gaps()[0].end_ns, time_ + kSecond);
  EXPECT_EQ(tracker.gaps()[0].lost, 5U);
  EXPECT_EQ(intake_.last_of(0), time_ + kSecond);
  EXPECT_EQ(intake_.last_of(1), 0U);
}

// A missing record may have replaced the mapping, so an equal one counts as new again. It may have been read before the
// loss.
TEST_F(IntakeTest, AfterALossNothingIsARepetition) {
  toggle(10);
  tape_.lost(time_++, 5);
  toggle(10);
  EXPECT_EQ(sift(), 1U + 1 + 1) << "the first, the loss, and the first after it";
  toggle(1);
  EXPECT_EQ(sift(), 0U);
  tape_.lost(time_ - 1, 5);  // of another ring, which is read later
  EXPECT_EQ(sift(), 2U);
  intake_.lost(time_, time_ + 1);  // a ring is full
  time_ += 2;
  toggle(10);
  EXPECT_EQ(sift(), 1U);
}

class MapFlood : public IntakeTest {
 protected:
  MapFlood() {
    tape_.fork(time_++, 1, 100);
    tape_.exec(time_++, 100, "flooder");
    tape_.map(time_++, 100, 0x400000, 0x1000, "/bin/flooder");
    tape_.map(time_++, 100, kRange, 0x8000, "/lib/old");
  }
  // New mappings in the range, all different.
  void flood(std::uint64_t count, std::uint64_t bytes = 0x8000) {
    for (std::uint64_t i = 0; i < count; ++i)
      tape_.map(time_++, 100, kRange + i % 8 * 0x1000, bytes, "/lib/new" + std::to_string(number_++));
  }
  void take() {
    RecordBuffer records = tape_.take();
    intake_.sift(records, now_);
    tracker_.add(records);
  }
  std::string named(std::uint64_t address, EventTime at) {
    const auto window = tracker_.export_window(at, at, {100});
    return read(window, at).map_at(100, address);
  }
  // What the program has mapped at the end.
  void scan(EventTime asked, std::string_view in_range) {
    Tape scan;
    scan.scanned(100, 1, 10 * kSecond, "flooder");
    scan.map(0, 100, 0x400000, 0x1000, "/bin/flooder");
    scan.map(0, 100, kRange, 0x1000, in_range);
    scan.all_listed();
    tracker_.add_scan(scan.bytes(), asked);
    intake_.looked(asked);
  }
  static constexpr std::uint64_t kRange = 0x10000;
  std::uint64_t number_ = 0;
  ProcessTracker tracker_;
};

TEST_F(MapFlood, WhatIsNotKeptIsUnknownAndNotWhatWasThereBefore) {
  flood(5000);
  for (std::uint64_t i = 0; i < 500; ++i) tape_.map(time_++, 200, i * 0x4000, 0x1000, "/lib/l" + std::to_string(i));
  const EventTime end = time_;
  RecordBuffer records = tape_.take();
  intake_.sift(records, now_);
  const std::size_t kept = records_in(records);
  EXPECT_GE(kept, 4 + Intake::kMapsPerSecond - 2 + 500);
  EXPECT_LE(kept, 4 + Intake::kMapsPerSecond - 2 + 500 + DoubtedRanges::kMost + 2) << "not one for each";
  tracker_.add(records);
  EXPECT_EQ(named(kRange + 0x100, end), kLostName);
  EXPECT_EQ(named(0x400100, end), "/bin/flooder") << "nothing was mapped there";
  EXPECT_THAT(named(kRange + 0x100, 10 * kSecond + 500), testing::StartsWith("/lib/new"));
  EXPECT_EQ(read(tracker_.export_window(end, end, {100})).comm_of(100, 100), "flooder");
  EXPECT_TRUE(intake_.wants_scan());

  // The scan finds what is there now; what is dropped afterwards is unknown again.
  const EventTime asked = time_ = 11 * kSecond;
  intake_.looking();
  scan(asked, "/lib/now");
  EXPECT_FALSE(intake_.wants_scan());
  EXPECT_EQ(named(kRange + 0x100, asked + 1), "/lib/now");
  EXPECT_EQ(named(kRange + 0x100, asked - 1), kLostName);
  time_ += 10;
  flood(1);
  const EventTime again = time_;
  take();
  EXPECT_EQ(named(kRange + 0x100, again), kLostName);
  EXPECT_TRUE(intake_.wants_scan());
}

TEST_F(MapFlood, WhatIsKeptAfterwardsHasItsName) {
  flood(2000);
  take();
  now_ += kSecond;
  time_ = now_;
  tape_.map(time_++, 100, kRange, 0x1000, "/lib/next");
  take();
  EXPECT_EQ(named(kRange + 0x100, time_), "/lib/next");
  EXPECT_EQ(named(kRange + 0x1100, time_), kLostName);
  flood(2000);
  take();
  EXPECT_EQ(named(kRange + 0x100, time_), kLostName) << "it was in doubt before, too";
}

TEST_F(MapFlood, ManyRangesPutOnlyTheirSurroundingsInDoubt) {
  flood(1000);
  tape_.map(time_++, 100, 0x7f0000000000, 0x1000, "/lib/later");
  for (std::uint64_t i = 0; i < 6000; ++i) tape_.map(time_++, 100, 0x1000000000 + 0x2000 * i, 0x1000, "//anon");
  for (std::uint64_t i = 0; i < 5; ++i) tape_.map(time_++, 100, (i + 1) << 40U, 0x1000, "/lib/far");
  RecordBuffer records = tape_.take();
  intake_.sift(records, now_);
  EXPECT_LE(records_in(records), 4 + Intake::kMapsPerSecond + DoubtedRanges::kMost + 1) << "few records say it";
  tracker_.add(records);
  EXPECT_EQ(named(0x400100, time_), "/bin/flooder");
  EXPECT_EQ(named(0x1000000000 + 0x2000 * 5000, time_), kLostName);
  EXPECT_EQ(named(3ULL << 40U, time_), kLostName);
  EXPECT_EQ(named((3ULL << 40U) + 0x1000, time_), "") << "nothing was dropped there";
  tape_.exec(time_++, 100, "next");
  tape_.map(time_++, 100, 0x400000, 0x1000, "/bin/next");
  take();
  EXPECT_EQ(named(0x400100, time_), kLostName) << "the limit is for all images of a second";
  EXPECT_EQ(named(0x500100, time_), "");
}

// It may have been replaced by one that was dropped.
TEST_F(MapFlood, AMappingReadBeforeOlderOnesIsInDoubtToo) {
  const EventTime began = time_ + 2000;
  tape_.map(began + 500, 100, 0x50000000, 0x8000, "/lib/kept");  // of another ring, which is read first
  for (std::uint64_t i = 0; i < Intake::kMapsPerSecond; ++i)
    tape_.map(time_++, 100, 0x10000000 + 0x1000 * i, 0x1000, "/lib/new" + std::to_string(i));
  for (std::uint64_t i = 0; i < 40; ++i) tape_.map(began + i, 100, 0x50000000 + 0x10000 * i, 0x1000, "//anon");
  time_ = began + 600;
  tape_.map(time_++, 100, 0x50004000, 0x1000, "/lib/dropped");
  take();
  EXPECT_EQ(named(0x50004100, time_), kLostName);
  EXPECT_EQ(named(0x10000100, time_), "/lib/new0");
}

// Whatever is dropped, and in whatever order the rings are read: when all were read, a name is right or kLostName.
TEST_F(MapFlood, NoNameIsWrong) {
  struct Fact {
    EventTime time_ns = 0;
    std::uint64_t address = 0, end = 0;
    std::string name;  // empty: an exec
  };
  std::uint64_t right = 0, unknown = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937 random(seed);
    intake_ = Intake();
    tracker_ = ProcessTracker();
    take();
    std::vector<Fact> facts;
    std::vector<EventTime> ends;  // of the batches
    time_ = now_ = 10 * kSecond;
    for (int batch = 0; batch < 8; ++batch) {
      RecordBuffer rings[2];
      for (int i = 0; i < 500; ++i) {
        const bool exec = random() % 700 == 0;
        // Some places are close to each other, some are far; some mappings repeat.
        const std::uint64_t place = random() % 4 == 0 ? (random() % 40) << 32U : random() % 64 * 0x1000;
        const std::uint64_t end = place + (1 + random() % 3) * 0x1000;
        const std::string name = exec ? "" : "/lib/" + std::to_string(random() % 3 == 0 ? place % 5 : number_++);
        exec ? tape_.exec(time_, 100, "again") : tape_.map(time_, 100, place, end - place, name);
        facts.push_back({time_, place, end, name});
        time_ += 1 + random() % 1000;
        const RecordBuffer record = tape_.take();
        RecordBuffer& ring = rings[random() % 2];
        ring.insert(ring.end(), record.begin(), record.end());
      }
      rings[0].insert(rings[0].end(), rings[1].begin(), rings[1].end());
      intake_.sift(rings[0], now_);
      tracker_.add(rings[0]);
      ends.push_back(time_);
      if (batch % 3 == 2) time_ = now_ = now_ + kSecond;
      if (random() % 4 == 0) intake_.looking();
    }
    for (const EventTime at : ends) {
      const ReaderModel model = read(tracker_.export_window(at, at, {100}), at);
      for (int probe = 0; probe < 200; ++probe) {
        const std::uint64_t address = facts[random() % facts.size()].address;
        const auto after = std::upper_bound(facts.begin(), facts.end(), at,
                                            [](EventTime time, const Fact& fact) { return time < fact.time_ns; });
        const auto last = std::find_if(std::reverse_iterator(after), facts.rend(), [address](const Fact& fact) {
          return fact.name.empty() || (fact.address <= address && address < fact.end);
        });
        const std::string truth = last == facts.rend() ? "" : last->name;
        const std::string name = model.map_at(100, address);
        ASSERT_TRUE(name == truth || name == kLostName) << "seed " << seed << ": " << name << " is not " << truth;
        ++(name == truth ? right : unknown);
      }
    }
  }
  EXPECT_GT(right, 5000U);
  EXPECT_GT(unknown, 1000U);
}

class RenameFlood : public testing::Test {
 protected:
  // Reads the tape; all older records have been read.
  std::size_t take() {
    RecordBuffer records = tape_.take();
    intake_.sift(records, now_, time_);
    tracker_.add(records);
    return records_in(records);
  }
  std::string named(std::uint32_t tid, EventTime at, std::uint32_t pid = 100) {
    return read(tracker_.export_window(at, at, {pid}), at).comm_of(pid, tid);
  }
  void SetUp() override {
    tape_.fork(time_++, 1, 100);
    tape_.exec(time_++, 100, "renamer");
    tape_.thread(time_++, 100, 101);
    tape_.comm(time_++, 100, 101, "worker");
    tape_.fork(time_++, 1, 200);
    tape_.exec(time_++, 200, "execer");
    take();
  }
  void expect_no_wrong_name(unsigned first_seed, unsigned last_seed);
  Intake intake_;
  Tape tape_;
  ProcessTracker tracker_;
  EventTime now_ = 10 * kSecond, time_ = 10 * kSecond;
};

TEST_F(RenameFlood, NamesBeyondTheLimitAreLostUntilTheLastOneIsPutBack) {
  for (int i = 0; i < 50'000; ++i) tape_.comm(time_++, 100, 101, "n" + std::to_string(i));
  const EventTime flooded = time_;
  EXPECT_LE(take(), Intake::kNamesPerSecond + 2) << "and the beginning of the loss, and a note";
  EXPECT_EQ(named(101, 10 * kSecond + 10), "n4");
  EXPECT_EQ(named(101, flooded), kLostName);
  EXPECT_EQ(named(100, flooded), "renamer") << "only the task that was renamed";
  EXPECT_TRUE(intake_.due());
  const auto warnings = tracker_.export_window(0, flooded, {100}).warnings;
  EXPECT_THAT(warnings, testing::ElementsAre(testing::AllOf(
                            testing::HasSubstr("renamer (pid 100) renamed its tasks more than 1000 times a second"),
                            testing::HasSubstr("49001 names were not kept"))));
  // Quiet, and no record comes: a second later the name is known.
  now_ += kSecond;
  time_ += kSecond;
  EXPECT_EQ(take(), 1U);
  EXPECT_EQ(named(101, flooded), "n49999") << "since it was given";
  EXPECT_EQ(named(101, time_), "n49999");
  EXPECT_FALSE(intake_.due());
  tape_.comm(time_++, 100, 101, "calm");
  EXPECT_EQ(take(), 1U);
  EXPECT_EQ(named(101, time_), "calm");
}

TEST_F(RenameFlood, AnExecIsKnownAtOnce) {
  for (int i = 0; i < 5000; ++i) tape_.comm(time_++, 200, 200, "n" + std::to_string(i));
  tape_.exec(time_++, 200, "program");
  const EventTime executed = time_++;
  tape_.comm(time_++, 200, 200, "renamed");
  take();
  EXPECT_EQ(named(200, executed, 200), "program");
  EXPECT_EQ(named(200, time_, 200), kLostName);
  time_ += kSecond;
  take();
  EXPECT_EQ(named(200, executed, 200), "program");
  EXPECT_EQ(named(200, time_, 200), "renamed");
}

// One pass, before all others, takes out what they would have to look at record by record.
TEST_F(RenameFlood, NearlyAllOfOneThatGoesOnIsSkimmed) {
  for (int i = 0; i < 5000; ++i) tape_.comm(time_++, 100, 101, "n" + std::to_string(i));
  take();
  for (int i = 0; i < 100'000; ++i) tape_.comm(time_++, 100, 101, "m" + std::to_string(i));
  RecordBuffer records = tape_.take();
  intake_.skim(records);
  EXPECT_EQ(records_in(records), 1U) << "the last one";
  intake_.sift(records, now_, time_);
  tracker_.add(records);
  EXPECT_EQ(named(101, time_ - 50'000), kLostName);
  EXPECT_EQ(named(101, time_), kLostName);
  EXPECT_EQ(intake_.loudest().pid, 100U);
  EXPECT_GT(intake_.loudest().records, 100'000U);
  EXPECT_THAT(tracker_.export_window(0, time_, {100}).warnings,
              testing::ElementsAre(testing::HasSubstr("104001 names were not kept")));
  now_ += kSecond;
  time_ += kSecond;
  take();
  EXPECT_EQ(named(101, time_), "m99999");
  tape_.comm(time_++, 100, 101, "calm");
  records = tape_.take();
  intake_.skim(records);
  EXPECT_EQ(records_in(records), 1U) << "it is quiet: its names are kept again";
}

// Threads that rename each other: no two records in a row are about the same one.
TEST_F(RenameFlood, TheTasksOfAFloodMayTakeTurns) {
  const auto flood = [this] {
    for (int i = 0; i < 10'000; ++i)
      tape_.comm(time_++, 100, static_cast<std::uint32_t>(100 + i % 2), "n" + std::to_string(i));
  };
  flood();
  take();
  flood();
  RecordBuffer records = tape_.take();
  intake_.skim(records);
  EXPECT_EQ(records_in(records), 1U);
}

TEST_F(RenameFlood, WhatIsSkimmedHidesNothingElse) {
  for (int i = 0; i < 5000; ++i) tape_.comm(time_++, 200, 200, "n" + std::to_string(i));
  take();
  const auto rename = [this](int times) {
    for (int i = 0; i < times; ++i) tape_.comm(time_++, 200, 200, "again");
  };
  rename(10);
  const EventTime before_the_loss = time_ - 1;
  tape_.lost(time_++, 3);
  rename(10);
  tape_.map(time_++, 200, 0x1000, 0x1000, "/lib/x");
  rename(10);
  tape_.exec(time_, 200, "program");
  const EventTime executed = time_++;
  rename(5);
  RecordBuffer records = tape_.take();
  // An event that is not ours, or on a CPU of which no record was read: not believed.
  for (const std::uint32_t cpu : {0U, 9U})
    for (int i = 0; i < 2; ++i, ++time_)
      append_comm(records, {.pid = 200, .tid = 200, .name = "stranger"},
                  {.pid = 200, .tid = 200, .time_ns = time_, .cpu = cpu, .id = cpu == 0 ? 8U : 7U});
  intake_.skim(records);
  EXPECT_EQ(records_in(records), 3U + 3U + 5U + 4U) << "one of each row; all after the exec; the strangers";
  intake_.sift(records, now_, time_);
  const auto loss = lost_fields(next_record(records));  // sift() has dropped the name before it
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->id, before_the_loss);
  tracker_.add(records);
  EXPECT_EQ(named(200, executed, 200), "program");
}

// Whatever is dropped, and in whatever order the rings are read: when all were read, a name is right or kLostName. At
// least 50 names of each seed are right, and 25 unknown.
void RenameFlood::expect_no_wrong_name(unsigned first_seed, unsigned last_seed) {
  struct Fact {
    EventTime time_ns = 0;
    std::uint32_t tid = 0;
    std::string name;
  };
  const std::vector<std::uint32_t> tasks{100, 101, 200};
  std::uint64_t right = 0, unknown = 0;
  for (unsigned seed = first_seed; seed <= last_seed; ++seed) {
    std::mt19937 random(seed);
    intake_ = Intake();
    tracker_ = ProcessTracker();
    time_ = now_ = 10 * kSecond;
    SetUp();
    std::vector<Fact> facts{{time_, 100, "renamer"}, {time_, 101, "worker"}, {time_, 200, "execer"}};
    std::vector<EventTime> ends;  // of the batches
    for (int batch = 0; batch < 12; ++batch) {
      RecordBuffer rings[2];
      const bool flood = batch % 4 != 3;
      for (int i = 0; i < (flood ? 1200 : 3); ++i) {
        const std::uint32_t tid = tasks[random() % tasks.size()];
        const bool exec = tid == 200 && random() % 100 == 0;
        const std::string name = "x" + std::to_string(random() % 100'000);
        exec ? tape_.exec(time_, 200, name) : tape_.comm(time_, tid / 100 * 100, tid, name);
        facts.push_back({time_, tid, name});
        time_ += 1 + random() % 1000;
        const RecordBuffer record = tape_.take();
        RecordBuffer& ring = rings[random() % 2];
        ring.insert(ring.end(), record.begin(), record.end());
      }
      rings[0].insert(rings[0].end(), rings[1].begin(), rings[1].end());
      if (!flood) time_ = now_ = now_ + kSecond;
      if (seed % 2 == 0) intake_.skim(rings[0]);
      intake_.sift(rings[0], now_, time_);
      tracker_.add(rings[0]);
      ends.push_back(time_);
    }
    for (int probe = 0; probe < 100; ++probe) {
      const EventTime at = probe < 12 ? ends[static_cast<std::size_t>(probe)] : facts[random() % facts.size()].time_ns;
      const ReaderModel model = read(tracker_.export_window(at, at, {100, 200}), at);
      for (const std::uint32_t tid : tasks) {
        const auto after = std::upper_bound(facts.begin(), facts.end(), at,
                                            [](EventTime time, const Fact& fact) { return time < fact.time_ns; });
        const auto last = std::find_if(std::reverse_iterator(after), facts.rend(),
                                       [tid](const Fact& fact) { return fact.tid == tid; });
        const std::string truth = last == facts.rend() ? "" : last->name;
        const std::string name = model.comm_of(tid / 100 * 100, tid);
        ASSERT_TRUE(name == truth || name == kLostName) << "seed " << seed << ": " << name << " is not " << truth;
        ++(name == truth ? right : unknown);
      }
    }
  }
  const std::uint64_t seeds = last_seed - first_seed + 1;
  EXPECT_GT(right, 50 * seeds);
  EXPECT_GT(unknown, 25 * seeds);
}

TEST_F(RenameFlood, NoNameIsWrong) { expect_no_wrong_name(1, 4); }

using RenameFloodLong = RenameFlood;
TEST_F(RenameFloodLong, NoNameIsWrong) { expect_no_wrong_name(5, 20); }

// A repetition that was read before an older mapping, which is one too many.
TEST_F(MapFlood, ANewerRepetitionIsPutBackAndDoubtedAgain) {
  take();
  for (std::uint64_t i = 0; i < Intake::kMapsPerSecond; ++i)
    tape_.map(time_++, 100, 0x10000000, 0x1000, "/lib/far" + std::to_string(i));
  take();
  const EventTime older = time_;
  time_ += 10;
  tape_.map(time_++, 100, kRange, 0x8000, "/lib/old");  // a repetition
  take();
  tape_.map(older, 100, kRange, 0x8000, "/lib/between");
  take();
  EXPECT_EQ(named(kRange + 0x100, older + 1), kLostName);
  EXPECT_EQ(named(kRange + 0x100, time_), "/lib/old");
  tape_.map(time_++, 100, kRange, 0x8000, "/lib/after");
  take();
  EXPECT_EQ(named(kRange + 0x100, time_), kLostName);
}

// Records are missing, too: the process is the same, and only its dropped mappings are in doubt until the scan.
TEST_F(MapFlood, BesideLostRecordsTheProcessKeepsItsName) {
  take();
  tape_.lost(11 * kSecond, 5);
  time_ = 11 * kSecond + 10;
  flood(2000);
  const EventTime flooded = time_;
  take();
  intake_.looking();
  scan(12 * kSecond, "/lib/now");
  const auto window = tracker_.export_window(12 * kSecond, 12 * kSecond, {100});
  EXPECT_EQ(read(window).comm_of(100, 100), "flooder");
  EXPECT_EQ(named(kRange + 0x100, 12 * kSecond + 1), "/lib/now");
  EXPECT_EQ(named(kRange + 0x100, flooded), kLostName);
  EXPECT_FALSE(tracker_.has_open_gap());
}

TEST_F(MapFlood, IsReportedForItsWindowByTheNextFlightdToo) {
  flood(3000);
  take();
  time_ = now_ = 40 * kSecond;
  tape_.fork(time_++, 1, 300);
  take();
  const auto check = [](const ProcessTracker& tracker) {
    const auto warnings = tracker.export_window(9 * kSecond, 11 * kSecond, {100}).warnings;
    EXPECT_THAT(warnings, testing::Contains(testing::AllOf(testing::HasSubstr("flooder (pid 100) mapped executable"),
                                                           testing::HasSubstr("2002 of its mappings were not kept"),
                                                           testing::HasSubstr("incomplete"))));
    for (const EventTime begin : {kSecond, 30 * kSecond})
      for (const std::string& warning : tracker.export_window(begin, begin + kSecond, {100}).warnings)
        EXPECT_THAT(warning, testing::Not(testing::HasSubstr("flooder")));
  };
  check(tracker_);
  RecordBuffer records;
  const auto omissions = tracker_.checkpoint(
      1U << 20U, [&](std::span<const std::byte> some) { records.insert(records.end(), some.begin(), some.end()); });
  ProcessTracker next;
  next.replay(records, omissions.losses);
  check(next);
}

TEST_F(MapFlood, OfManyProcessesTheWorstAreNamedAndTheOthersCounted) {
  for (std::uint32_t pid = 1000; pid < 1020; ++pid)
    for (std::uint64_t i = 0; i < Intake::kMapsPerSecond + pid - 999; ++i)
      tape_.map(time_++, pid, kRange + i % 8 * 0x1000, 0x8000, "/lib/new" + std::to_string(number_++));
  take();
  const auto warnings = tracker_.flood_warnings(0, 20 * kSecond);
  ASSERT_EQ(warnings.size(), 9U);
  EXPECT_THAT(warnings.front(), testing::HasSubstr("(pid 1019)"));
  EXPECT_THAT(warnings.back(), testing::HasSubstr("78 mappings of other processes")) << "1 + 2 + … + 12";
}

TEST_F(IntakeTest, TheLoudestIsTheOneThatForks) {
  EXPECT_EQ(intake_.loudest().pid, 0U);
  tape_.fork(time_++, 1, 500);
  for (std::uint32_t pid = 1000; pid < 2000; ++pid) {
    tape_.fork(time_++, pid % 2 == 0 ? 500 : pid - 1, pid);  // every second one is forked by the previous one
    tape_.exec(time_++, pid, "true");
    tape_.exit(time_++, pid);
  }
  for (int i = 0; i < 100; ++i) tape_.comm(time_++, 77, 77, "noise");
  (void)sift();
  const auto loudest = intake_.loudest();
  EXPECT_EQ(loudest.pid, 1U) << "its starter is as young as they are";
  now_ += kSecond;
  (void)sift();
  now_ += kSecond;
  (void)sift();
  EXPECT_EQ(intake_.loudest().pid, 0U) << "long ago";
}

}  // namespace
}  // namespace flight
