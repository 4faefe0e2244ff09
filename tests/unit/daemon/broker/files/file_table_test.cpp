// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/file_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

constexpr FileIdentity file(std::uint64_t inode, std::uint64_t generation = 0) {
  return {.major = 8, .minor = 1, .inode = inode, .generation = generation};
}
MappedFileFacts facts(std::uint8_t byte, std::string host_path = {}) {
  return {.build_id = std::vector<std::uint8_t>(20, byte), .host_path = std::move(host_path)};
}

// Times of records: a second is 1e9. The wall clock shows the same.
constexpr EventTime at(double seconds) { return static_cast<EventTime>(seconds * 1e9); }
constexpr WallTime wall(double seconds) { return WallTime(static_cast<std::int64_t>(seconds * 1e9)); }

Sighting seen(const FileIdentity& file, std::string_view name = "/bin/x", EventTime time_ns = 0) {
  return {.pid = 7, .address = 4096, .file = file, .name = name, .time_ns = time_ns};
}
MappedAt place(const FileIdentity& file, std::string name = "/bin/x") {
  return {.file = file, .name = std::move(name)};
}

// A file that was written at one time and looked at at another.
MappedFileFacts written(std::uint8_t byte, double changed, double looked) {
  MappedFileFacts out = facts(byte);
  out.stamp = {.device = 1, .inode = 1, .bytes = 1000, .modified = wall(changed), .changed = wall(changed)};
  out.looked = {.wall = wall(looked), .monotonic_ns = at(looked)};
  out.stamp_proves = looked > changed + 0.02;
  return out;
}
MappedFileFacts unchanged(const MappedFileFacts& before, double looked) {
  MappedFileFacts out = before;
  out.unchanged = true;
  out.build_id = {};
  out.looked = {.wall = wall(looked), .monotonic_ns = at(looked)};
  return out;
}

class Table : public testing::Test {
 protected:
  void learn(FileTable& table, std::uint64_t inode, std::uint8_t byte) {
    ASSERT_TRUE(table.wants(seen(file(inode)), now_));
    table.put(place(file(inode)), facts(byte));
  }
  // The build-id's bytes for a file that was mapped then; 0: unknown.
  static int id_at(const FileTable& table, double seconds) {
    int found = 0;
    for (const KnownFile& one : table.known().files)
      if (!one.is_two && one.from_ns <= at(seconds) && at(seconds) <= one.to_ns) {
        EXPECT_EQ(found, 0) << "two hold";
        found = one.build_id.empty() ? 0 : one.build_id[0];
      }
    return found;
  }
  FileTable::Time now_{1000s};
};

TEST_F(Table, AKnownFileIsLookedAtOnceForManyMappings) {
  FileTable table;
  EXPECT_TRUE(table.wants(seen(file(1), "/bin/x", at(10)), now_));
  EXPECT_FALSE(table.wants(seen(file(1), "/bin/x", at(10.1)), now_)) << "it is being read";
  const MappedFileFacts first = written(7, 1, 10.2);
  table.put(place(file(1)), first);
  EXPECT_EQ(id_at(table, 10.1), 7);
  EXPECT_FALSE(table.wants(seen(file(1), "/bin/x", at(10.2)), now_ + 100s)) << "the read was later than this mapping";
  EXPECT_TRUE(table.due(now_ + 100s, true).empty());
  EXPECT_EQ(id_at(table, 10.5), 0) << "not looked at since";
  EXPECT_FALSE(table.wants(seen(file(1), "/bin/x", at(10.5)), now_ + 300ms));
  EXPECT_FALSE(table.wants(seen(file(1), "/bin/x", at(10.6)), now_ + 400ms));
  EXPECT_TRUE(table.due(now_ + 900ms, false).empty());
  ASSERT_EQ(table.due(now_ + 1s, false).size(), 1U) << "later, once for all of them";
  ASSERT_TRUE(table.stamp_of(place(file(1))));
  table.put(place(file(1)), unchanged(first, 11));
  EXPECT_EQ(id_at(table, 10.6), 7);
  EXPECT_FALSE(table.has_due());
  EXPECT_FALSE(table.wants(seen(file(1), "/bin/x", at(12)), now_ + 1050ms));
  EXPECT_EQ(table.due(now_ + 1100ms, true).size(), 1U) << "at once if a client waits";
}

TEST_F(Table, AnUnreadableFileIsRetriedAndNotReported) {
  FileTable table;
  EXPECT_TRUE(table.wants(seen(file(1)), now_));
  table.put_failed(file(1));
  EXPECT_TRUE(table.known().files.empty());
  EXPECT_FALSE(table.wants(seen(file(1)), now_ + 100ms));
  EXPECT_TRUE(table.wants(seen(file(1)), now_ + 500ms));
}

// A program was read, overwritten in place, and started again at once.
TEST_F(Table, EachMappingHasWhatWasThereThen) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(10)), now_));
  table.put(place(file(1)), written(7, 1, 10.1));
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(13)), now_ + 3s));
  table.put(place(file(1)), written(8, 12, 13.1));
  EXPECT_EQ(id_at(table, 5), 7) << "it ran before the file was first seen";
  EXPECT_EQ(id_at(table, 10), 7);
  EXPECT_EQ(id_at(table, 11), 0) << "either";
  EXPECT_EQ(id_at(table, 12), 0) << "within the tick of the file's time";
  EXPECT_EQ(id_at(table, 12.1), 8);
  EXPECT_EQ(id_at(table, 13), 8);
  EXPECT_EQ(id_at(table, 13.2), 0);
  // The same build again, by another write: what was there in between is unknown.
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(20)), now_ + 10s));
  table.put(place(file(1)), written(8, 18, 20));
  EXPECT_EQ(id_at(table, 15), 0);
  EXPECT_EQ(id_at(table, 19), 8);
}

// It was written after it had been mapped, before it was read for the first time.
TEST_F(Table, WhatWasThereBeforeTheFirstReadIsUnknown) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(10)), now_));
  table.put(place(file(1)), written(8, 10.05, 10.1));
  EXPECT_EQ(id_at(table, 10), 0);
  EXPECT_EQ(id_at(table, 10.06), 8);
  // One that was only deleted.
  ASSERT_TRUE(table.wants(seen(file(2), "/bin/y", at(10)), now_));
  MappedFileFacts deleted = written(9, 1, 10.1);
  deleted.stamp.changed = wall(10.05);
  deleted.unlinked = true;
  FileTable other;
  ASSERT_TRUE(other.wants(seen(file(2), "/bin/y", at(10)), now_));
  other.put(place(file(2), "/bin/y"), deleted);
  EXPECT_EQ(id_at(other, 10), 9);
}

// Unlink, rename and chmod change only ctime, and then it is read again.
TEST_F(Table, AReadOfTheSameContentGoesOn) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(10)), now_));
  table.put(place(file(1)), written(7, 1, 10.1));
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(13)), now_ + 3s));
  MappedFileFacts renamed = written(7, 1, 13.1);
  renamed.stamp.changed = wall(12);
  table.put(place(file(1)), renamed);
  EXPECT_EQ(table.known().files.size(), 1U);
  EXPECT_EQ(id_at(table, 11.9), 7);
  // It can no longer be read: what was known stays.
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(20)), now_ + 10s));
  table.put_failed(file(1));
  EXPECT_EQ(id_at(table, 13), 7);
  EXPECT_EQ(id_at(table, 20), 0);
}

// The file's times cannot be compared with those of records: so the new content holds from when it was read.
TEST_F(Table, AStepOfTheClockMakesNoBuildIdWrong) {
  for (const double step : {3600.0, -3600.0}) {
    FileTable table;
    ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(10'000)), now_));
    table.put(place(file(1)), written(7, 1, 10'000.1));
    ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(10'003)), now_ + 3s));
    MappedFileFacts later = written(8, 10'002, 10'003.1);
    later.looked.wall += wall(step);
    table.put(place(file(1)), later);
    EXPECT_EQ(id_at(table, 10'001), 0) << step;
    EXPECT_EQ(id_at(table, 10'003), 0) << step;
    EXPECT_EQ(id_at(table, 10'003.1), 8) << step;
  }
}

// It was mapped at 10'000 s, the clock was set at 10'002.5 s, and nothing was read before 10'003.1 s.
class StepBeforeTheFirstReading : public Table {
 protected:
  static void look(FileTable& table, double seconds, double shown) {
    table.note_clock({.monotonic_ns = at(seconds), .boottime_ns = at(seconds), .wall = wall(shown), .took_ns = 0});
  }
  // `changed`: what the clock showed then.
  void read(FileTable& table, double step, double changed, double mapped = 10'000) {
    look(table, 9'999, 9'999);
    look(table, 10'002.4, 10'002.4);
    if (mapped < 10'002) {
      ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(mapped)), now_));
    }
    look(table, 10'003, 10'003 + step);
    if (mapped > 10'002) {
      ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(mapped)), now_));
    }
    MappedFileFacts first = written(8, changed, 10'003.1);
    first.looked.wall += wall(step);
    table.put(place(file(1)), first);
  }
};

TEST_F(StepBeforeTheFirstReading, WhatWasOverwrittenIsNotWhatWasMapped) {
  for (const double step : {3600.0, -3600.0}) {
    FileTable before_it, after_it;
    read(before_it, step, 10'002);
    EXPECT_EQ(id_at(before_it, 10'001), 0) << step;
    EXPECT_EQ(id_at(before_it, 10'002.5), 8) << step;
    read(after_it, step, 10'002.6 + step);
    EXPECT_EQ(id_at(after_it, 10'002.5), 0) << step;
    EXPECT_EQ(id_at(after_it, 10'002.7), 8) << step;
  }
}

TEST_F(StepBeforeTheFirstReading, AnOlderFileIsKnown) {
  for (const double step : {3600.0, -3600.0}) {
    FileTable table;
    read(table, step, 1);
    EXPECT_EQ(id_at(table, 10'000), 8) << step;
  }
  FileTable earlier_boot;  // the clock never showed that since
  read(earlier_boot, 3600, 12'000);
  EXPECT_EQ(id_at(earlier_boot, 10'000), 8);
}

TEST_F(StepBeforeTheFirstReading, ABrokerThatBeganLateDoesNotTakeTheFileForOlder) {
  FileTable table;
  table.begin_late();
  read(table, 3600, 10'002, 10'003.05);
  EXPECT_EQ(id_at(table, 10'001), 0);
  EXPECT_EQ(id_at(table, 10'003), 8);
}

// The predecessor of this broker saw mappings that this one has not: only what was written before them is theirs.
TEST_F(Table, ABrokerThatBeganLateVouchesForLess) {
  FileTable table;
  table.begin_late();
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(10)), now_));
  table.put(place(file(1)), written(7, 4, 10.1));
  EXPECT_EQ(id_at(table, 3), 0);
  EXPECT_EQ(id_at(table, 5), 7);
}

// The subvolumes of btrfs have the same numbers in the records, and not for fstat(2).
TEST_F(Table, TwoFilesWithTheSameNumbersHaveNoBuildId) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/a/x", at(10)), now_));
  table.put(place(file(1), "/a/x"), written(7, 1, 10.1));
  ASSERT_TRUE(table.wants(seen(file(1), "/b/x", at(11)), now_ + 1s));
  MappedFileFacts other = written(8, 2, 11.1);
  other.stamp.device = 2;
  table.put(place(file(1), "/b/x"), other);
  const KnownFiles known = table.known();
  ASSERT_EQ(known.files.size(), 1U);
  EXPECT_TRUE(known.files[0].is_two);
  EXPECT_FALSE(table.wants(seen(file(1), "/a/x", at(100)), now_ + 100s)) << "for ever";
}

TEST_F(Table, BothOfTwoFilesThatAScanReportsAreRead) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/a/x", at(10)), now_));
  EXPECT_FALSE(table.wants(seen(file(1), "/b/x", at(10)), now_)) << "the first one is being read";
  table.put(place(file(1), "/a/x"), written(7, 1, 10.1));
  const auto due = table.due(now_ + 2s, false);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].name, "/b/x");
  MappedFileFacts other = written(8, 2, 11.1);
  other.stamp.device = 2;
  table.put(due[0], other);
  EXPECT_TRUE(table.known().files[0].is_two) << "neither has the build-id of the other";
  EXPECT_FALSE(table.has_due());
}

// A scan does not report the generation, a record does.
TEST_F(Table, AScanAndARecordAreOfOneFile) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x", at(10)), now_));
  MappedFileFacts first = written(7, 1, 10.1);
  first.generation = 5;
  table.put(place(file(1)), first);
  EXPECT_FALSE(table.wants(seen(file(1, 5), "/bin/x", at(10)), now_ + 5s));
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.known().files[0].file, file(1, 5));
  EXPECT_TRUE(table.wants(seen(file(1, 6), "/bin/x", at(10)), now_ + 5s)) << "the inode was used again";
  EXPECT_FALSE(table.stamp_of(place(file(1, 6))));
  MappedFileFacts second = written(8, 9, 10.2);
  second.generation = 6;
  table.put(place(file(1, 6)), second);
  EXPECT_EQ(table.known().files.size(), 2U);
}

// A program is copied, started and deleted at once, in the place of another one; only their generations differ.
TEST_F(Table, AnInodeThatIsUsedAgainHasItsOwnFromTheBeginning) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1, 5), "/bin/x", at(10)), now_));
  MappedFileFacts first = written(7, 1, 10.1);
  first.generation = 5;
  table.put(place(file(1, 5)), first);
  ASSERT_TRUE(table.wants(seen(file(1, 6), "/bin/y", at(12.01)), now_ + 2s));
  MappedFileFacts second = written(8, 12, 12.2);
  second.generation = 6;
  second.unlinked = true;
  second.stamp.changed = wall(12.1);
  table.put(place(file(1, 6), "/bin/y"), second);
  EXPECT_EQ(id_at(table, 10), 7);
  EXPECT_EQ(id_at(table, 12.01), 8) << "before it was deleted";
  EXPECT_EQ(id_at(table, 11), 0);
}

TEST_F(Table, TheLeastRecentlyMappedGoesFirst) {
  FileTable table(3);
  for (std::uint64_t inode = 1; inode <= 3; ++inode) learn(table, inode, 7);
  EXPECT_FALSE(table.wants(seen(file(1)), now_ + 1s));
  const std::uint64_t version = table.version();
  learn(table, 4, 7);
  EXPECT_GT(table.version(), version);
  EXPECT_EQ(table.size(), 3U);
  const auto known = table.known();
  ASSERT_EQ(known.files.size(), 3U);
  EXPECT_EQ(known.files[0].file, file(4));
  EXPECT_EQ(known.files[1].file, file(1));
  EXPECT_EQ(known.files[2].file, file(3));
}

// A fork maps nothing anew: what runs for a year was mapped long ago.
TEST_F(Table, WhatAScanFindsMappedStays) {
  FileTable table(16);
  learn(table, 1, 7);
  for (std::uint64_t inode = 2; inode <= 8; ++inode) {
    EXPECT_FALSE(table.wants_scan());
    learn(table, inode, 7);
  }
  EXPECT_TRUE(table.wants_scan()) << "half full, and a quarter is new";
  for (std::uint64_t inode = 9; inode <= 40; ++inode) {
    learn(table, inode, 7);
    if (!table.wants_scan()) continue;
    EXPECT_TRUE(table.touch(seen(file(1), "/bin/x", at(10))));
    EXPECT_FALSE(table.touch(seen(file(1000)))) << "it is new";
    table.end_scan();
    EXPECT_FALSE(table.wants_scan());
  }
  EXPECT_EQ(table.size(), 16U);
  const KnownFiles known = table.known();
  EXPECT_TRUE(
      std::any_of(known.files.begin(), known.files.end(), [](const KnownFile& one) { return one.file == file(1); }));
  ASSERT_TRUE(table.wants(seen(file(50)), now_));
  table.put_failed(file(50));
  EXPECT_FALSE(table.touch(seen(file(50)))) << "it was never read";
}

// A mapping of a forgotten file is as old as this or older, so a newer one is of no forgotten file.
TEST_F(Table, UntilWhenFilesAreForgotten) {
  FileTable table(3);
  for (std::uint64_t inode = 1; inode <= 3; ++inode) {
    ASSERT_TRUE(table.wants(seen(file(inode), "/bin/x", at(10.0 * static_cast<double>(inode))), now_));
    table.put(place(file(inode)), facts(7));
  }
  EXPECT_FALSE(table.wants(seen(file(1), "/bin/x", at(35)), now_ + 100ms));
  EXPECT_EQ(table.known().forgotten_ns, 0U);
  ASSERT_TRUE(table.wants(seen(file(4), "/bin/x", at(40)), now_));
  EXPECT_EQ(table.known().forgotten_ns, at(20));
  ASSERT_TRUE(table.wants(seen(file(5), "/bin/x", at(50)), now_));
  ASSERT_TRUE(table.wants(seen(file(6), "/bin/x", at(60)), now_));
  EXPECT_EQ(table.known().forgotten_ns, at(35));
}

// The pid in a sighting is the user's uid here; 0 is root, 99 has ended.
class SharedTable : public Table {
 protected:
  void map(std::uint64_t inode, std::uint32_t user, FileTable::Time now) {
    Sighting one = seen(file(inode), "/bin/x", at(10));
    one.pid = user;
    if (table_.wants(one, now)) table_.put(place(file(inode)), facts(7));
  }
  bool has(std::uint64_t inode) {
    const KnownFiles known = table_.known();
    return std::any_of(known.files.begin(), known.files.end(),
                       [&](const KnownFile& one) { return one.file == file(inode); });
  }
  FileTable table_{16, [](std::uint32_t pid) { return pid == 99 ? std::nullopt : std::optional<uid_t>(pid); }};
};

TEST_F(SharedTable, AUserForgetsOnlyHisOwn) {
  map(1, 0, now_);
  map(2, 1000, now_);
  for (std::uint64_t inode = 100; inode < 200; ++inode) map(inode, 1001, now_);
  EXPECT_EQ(table_.size(), 16U);
  EXPECT_TRUE(has(1));
  EXPECT_TRUE(has(2));
  EXPECT_TRUE(has(199));
  EXPECT_FALSE(has(100));
  // Others get their space, from him.
  for (std::uint64_t inode = 10; inode < 20; ++inode) map(inode, 0, now_);
  EXPECT_TRUE(has(1));
  EXPECT_TRUE(has(2));
  EXPECT_TRUE(has(19));
  EXPECT_TRUE(has(196)) << "his share stays";
}

// He replaces his own, and makes nobody else's forgotten.
TEST_F(SharedTable, AUserWithTooManyCausesNoScans) {
  for (std::uint64_t inode = 100; inode < 200; ++inode) map(inode, 1001, now_);
  table_.end_scan();
  for (std::uint64_t inode = 200; inode < 300; ++inode) map(inode, 1001, now_);
  EXPECT_FALSE(table_.wants_scan());
  for (std::uint64_t inode = 300; inode < 304; ++inode) map(inode, 0, now_);
  EXPECT_TRUE(table_.wants_scan());
}

TEST_F(SharedTable, TooManyUsersAreOne) {
  FileTable table(1000, [](std::uint32_t pid) { return std::optional<uid_t>(pid); });
  const auto map_as = [&](std::uint64_t inode, std::uint32_t user) {
    Sighting one = seen(file(inode), "/bin/x", at(10));
    one.pid = user;
    if (table.wants(one, now_)) table.put(place(file(inode)), facts(7));
  };
  map_as(1, 0);
  map_as(2, 7);
  for (std::uint32_t user = 1000; user < 5000; ++user) map_as(user, user);
  EXPECT_EQ(table.size(), 1000U);
  const KnownFiles known = table.known();
  for (const std::uint64_t inode : {1, 2})
    EXPECT_TRUE(std::any_of(known.files.begin(), known.files.end(), [&](const KnownFile& one) {
      return one.file == file(inode);
    })) << inode;
}

TEST_F(SharedTable, ManyProcessesThatHaveEndedAreOneUser) {
  map(1, 0, now_);
  for (std::uint64_t inode = 100; inode < 200; ++inode) map(inode, 99, now_);
  EXPECT_TRUE(has(1));
}

TEST_F(SharedTable, AFileOfSeveralUsersIsNobodys) {
  map(1, 1001, now_);
  map(2, 99, now_);
  map(3, 1001, now_);
  map(4, 1001, now_);
  map(1, 1002, now_);  // in the same scan
  map(2, 1002, now_ + 2s);
  map(3, 99, now_ + 2s);
  Sighting again = seen(file(4), "/bin/x", at(20));
  again.pid = 0;
  EXPECT_TRUE(table_.touch(again));
  for (std::uint64_t inode = 100; inode < 200; ++inode) map(inode, 1001, now_ + 2s);
  EXPECT_TRUE(has(1));
  EXPECT_TRUE(has(4));
  EXPECT_TRUE(has(2)) << "it is the other user's";
  EXPECT_FALSE(has(3)) << "a process that has ended may have been his own";
}

// A process with another root maps a file whose own name is already known.
TEST_F(Table, AnotherNameIsLookedAtAndRenamed) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/srv/root/bin/x"), now_));
  table.put(place(file(1), "/srv/root/bin/x"), facts(7));
  EXPECT_TRUE(table.wants(seen(file(1), "/bin/x"), now_ + 1s));
  table.put(place(file(1), "/bin/x"), facts(7, "/srv/root/bin/x"));
  auto known = table.known();
  ASSERT_EQ(known.files.size(), 1U);
  EXPECT_EQ(known.files[0].recorded_name, "/bin/x");
  EXPECT_EQ(known.files[0].host_path, "/srv/root/bin/x");
  // The first mapping again changes nothing.
  EXPECT_TRUE(table.wants(seen(file(1), "/srv/root/bin/x"), now_ + 2s));
  table.put(place(file(1), "/srv/root/bin/x"), facts(7));
  EXPECT_EQ(table.known().files[0].host_path, "/srv/root/bin/x");
}

// perf takes what the name leads to for a file without a build-id, so that is looked at when a client asks.
class Names : public Table {
 protected:
  // A file without a build-id.
  static MappedFileFacts plain(double changed, double looked, std::string host_path = {}) {
    MappedFileFacts out = written(0, changed, looked);
    out.build_id = {};
    out.host_path = std::move(host_path);
    return out;
  }
  void read(const Sighting& one, const MappedFileFacts& facts) {
    ASSERT_TRUE(table_.wants(one, now_));
    MappedAt at = place(one.file, std::string(one.name));
    at.seen_ns = one.time_ns;
    table_.put(at, facts);
  }
  std::string path_of(std::string_view recorded) {
    std::string out(recorded);
    for (const KnownFile& one : table_.known().files)
      if (one.recorded_name == recorded) out = one.host_path;
    return out;
  }
  FileTable table_;
};

TEST_F(Names, AreLookedAtAgainWhenAClientAsks) {
  read(seen(file(1), "/bin/x", at(10)), plain(1, 10.1));
  learn(table_, 2, 7);
  EXPECT_TRUE(table_.to_check(now_ + 50ms).empty()) << "it was read just now";
  auto checks = table_.to_check(now_ + 1s);
  ASSERT_EQ(checks.size(), 1U) << "of the file without a build-id";
  EXPECT_TRUE(checks[0].at.by_name);
  EXPECT_EQ(checks[0].at.name, "/bin/x");
  EXPECT_EQ(checks[0].at.file, file(1));
  EXPECT_EQ(checks[0].at.known, plain(1, 10.1).stamp);
  EXPECT_TRUE(table_.to_check(now_ + 2s).empty()) << "it is being looked at";
  const std::uint64_t version = table_.version();
  const MappedFileFacts right{.build_id = {}, .host_path = {}, .was_read = false};
  table_.put_check(checks[0].at, &right);
  EXPECT_EQ(table_.version(), version);
  EXPECT_EQ(path_of("/bin/x"), "/bin/x");
  checks = table_.to_check(now_ + 3s);
  ASSERT_EQ(checks.size(), 1U);
  table_.put_check(checks[0].at, nullptr);
  EXPECT_EQ(path_of("/bin/x"), "/bin/x") << "it could not be looked at";
  checks = table_.to_check(now_ + 4s);
  ASSERT_EQ(checks.size(), 1U);
  const MappedFileFacts wrong{.build_id = {}, .host_path = "/bin/x (not the host's)", .was_read = false};
  table_.put_check(checks[0].at, &wrong);
  EXPECT_GT(table_.version(), version);
  EXPECT_EQ(path_of("/bin/x"), "/bin/x (not the host's)");
  EXPECT_TRUE(table_.to_check(now_ + 5s).empty()) << "it stays so";
}

TEST_F(Names, OneOfTwoCanLeadElsewhere) {
  read(seen(file(1), "/bin/x", at(10)), plain(1, 10.1, "/srv/root/bin/x"));
  now_ += 1s;
  read(seen(file(1), "/bin/y", at(11)), plain(1, 11.1));
  now_ += 1s;
  const auto checks = table_.to_check(now_);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].at.name, "/srv/root/bin/x") << "what perf would open";
  EXPECT_EQ(checks[1].at.name, "/bin/y");
  const MappedFileFacts wrong{.build_id = {}, .host_path = "/srv/root/bin/x (not the host's)", .was_read = false};
  const MappedFileFacts right{.build_id = {}, .host_path = {}, .was_read = false};
  table_.put_check(checks[0].at, &wrong);
  table_.put_check(checks[1].at, &right);
  EXPECT_EQ(path_of("/bin/x"), "/srv/root/bin/x (not the host's)");
  EXPECT_EQ(path_of("/bin/y"), "/bin/y");
}

TEST_F(Names, AnAnswerAboutAnEarlierContentIsIgnored) {
  read(seen(file(1), "/bin/x", at(10)), plain(1, 10.1));
  now_ += 2s;
  const auto checks = table_.to_check(now_);
  ASSERT_EQ(checks.size(), 1U);
  read(seen(file(1), "/bin/x", at(12)), plain(11, 12.1));
  const MappedFileFacts wrong{.build_id = {}, .host_path = "/bin/x (not the host's)", .was_read = false};
  table_.put_check(checks[0].at, &wrong);
  EXPECT_EQ(path_of("/bin/x"), "/bin/x");
}

// Without a build-id, a new ctime can be a chmod, or a write after which mtime was set back.
TEST_F(Names, AFileThatCanHaveBeenOverwrittenIsNotVerified) {
  read(seen(file(1), "/bin/x", at(10)), plain(1, 10.1));
  now_ += 3s;
  MappedFileFacts touched = plain(1, 13.1);
  touched.stamp.changed = wall(12);
  read(seen(file(1), "/bin/x", at(13)), touched);
  const KnownFiles known = table_.known();
  ASSERT_EQ(known.files.size(), 2U);
  EXPECT_EQ(known.files[0].host_path, "") << "the name leads to what is there now";
  EXPECT_EQ(known.files[0].from_ns, at(12) + kFileTimeTickNs);
  EXPECT_EQ(known.files[1].recorded_name, "/bin/x");
  EXPECT_EQ(known.files[1].host_path, "/bin/x (not verified)");
  EXPECT_EQ(known.files[1].to_ns, at(10.1));
  // Nothing of a deleted file can be taken for another content.
  now_ += 3s;
  MappedFileFacts deleted = plain(1, 16.1);
  deleted.stamp.changed = wall(15);
  deleted.unlinked = true;
  read(seen(file(1), "/bin/x", at(16)), deleted);
  EXPECT_EQ(table_.known().files.size(), 2U);
}

TEST_F(Names, OneThatIsNotVerifiedIsNotLookedAtAgain) {
  read(seen(file(1), "/bin/x", at(10)), plain(1, 10.1));
  const auto checks = table_.to_check(now_ + 1s);
  ASSERT_EQ(checks.size(), 1U);
  const MappedFileFacts unsure{.build_id = {}, .host_path = "/bin/x (not verified)", .was_read = false};
  table_.put_check(checks[0].at, &unsure);
  EXPECT_EQ(path_of("/bin/x"), "/bin/x (not verified)");
  EXPECT_TRUE(table_.to_check(now_ + 2s).empty());
}

// It was mapped again, ended, and was replaced before it could be looked at.
TEST_F(Names, AMappingAfterTheLastReadingHasItsOwn) {
  read(seen(file(1), "/bin/x", at(10)), written(7, 1, 10.1));
  now_ += 2s;
  const MappedFileFacts misled{.build_id = {}, .host_path = "/bin/x (not the host's)", .was_read = false};
  read(seen(file(1), "/bin/x", at(12)), misled);
  KnownFiles known = table_.known();
  ASSERT_EQ(known.files.size(), 2U);
  EXPECT_EQ(known.files[0].build_id.size(), 20U);
  EXPECT_EQ(known.files[0].to_ns, at(10.1));
  EXPECT_EQ(known.files[1].host_path, "/bin/x (not the host's)");
  EXPECT_EQ(known.files[1].from_ns, at(10.1) + 1);
  now_ += 2s;
  read(seen(file(1), "/bin/x", at(14)), written(7, 1, 14.1));
  EXPECT_EQ(table_.known().files.size(), 1U) << "it was there again";
}

TEST_F(Names, AFileThatIsNotOpenedIsLookedAtAgain) {
  const MappedFileFacts unread{.build_id = {}, .host_path = {}, .was_read = false, .served_by = "nfs4"};
  read(seen(file(1), "/net/x", at(10)), unread);
  EXPECT_TRUE(table_.known().files.empty());
  const auto checks = table_.to_check(now_ + 1s);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_FALSE(checks[0].at.known);
  const MappedFileFacts wrong{.build_id = {}, .host_path = "/net/x (not the host's)", .was_read = false};
  table_.put_check(checks[0].at, &wrong);
  EXPECT_EQ(path_of("/net/x"), "/net/x (not the host's)");
}

// The pid is the user's uid here.
TEST(NamesOfUsers, HaveALimitAndTakeTurns) {
  FileTable table(kMaxKnownFiles, [](std::uint32_t pid) { return std::optional<uid_t>(pid); });
  FileTable::Time now{1000s};
  for (std::uint32_t user : {0U, 1001U, 1002U})
    for (std::uint64_t i = 0; i < 3000; ++i) {
      Sighting one = seen(file(user * 10'000 + i + 1), "/bin/x", at(10));
      one.pid = user;
      ASSERT_TRUE(table.wants(one, now));
      table.put(place(one.file), {.build_id = {}, .host_path = {}});
    }
  std::map<uid_t, std::size_t> asked;
  const MappedFileFacts right{.build_id = {}, .host_path = {}, .was_read = false};
  std::set<std::uint64_t> files;
  for (int round = 1; round <= 6; ++round) {
    now += 1s;
    const auto checks = table.to_check(now);
    EXPECT_LE(checks.size(), FileTable::kMaxChecks);
    for (const FileTable::Check& check : checks) {
      ++asked[check.owner];
      files.insert(check.at.file.inode);
      table.put_check(check.at, &right);
    }
  }
  EXPECT_EQ(asked[0], 6 * FileTable::kMaxChecks / 2);
  EXPECT_EQ(asked[1001], 6 * FileTable::kMaxChecks / 8);
  EXPECT_EQ(asked[1002], asked[1001]);
  EXPECT_EQ(files.size(), 3000 + 2 * 6 * FileTable::kMaxChecks / 8) << "each in its turn";
}

// Hard links with long names: memory for the names of a user's files has a limit.
TEST(NamesOfUsers, TakeMemoryUpToAShare) {
  FileTable table(kMaxKnownFiles, [](std::uint32_t pid) { return std::optional<uid_t>(pid); });
  const auto map = [&](std::uint32_t user, std::uint64_t inode, const std::string& name) {
    Sighting one = seen(file(inode), name, at(10));
    one.pid = user;
    ASSERT_TRUE(table.wants(one, FileTable::Time{1000s}));
    table.put(place(one.file, name), {.build_id = {}, .host_path = name + " (not the host's)", .was_read = false});
  };
  for (std::uint64_t i = 1; i <= 4000; ++i) map(1001, i, "/" + std::string(4000, 'x'));
  map(1002, 5001, "/bin/other");
  map(0, 5002, "/bin/roots");
  std::size_t bytes = 0, others = 0;
  for (const KnownFile& one : table.known().files) {
    bytes += one.recorded_name.size() + one.host_path.size();
    if (one.file == file(5001) || one.file == file(5002)) ++others;
  }
  EXPECT_EQ(others, 2U);
  EXPECT_LE(table.bytes_of_names(), (8U << 20U) + 1000);
  EXPECT_LE(bytes, table.bytes_of_names());
}

TEST(NamesOfUsers, TheReplyHasSpaceForTheOthers) {
  FileTable table(kMaxKnownFiles, [](std::uint32_t pid) { return std::optional<uid_t>(pid); });
  const std::string name = "/" + std::string(4000, 'x'), path = "/y" + name;
  const auto map = [&](std::uint32_t user, std::uint64_t inode, std::uint8_t byte) {
    Sighting one = seen(file(inode), name, at(10));
    one.pid = user;
    ASSERT_TRUE(table.wants(one, FileTable::Time{1000s}));
    table.put(place(one.file, name), facts(byte, path));
  };
  map(0, 1, 7);
  for (const std::uint32_t user : {1001U, 1002U, 1003U})
    for (std::uint64_t i = 0; i < 3000; ++i) map(user, user * 10'000 + i, 8);
  map(2000, 2, 7);
  const KnownFiles known = table.known();
  EXPECT_EQ(known.files.size(), 9002U);
  std::size_t renamed = 0;
  for (const KnownFile& one : known.files)
    if (one.build_id[0] == 7) renamed += one.host_path == path ? 1 : 0;
  EXPECT_EQ(renamed, 2U);
  EXPECT_LT(encode(known).size(), kMaxBuildIdsBytes);
}

// btrfs: in a snapshot, a file and its copy have the same numbers. The record of one was seen after the other was read.
TEST_F(Table, AnotherNameIsLookedAtLaterIfNotAtOnce) {
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/a/x", at(10)), now_));
  table.put(place(file(1), "/a/x"), written(7, 1, 10.1));
  EXPECT_FALSE(table.wants(seen(file(1), "/b/x", at(10.05)), now_ + 150ms));
  const auto due = table.due(now_ + 2s, false);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].name, "/b/x");
}

// A container's program has exited: the host's file of the same path must not be used in its place.
TEST_F(Table, AMisleadingNameIsReportedWithoutTheFile) {
  const MappedFileFacts misled{.build_id = {}, .host_path = "/bin/x (not the host's)", .was_read = false};
  FileTable table;
  ASSERT_TRUE(table.wants(seen(file(1), "/bin/x"), now_));
  const std::uint64_t version = table.version();
  table.put(place(file(1), "/bin/x"), misled);
  EXPECT_GT(table.version(), version);
  auto known = table.known();
  ASSERT_EQ(known.files.size(), 1U);
  EXPECT_EQ(known.files[0].recorded_name, "/bin/x");
  EXPECT_EQ(known.files[0].host_path, "/bin/x (not the host's)");
  EXPECT_TRUE(known.files[0].build_id.empty());
  // It is tried again and reported meanwhile. If nothing changed, this is no change.
  EXPECT_TRUE(table.wants(seen(file(1), "/bin/x"), now_ + 500ms));
  EXPECT_EQ(table.known().files.size(), 1U);
  const std::uint64_t unchanged = table.version();
  table.put(place(file(1), "/bin/x"), misled);
  EXPECT_EQ(table.version(), unchanged);
  // Another process of the container still runs.
  EXPECT_TRUE(table.wants(seen(file(1), "/bin/x"), now_ + 1s));
  table.put(place(file(1), "/bin/x"), facts(7));
  known = table.known();
  ASSERT_EQ(known.files.size(), 1U);
  EXPECT_EQ(known.files[0].build_id.size(), 20U);
  EXPECT_TRUE(known.files[0].host_path.empty());
  // Known build-ids stay known.
  EXPECT_TRUE(table.wants(seen(file(1), "/bin/x", at(30)), now_ + 20s));
  table.put(place(file(1), "/bin/x"), misled);
  EXPECT_EQ(table.known().files[0].build_id.size(), 20U);
}

// The pid is the user's uid here; those in `held_` may read nothing.
class HeldUsers : public Table {
 protected:
  static Sighting by(std::uint32_t user, std::uint64_t inode, double seconds) {
    Sighting out = seen(file(inode), "/bin/x", at(seconds));
    out.pid = user;
    return out;
  }
  static MappedAt queued(std::uint64_t inode, std::uint64_t ticket) {
    MappedAt out = place(file(inode));
    out.ticket = ticket;
    return out;
  }
  std::set<std::uint32_t> held_, even_asked_;
  FileTable table_{kMaxKnownFiles, [](std::uint32_t pid) { return std::optional<uid_t>(pid); },
                   FileTable::Held{.process = [this](std::uint32_t pid) { return held_.contains(pid); },
                                   .queue = [this](uid_t queue) { return held_.contains(queue); },
                                   .even_asked = [this](std::uint32_t pid) { return even_asked_.contains(pid); }}};
};

TEST_F(HeldUsers, AFileInTheirQueueGoesIntoThatOfAnotherUserWhoNeedsIt) {
  ASSERT_TRUE(table_.wants(by(1, 7, 10), now_));
  table_.note_queued(file(7), 1, 11);
  EXPECT_FALSE(table_.wants(by(2, 7, 11), now_)) << "it is read soon";
  held_ = {1, 3};
  EXPECT_TRUE(table_.is_queued(queued(7, 11)));
  EXPECT_EQ(table_.unknown_from(file(7)), 0U);
  EXPECT_FALSE(table_.wants(by(3, 7, 12), now_)) << "that one cannot have it read, either";
  EXPECT_FALSE(table_.wants(by(1, 7, 12), now_));
  EXPECT_TRUE(table_.wants(by(2, 7, 12), now_));
  table_.note_queued(file(7), 2, 12);
  EXPECT_FALSE(table_.wants(by(2, 7, 13), now_));
  EXPECT_FALSE(table_.is_queued(queued(7, 11)));
  EXPECT_FALSE(table_.begin_read(queued(7, 11))) << "it is not read twice";
  EXPECT_TRUE(table_.begin_read(queued(7, 12)));
  EXPECT_FALSE(table_.begin_read(queued(7, 12)));
  EXPECT_FALSE(table_.wants(by(4, 7, 14), now_)) << "it is being read";
  table_.put(place(file(7)), written(9, 1, 15));
  EXPECT_EQ(id_at(table_, 14), 9);
}

// The file's former entry in the queue must not be mistaken for its present one.
TEST_F(HeldUsers, AFileThatComesBackIntoAQueueIsThereOnce) {
  ASSERT_TRUE(table_.wants(by(1, 7, 10), now_));
  table_.note_queued(file(7), 1, 11);
  held_ = {1};
  ASSERT_TRUE(table_.wants(by(2, 7, 12), now_));
  table_.note_queued(file(7), 2, 12);
  held_ = {2};
  ASSERT_TRUE(table_.wants(by(1, 7, 13), now_));
  table_.note_queued(file(7), 1, 13);
  EXPECT_FALSE(table_.is_queued(queued(7, 11)));
  EXPECT_FALSE(table_.leave_out(queued(7, 11))) << "the old place";
  EXPECT_FALSE(table_.begin_read(queued(7, 11)));
  EXPECT_FALSE(table_.is_queued(queued(7, 0))) << "it never was in a queue";
  EXPECT_TRUE(table_.is_queued(queued(7, 13)));
  EXPECT_TRUE(table_.begin_read(queued(7, 13)));
}

TEST_F(HeldUsers, AKnownFileIsLookedAtAgainByAUserWhoMayDoSo) {
  ASSERT_TRUE(table_.wants(by(2, 7, 10), now_));
  table_.put(place(file(7)), written(9, 1, 10.1));
  held_ = {1};
  EXPECT_FALSE(table_.wants(by(2, 7, 10.2), now_ + 100ms)) << "a moment later";
  EXPECT_FALSE(table_.wants(by(1, 7, 10.3), now_ + 200ms));
  auto due = table_.due(now_ + 2s, false);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].pid, 2U) << "and not by the newest, who would let it wait";
  table_.note_queued(file(7), 2, 11);
  ASSERT_TRUE(table_.begin_read(queued(7, 11)));
  table_.put(due[0], written(9, 1, 12));
  EXPECT_EQ(id_at(table_, 10.3), 9) << "it holds for both";
  EXPECT_FALSE(table_.wants(by(1, 7, 12.1), now_ + 2s));
  EXPECT_TRUE(table_.has_due());
  EXPECT_TRUE(table_.due(now_ + 2s, true).empty()) << "a client can have it read, but not at once again";
  // If that user may not read even for a client, a delay gains nothing: the file is due at once.
  even_asked_ = {1};
  due = table_.due(now_ + 2s, true);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_FALSE(table_.has_due());
  table_.note_queued(file(7), 1, 12);
  EXPECT_TRUE(table_.is_queued(queued(7, 12)));
  EXPECT_EQ(table_.unknown_from(file(7)), at(12) + 1);
  EXPECT_FALSE(table_.wants(by(1, 7, 13), now_ + 10s));
  EXPECT_FALSE(table_.has_due()) << "no client waits for it";
}

TEST_F(HeldUsers, WhatIsLeftOutIsReadAfterItsNextMapping) {
  ASSERT_TRUE(table_.wants(by(1, 7, 10), now_));
  table_.note_queued(file(7), 1, 11);
  EXPECT_FALSE(table_.wants(by(1, 7, 11), now_));
  EXPECT_FALSE(table_.leave_out(queued(7, 12)));
  EXPECT_TRUE(table_.leave_out(queued(7, 11)));
  EXPECT_FALSE(table_.leave_out(queued(7, 11)));
  EXPECT_FALSE(table_.begin_read(queued(7, 11)));
  EXPECT_TRUE(table_.due(now_ + 10s, true).empty());
  EXPECT_TRUE(table_.wants(by(1, 7, 12), now_ + 10s));
  // One that was forgotten is in no queue.
  EXPECT_FALSE(table_.begin_read(queued(8, 11)));
  EXPECT_FALSE(table_.leave_out(queued(8, 11)));
  table_.note_queued(file(8), 1, 11);
  EXPECT_FALSE(table_.is_queued(queued(8, 11)));
}

// Mappings of it were passed over after it was read.
TEST_F(HeldUsers, AKnownFileIsLookedAtAgainByAScanIfItMayHaveChanged) {
  ASSERT_TRUE(table_.wants(by(1, 7, 10), now_));
  table_.put(place(file(7)), written(9, 1, 10.1));
  EXPECT_TRUE(table_.touch(by(1, 7, 30)));
  EXPECT_TRUE(table_.touch(by(1, 7, 30), at(10.1)));
  EXPECT_FALSE(table_.touch(by(1, 7, 30), at(20)));
  ASSERT_TRUE(table_.wants(by(1, 7, 30), now_ + 20s));
  table_.put(place(file(7)), written(9, 1, 30.1));
  EXPECT_TRUE(table_.touch(by(1, 7, 40), at(20)));
  EXPECT_EQ(id_at(table_, 20), 9);
}

TEST_F(HeldUsers, TheAnswerHasSpaceForWhatWaits) {
  for (std::uint64_t inode = 1; inode <= kMaxKnownFiles; ++inode) {
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(table_.wants(by(0, inode, 10 + i * 10), now_ + i * 10s));
      table_.put(place(file(inode)), written(static_cast<std::uint8_t>(i + 1), 9 + i * 10, 10.5 + i * 10));
    }
  }
  EXPECT_EQ(table_.known().files.size(), kMaxKnownReadings);
  EXPECT_EQ(table_.known(1000).files.size(), kMaxKnownReadings - 1000);
  EXPECT_EQ(table_.known(kMaxKnownReadings).files.size(), kMaxKnownFiles);
}

TEST(KnownFilesText, ComesBackAsItWas) {
  KnownFiles known{.files = {{.file = file(1, 2),
                              .build_id = {1, 2, 3},
                              .recorded_name = "/a",
                              .host_path = "/b/a",
                              .from_ns = 5,
                              .to_ns = 9},
                             {.file = file(9), .is_two = true}},
                   .missed_bytes = 77,
                   .hung_processes = 3,
                   .forgotten_ns = 12,
                   .unanswered = {{.major = 8, .minor = 1}, {.major = 0, .minor = 66}},
                   .served = {{.disk = {.major = 0, .minor = 70}, .type = "fuse.sshfs"}},
                   .waiting = {{.file = file(4), .from_ns = 0},
                               {.file = file(5), .from_ns = 17},
                               {.file = file(6), .from_ns = 18, .is_next = true}},
                   .left_out_ns = 11};
  const auto bytes = encode(known);
  const auto parsed = parse_build_ids(bytes);
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->missed_bytes, 77U);
  EXPECT_EQ(parsed->unanswered, known.unanswered);
  EXPECT_EQ(parsed->served, known.served);
  EXPECT_EQ(parsed->hung_processes, 3U);
  EXPECT_EQ(parsed->forgotten_ns, 12U);
  EXPECT_EQ(parsed->waiting, known.waiting);
  EXPECT_EQ(parsed->left_out_ns, 11U);
  ASSERT_EQ(parsed->files.size(), 2U);
  EXPECT_EQ(parsed->files[0].file, known.files[0].file);
  EXPECT_EQ(parsed->files[0].build_id, known.files[0].build_id);
  EXPECT_EQ(parsed->files[0].recorded_name, "/a");
  EXPECT_EQ(parsed->files[0].host_path, "/b/a");
  EXPECT_EQ(parsed->files[0].from_ns, 5U);
  EXPECT_EQ(parsed->files[0].to_ns, 9U);
  EXPECT_FALSE(parsed->files[0].is_two);
  EXPECT_TRUE(parsed->files[1].build_id.empty());
  EXPECT_TRUE(parsed->files[1].is_two);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(parse_build_ids(std::span(bytes).first(length))) << length;
}

}  // namespace
}  // namespace flight::broker
