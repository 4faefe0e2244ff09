// SPDX-License-Identifier: Apache-2.0
// The budget of a real directory: a clock that jumps, a file system without inodes.
#include "daemon/store/budget.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {
namespace {

using std::chrono::hours;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr WallTime kDay = hours(24);

class Budget : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-budget-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(folder_);
  }
  void make(std::uint64_t seq, WallTime time) const {
    const SnapshotName name{.host = "box", .time = time, .trigger = "spike", .seq = seq};
    std::ofstream(folder_ + "/" + name.data_file()) << "data";
    std::ofstream(folder_ + "/" + name.sidecar_file()) << "{}";
  }
  [[nodiscard]] StoreBudget budget(const StoreConfig& config) const {
    return {folder_, config, [] { return false; }, [this] { return clock_; }};
  }

  std::string folder_;
  StoreClock clock_{.now = wall_now(), .since_boot = 10 * kDay, .synchronised = true};
  bool mounted_ = false;
};

TEST_F(Budget, ADoubtfulClockDeletesNothingByAge) {
  // By the clock they are 40 days old or more, because it jumped.
  for (std::uint64_t seq = 1; seq <= 4; ++seq) make(seq, wall_now() - (50 - seq) * kDay);
  StoreConfig config;
  config.max_age = hours(24 * 30);
  config.keep_first = config.keep_last = 0;
  StoreBudget budget = this->budget(config);
  clock_.record.ahead = ClockRecord::Ahead{.at = clock_.since_boot - hours(2), .by = 40 * kDay};
  EXPECT_THAT(budget.vacuum({.dry_run = true}).removed, IsEmpty());
  EXPECT_THAT(budget.vacuum({}).removed, IsEmpty());
  EXPECT_THAT(
      budget.warnings(),
      ElementsAre(AllOf(HasSubstr("3 snapshots"), HasSubstr("max_age"), HasSubstr("are kept for another 22.0 h"),
                        HasSubstr("until " + to_rfc3339(clock_.now + hours(22))),
                        HasSubstr("the clock ran ahead by 40.0 d, 2.0 h ago"), HasSubstr("flightctl vacuum"))));
  // Other limits still apply.
  config.max_files = 3;
  budget.use(config);
  const auto outcome = budget.vacuum({});
  ASSERT_EQ(outcome.removed.size(), 1U);
  EXPECT_EQ(outcome.removed[0].id, "1");
  EXPECT_EQ(outcome.removed[0].reason, VacuumReason::max_files);
  EXPECT_THAT(budget.warnings(), ElementsAre(HasSubstr("2 snapshots")));
  // A day after the jump it goes on, and the newest stays.
  clock_.since_boot += hours(22);
  EXPECT_EQ(budget.vacuum({}).removed.size(), 2U);
  EXPECT_THAT(budget.warnings(), IsEmpty());
}

TEST_F(Budget, APartOfARecordingGetsSpaceButNotThatOfTheOthers) {
  for (std::uint64_t seq = 1; seq <= 4; ++seq) make(seq, wall_now() - (50 - seq) * std::chrono::minutes(1));
  StoreConfig config;
  config.max_files = 3;
  config.keep_first = config.keep_last = 0;
  StoreBudget budget(
      folder_, config, [] { return false; }, [this] { return clock_; }, [](std::uint64_t seq) { return seq <= 2; });
  const auto room = budget.make_part_room(4096);
  ASSERT_TRUE(room) << room.error().what;
  EXPECT_EQ(room->limits.max_files, 3U);
  EXPECT_GT(room->limits.max_use_bytes, 0U);
  ASSERT_EQ(room->outcome.removed.size(), 1U) << "the newest one could be the last";
  EXPECT_EQ(room->outcome.removed[0].id, "3");
}

// A part may use the rest of max_use: less the pinned snapshots, and less the parts that are being written.
TEST_F(Budget, APartGetsWhatTheOthersLeave) {
  make(1, wall_now());
  const std::string stem = SnapshotName{.host = "box", .time = wall_now(), .trigger = "spike", .seq = 2}.stem();
  std::ofstream(folder_ + "/" + stem + std::string(kDataSuffix)) << std::string(5U << 20U, 'x');
  std::ofstream(folder_ + "/" + stem + std::string(kPinSuffix)) << "";
  for (const std::uint64_t seq : {8U, 9U})
    std::ofstream(folder_ + "/" + part_file(PartFileKind::data, seq)) << std::string(2U << 20U, 'x');
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 10U << 20U};
  config.keep_free = SizeOrShare{.bytes = 0};
  StoreBudget budget(
      folder_, config, [] { return false; }, [this] { return clock_; }, [](std::uint64_t seq) { return seq == 9; });
  const auto room = budget.make_part_room(1U << 20U);
  ASSERT_TRUE(room) << room.error().what;
  EXPECT_LE(room->left_bytes, 3U << 20U) << "of 10 MiB the pinned one has 5, and the other recording 2";
  EXPECT_GT(room->left_bytes, 2U << 20U) << "8 is not a part of a recording that runs";
}

// As before a snapshot: the store is over its budget, and the status says so.
TEST_F(Budget, ASnapshotThatCannotBeDeletedRefusesNoPart) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  for (std::uint64_t seq = 1; seq <= 3; ++seq) make(seq, wall_now());
  std::string stuck;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().string().ends_with("-1.perf.data")) stuck = entry.path().string();
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "data";
  ASSERT_EQ(::mount(other.c_str(), stuck.c_str(), nullptr, MS_BIND, nullptr), 0);  // unlink(2): EBUSY
  StoreConfig config;
  config.max_files = 1;
  config.keep_first = config.keep_last = 0;
  StoreBudget budget = this->budget(config);
  const auto room = budget.make_part_room(4096);
  EXPECT_EQ(::umount2(stuck.c_str(), MNT_DETACH), 0);
  ASSERT_TRUE(room) << room.error().what;
  ASSERT_TRUE(room->outcome.error) << "it is logged";
  EXPECT_EQ(room->outcome.error->errno_value(), EBUSY);
  EXPECT_GT(room->left_bytes, 0U);
}

// A user made it immutable, or put a file of his own into a data directory. In an earlier version it was the oldest in
// each plan: nothing else was deleted, and no snapshot was written any more.
TEST_F(Budget, OneThatCannotBeDeletedDoesNotTakeThePlaceOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  for (std::uint64_t seq = 1; seq <= 6; ++seq) make(seq, wall_now() - hours(7 - seq));
  std::string stuck;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().string().ends_with("-1.perf.data")) stuck = entry.path().string();
  ASSERT_TRUE(std::filesystem::remove(stuck));
  ASSERT_TRUE(std::filesystem::create_directory(stuck));
  std::ofstream(stuck + "/data") << "data";
  std::ofstream(stuck + "/notes.txt") << "why it stopped";
  StoreConfig config;
  config.keep_free = SizeOrShare{.bytes = 0};
  config.keep_first = config.keep_last = 0;
  StoreBudget budget = this->budget(config);
  constexpr std::uint64_t kEach = 8192;  // a page for each of its two files
  const auto room = budget.make_more_room("spike", 2 * kEach);
  ASSERT_EQ(room.removed.size(), 2U) << "no more than is needed";
  EXPECT_EQ(room.removed[0].id, "2");
  EXPECT_EQ(room.removed[1].id, "3");
  EXPECT_EQ(room.freed_bytes, 2 * kEach);
  ASSERT_TRUE(room.error) << "it is logged";
  EXPECT_EQ(room.error->errno_value(), ENOTEMPTY);
  EXPECT_TRUE(std::filesystem::exists(stuck + "/data"));
  // The other limits hold, too: it counts, and stays.
  config.max_files = 3;
  budget.use(config);
  const auto outcome = budget.vacuum({});
  ASSERT_EQ(outcome.removed.size(), 1U);
  EXPECT_EQ(outcome.removed[0].id, "4");
}

// No snapshot is deleted for the space that the previous part has used.
TEST_F(Budget, TheNextPartNeedsSpaceForItselfOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  make(1, wall_now());
  const std::string stem = SnapshotName{.host = "box", .time = wall_now(), .trigger = "spike", .seq = 2}.stem();
  std::ofstream(folder_ + "/" + stem + std::string(kDataSuffix)) << std::string(4U << 20U, 'x');
  make(3, wall_now());
  std::ofstream(folder_ + "/" + part_file(PartFileKind::data, 9)) << std::string(4U << 20U, 'x');
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 1U << 30U};
  config.keep_free = SizeOrShare{.bytes = 0};
  config.keep_first = config.keep_last = 0;
  StoreBudget budget(
      folder_, config, [] { return false; }, [this] { return clock_; }, [](std::uint64_t seq) { return seq == 9; });
  const auto room = budget.make_part_room(6U << 20U);
  ASSERT_TRUE(room) << room.error().what;
  EXPECT_THAT(room->outcome.removed, IsEmpty()) << "8 MiB are free";
}

TEST_F(Budget, APartLeavesKeepFreeOrHalfOfWhatWasFree) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 1U << 30U};
  config.keep_free = SizeOrShare{.bytes = 6U << 20U};
  StoreBudget budget = this->budget(config);
  const auto first = budget.make_part_room(1U << 20U);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_EQ(first->left_bytes, first->free_bytes - (6U << 20U));
  std::ofstream(folder_ + "/other") << std::string(8U << 20U, 'x');
  const auto less = budget.make_part_room(1U << 20U, first->free_bytes);
  ASSERT_TRUE(less) << less.error().what;
  EXPECT_EQ(less->left_bytes, less->free_bytes - (6U << 20U));
  // It began when there was less than keep_free and as much again.
  const auto late = budget.make_part_room(1U << 20U, 8U << 20U);
  ASSERT_TRUE(late) << late.error().what;
  EXPECT_EQ(late->left_bytes, late->free_bytes - (4U << 20U));
}

TEST_F(Budget, InTheFirstHourOfABootTheOtherLimitsApply) {
  for (std::uint64_t seq = 1; seq <= 4; ++seq) make(seq, wall_now() - (50 - seq) * kDay);
  clock_.since_boot = std::chrono::minutes(15);
  StoreConfig config;
  config.max_age = hours(24 * 30);
  config.max_files = 3;
  config.keep_first = config.keep_last = 0;
  StoreBudget budget = this->budget(config);
  const auto outcome = budget.vacuum({});
  ASSERT_EQ(outcome.removed.size(), 1U) << "max_files";
  EXPECT_EQ(outcome.removed[0].reason, VacuumReason::max_files);
  EXPECT_THAT(budget.warnings(), ElementsAre(AllOf(HasSubstr("2 snapshots"), HasSubstr("for another 45 min"),
                                                   HasSubstr("the machine started 15 min ago"))));
  const auto room = budget.make_room("spike", 1);
  ASSERT_TRUE(room) << room.error().what;
  ASSERT_EQ(room->removed.size(), 1U) << "the fourth of three";
  EXPECT_EQ(room->removed[0].reason, VacuumReason::max_files);
}

TEST_F(Budget, AUserDeletesByAgeWhateverTheClockIs) {
  for (std::uint64_t seq = 1; seq <= 4; ++seq) make(seq, wall_now() - (50 - seq) * kDay);
  StoreConfig config;
  config.max_age = hours(24 * 30);
  StoreBudget budget = this->budget(config);
  clock_.record.ahead = ClockRecord::Ahead{.at = clock_.since_boot - hours(2), .by = 40 * kDay};
  EXPECT_THAT(budget.vacuum({}).removed, IsEmpty());
  const auto foretold = budget.vacuum({.dry_run = true, .by_hand = true});
  EXPECT_EQ(foretold.removed.size(), 3U);
  EXPECT_THAT(foretold.warnings, ElementsAre(AllOf(HasSubstr("would be deleted because you ask"),
                                                   HasSubstr("for another 22.0 h"), HasSubstr("the clock ran ahead"))));
  EXPECT_THAT(budget.warnings(), ElementsAre(HasSubstr("are kept"))) << "nothing changed";
  const auto done = budget.vacuum({.by_hand = true});
  EXPECT_EQ(done.removed.size(), 3U);
  EXPECT_EQ(done.removed[0].reason, VacuumReason::max_age);
  EXPECT_THAT(done.warnings,
              ElementsAre(AllOf(HasSubstr("were deleted because you ask"), HasSubstr("for another 22.0 h"),
                                HasSubstr("the clock ran ahead by 40.0 d"))));
  EXPECT_THAT(budget.warnings(), IsEmpty()) << "nothing is kept any more";
}

// In an earlier version a budget below the size of the kernel's symbols deleted all snapshots but the newest.
TEST_F(Budget, SymbolsPushNoSnapshotOut) {
  for (std::uint64_t seq = 1; seq <= 4; ++seq) make(seq, wall_now() - hours(5 - seq));
  std::ofstream(folder_ + "/" + kallsyms_file("0f7c", "0123456789abcdef")) << std::string(2U << 20U, 'k');
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 1U << 20U};
  config.keep_free = SizeOrShare{.bytes = 0};
  EXPECT_THAT(this->budget(config).vacuum({}).removed, IsEmpty());
}

// Only if the store exceeds max_use is it asked which snapshot needs which symbols: that may read all sidecars.
TEST_F(Budget, SymbolsCountForMaxUse) {
  for (std::uint64_t seq = 1; seq <= 4; ++seq) make(seq, wall_now() - hours(5 - seq));
  std::ofstream(folder_ + "/" + kallsyms_file("0f7c", "0123456789abcdef")) << std::string(2U << 20U, 'k');
  std::ofstream(folder_ + "/" + kallsyms_file("1f7c", "0123456789abcdef")) << std::string(1U << 20U, 'k');
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 4U << 20U};
  config.keep_free = SizeOrShare{.bytes = 0};
  config.keep_first = config.keep_last = 0;
  int asked = 0;
  StoreBudget budget(
      folder_, config, [] { return false; }, [this] { return clock_; }, {}, "",
      [&](Inventory& inventory) {
        ++asked;
        ASSERT_EQ(inventory.symbols.size(), 2U);
        const std::size_t old = inventory.symbols[0].starts_with("kallsyms-0f7c") ? 0 : 1;
        for (StoredSnapshot& one : inventory.snapshots) one.symbols = one.seq <= 2 ? old : 1 - old;
      });
  EXPECT_THAT(budget.vacuum({}).removed, IsEmpty());
  EXPECT_EQ(asked, 0);
  config.max_use = SizeOrShare{.bytes = 2U << 20U};
  budget.use(config);
  const VacuumOutcome outcome = budget.vacuum({});
  ASSERT_EQ(outcome.removed.size(), 2U) << "with the second one their symbols go, and the rest fits";
  EXPECT_EQ(outcome.removed[1].id, "2");
  EXPECT_EQ(outcome.removed[1].reason, VacuumReason::max_use);
  EXPECT_GE(asked, 1);
}

// A quota: statvfs(3) reports space, and a write fails.
TEST_F(Budget, WhatFailedForWantOfSpaceGetsItsRoomOrNothingGoes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  for (std::uint64_t seq = 1; seq <= 10; ++seq) make(seq, wall_now() - hours(11 - seq));
  StoreConfig config;
  config.keep_free = SizeOrShare{.bytes = 0};
  config.keep_first = config.keep_last = 0;
  StoreBudget budget = this->budget(config);
  constexpr std::uint64_t kEach = 8192;  // a page for each of its two files
  EXPECT_THAT(budget.make_more_room("spike", 9 * kEach + 1).removed, IsEmpty()) << "the newest stays: it is not enough";
  const auto room = budget.make_more_room("spike", 2 * kEach + 1);
  ASSERT_EQ(room.removed.size(), 3U) << "no more than is needed";
  EXPECT_EQ(room.removed[0].id, "1");
  EXPECT_EQ(room.removed[2].reason, VacuumReason::room);
  EXPECT_EQ(budget.make_more_room("spike", 0).removed.size(), 2U) << "for one of the usual size, and a quarter more";
}

// Files that are open, or in a snapshot of the file system's own. In an earlier version each attempt deleted some more,
// and nothing said so.
TEST_F(Budget, RoomThatDoesNotBecomeFreeIsSaid) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  std::vector<UniqueFd> held;
  for (std::uint64_t seq = 1; seq <= 6; ++seq) {
    make(seq, wall_now() - hours(7 - seq));
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().string().ends_with(fmt::format("-{}.perf.data", seq))) {
        std::ofstream(entry.path()) << std::string(1U << 20U, 'x');
        held.emplace_back(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      }
  }
  std::ofstream(folder_ + "/other") << std::string(16U << 20U, 'x');
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 1U << 30U};
  config.keep_free = SizeOrShare{.bytes = 0};
  StoreBudget budget = this->budget(config);
  const auto room = budget.make_room("spike", 4U << 20U);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().errno_value(), ENOSPC);
  EXPECT_THAT(room.error().what, HasSubstr("deleting other snapshots did not help"));
  const auto deleted = budget.take_deleted();
  ASSERT_EQ(deleted.removed.size(), 2U) << "they are logged";
  EXPECT_EQ(deleted.removed[0].reason, VacuumReason::room);
  EXPECT_THAT(budget.take_deleted().removed, IsEmpty());
  const auto again = budget.make_room("spike", 4U << 20U, /*in_vain=*/true);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().what, HasSubstr("deleting other snapshots did not help"));
  EXPECT_THAT(budget.take_deleted().removed, IsEmpty());
}

// As many of FUSE. In an earlier version such a disk was full: no snapshot was written. And without blocks of its files
// the store had no limit.
TEST_F(Budget, AFileSystemThatReportsNoSizesIsNotFull) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "ramfs", 0, nullptr), 0);
  mounted_ = true;
  const auto space = space_of(folder_);
  ASSERT_TRUE(space);
  ASSERT_EQ(space->total_bytes, 0U);
  StoreConfig config;
  EXPECT_EQ(limits_of(config, 0).max_use_bytes, 4ULL << 30U);
  EXPECT_EQ(limits_of(config, 0).keep_free_bytes, 0U);
  config.max_use = SizeOrShare{.bytes = 0, .percent = 5};
  EXPECT_EQ(limits_of(config, 0).max_use_bytes, 4ULL << 30U);
  config.max_use = SizeOrShare{.bytes = 3U << 20U};
  config.keep_first = config.keep_last = 0;
  EXPECT_EQ(limits_of(config, 0).max_use_bytes, 3U << 20U);
  for (std::uint64_t seq = 1; seq <= 4; ++seq) {
    const SnapshotName name{.host = "box", .time = wall_now(), .trigger = "spike", .seq = seq};
    std::ofstream(folder_ + "/" + name.data_file()) << std::string(1U << 20U, 'x');
  }
  StoreBudget budget = this->budget(config);
  const auto room = budget.make_room("spike", 1U << 20U);
  ASSERT_TRUE(room) << room.error().what;
  ASSERT_EQ(room->removed.size(), 3U) << "beside the next one, of 1.25 MiB, 3 MiB hold one";
  EXPECT_EQ(room->removed[0].reason, VacuumReason::max_use);
  const auto part = budget.make_part_room(1U << 20U);
  ASSERT_TRUE(part) << part.error().what;
  EXPECT_EQ(part->left_bytes, 2U << 20U) << "of max_use";
}

// As before each snapshot: a vacuum, and then the snapshot uses what it freed.
TEST_F(Budget, KeepFreeGoesOnWhileOnlyTheStoreWrites) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  constexpr std::uint64_t kMebi = 1U << 20U;
  std::uint64_t seq = 0;
  const auto write = [&] {
    const SnapshotName name{.host = "box", .time = wall_now(), .trigger = "spike", .seq = ++seq};
    std::ofstream(folder_ + "/" + name.data_file()) << std::string(kMebi, 'x');
    std::ofstream(folder_ + "/" + name.sidecar_file()) << "{}";
  };
  while (seq < 10) write();
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 64 * kMebi};
  config.keep_free = SizeOrShare{.bytes = 6 * kMebi};
  config.keep_first = config.keep_last = 0;
  StoreBudget budget = this->budget(config);
  const IncomingSnapshot next{.trigger = "spike", .disk_bytes = kMebi + 8192};
  KeepFreeWatch::Time at = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i, at += std::chrono::seconds(61)) {
    const auto outcome = budget.vacuum({.incoming = next, .now = at});
    ASSERT_FALSE(outcome.removed.empty()) << i;
    EXPECT_EQ(outcome.removed[0].reason, VacuumReason::keep_free);
    write();
  }
  EXPECT_THAT(budget.vacuum({.now = at}).removed, IsEmpty());
  EXPECT_THAT(budget.warnings(), IsEmpty());
  // Others take what is freed.
  ASSERT_FALSE(budget.vacuum({.incoming = next, .now = at}).removed.empty());
  std::ofstream(folder_ + "/others") << std::string(2 * kMebi, 'x');
  at += std::chrono::seconds(61);
  EXPECT_THAT(budget.vacuum({.dry_run = true, .now = at}).removed, testing::Not(IsEmpty())) << "not judged yet";
  EXPECT_THAT(budget.vacuum({.now = at}).removed, IsEmpty());
  EXPECT_THAT(budget.warnings(),
              ElementsAre(testing::MatchesRegex("keep_free 6.0M cannot be reached: [0-9.]+M free, others use [0-9.]+M, "
                                                "the store [0-9.]+M. No snapshot is deleted for it: .*")));
  EXPECT_THAT(budget.vacuum({.dry_run = true, .now = at}).removed, IsEmpty()) << "as the next one";
}

// The parts that are being written are no snapshots yet, and not the files of others either.
TEST_F(Budget, KeepFreeGoesOnWhileARecordingWrites) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  constexpr std::uint64_t kMebi = 1U << 20U;
  for (std::uint64_t seq = 1; seq <= 10; ++seq) {
    const SnapshotName name{.host = "box", .time = wall_now(), .trigger = "spike", .seq = seq};
    std::ofstream(folder_ + "/" + name.data_file()) << std::string(kMebi, 'x');
    std::ofstream(folder_ + "/" + name.sidecar_file()) << "{}";
  }
  StoreConfig config;
  config.max_use = SizeOrShare{.bytes = 64 * kMebi};
  config.keep_free = SizeOrShare{.bytes = 6 * kMebi};
  config.keep_first = config.keep_last = 0;
  StoreBudget budget(
      folder_, config, [] { return false; }, [this] { return clock_; }, [](std::uint64_t seq) { return seq == 11; });
  const IncomingSnapshot next{.trigger = "record", .disk_bytes = kMebi + 8192};
  KeepFreeWatch::Time at = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i, at += std::chrono::seconds(61)) {
    const auto outcome = budget.vacuum({.incoming = next, .now = at});
    ASSERT_FALSE(outcome.removed.empty()) << i;
    EXPECT_EQ(outcome.removed[0].reason, VacuumReason::keep_free);
    std::ofstream(folder_ + "/" + part_file(PartFileKind::data, 11), std::ios::app) << std::string(kMebi, 'x');
  }
}

// Ten snapshots of 1 MiB on a file system of 16 MiB, and one flightd after the other.
class KeepFreeOverARestart : public Budget {
 protected:
  static constexpr std::uint64_t kMebi = 1U << 20U;
  static constexpr std::uint64_t kPart = 11;  // the number of a recording's part

  void SetUp() override {
    Budget::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
    std::string name = "/tmp/flight-budget-state-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    state_ = name;
    ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
    mounted_ = true;
    for (std::uint64_t seq = 1; seq <= 10; ++seq) append(data_of("spike", seq), kMebi);
    config_.max_use = SizeOrShare{.bytes = 64 * kMebi};
    config_.keep_free = SizeOrShare{.bytes = 7 * kMebi};
    config_.keep_first = config_.keep_last = 0;
  }
  void TearDown() override {
    if (!state_.empty()) std::filesystem::remove_all(state_);
    Budget::TearDown();
  }
  [[nodiscard]] static std::string data_of(const std::string& trigger, std::uint64_t seq) {
    return SnapshotName{.host = "box", .time = wall_now(), .trigger = trigger, .seq = seq}.data_file();
  }
  void append(const std::string& file, std::uint64_t bytes) const {
    std::ofstream(folder_ + "/" + file, std::ios::app) << std::string(bytes, 'x');
  }
  [[nodiscard]] bool is_remembered() const { return std::filesystem::exists(state_ + "/keep-free.state"); }
  // The budget of the next flightd; `in_use`: a part of its recording.
  [[nodiscard]] StoreBudget next_budget(std::uint64_t in_use = 0) const {
    return {folder_,
            config_,
            [] { return false; },
            [this] { return clock_; },
            [in_use](std::uint64_t seq) { return seq == in_use; },
            state_};
  }
  // Others take what is deleted, and more. Then 4 MiB and a page are free; with 1 MiB more, deletions go on.
  void make_it_futile() {
    append("others", kMebi - 4096);
    StoreBudget first = next_budget();
    ASSERT_EQ(first.vacuum({.now = at_}).removed.size(), 2U);
    append("others", 3 * kMebi);
    at_ += std::chrono::seconds(61);
    ASSERT_THAT(first.vacuum({.now = at_}).removed, IsEmpty());
    ASSERT_TRUE(is_remembered());
  }

  std::string state_;
  StoreConfig config_;
  KeepFreeWatch::Time at_ = std::chrono::steady_clock::now();
};

// In an earlier version each restart deleted snapshots once more, for nothing.
TEST_F(KeepFreeOverARestart, NothingMoreIsDeleted) {
  make_it_futile();
  if (HasFatalFailure()) return;
  const auto removed_by_next = [&] {
    StoreBudget budget = next_budget();
    const std::size_t at_once = budget.vacuum({.now = at_}).removed.size();
    at_ += std::chrono::seconds(61);
    return at_once + budget.vacuum({.now = at_}).removed.size();
  };
  EXPECT_EQ(removed_by_next(), 0U);
  EXPECT_EQ(removed_by_next(), 0U);
  std::filesystem::remove(folder_ + "/others");  // more than enough has become free, so it is no longer of use
  EXPECT_EQ(removed_by_next(), 0U);
  EXPECT_FALSE(is_remembered());
}

// The status advises it.
TEST_F(KeepFreeOverARestart, ALowerKeepFreeIsKept) {
  make_it_futile();
  if (HasFatalFailure()) return;
  StoreBudget budget = next_budget();
  EXPECT_THAT(budget.vacuum({.now = at_}).removed, IsEmpty());
  EXPECT_THAT(budget.warnings(), ElementsAre(HasSubstr("lower store.keep_free")));
  config_.keep_free = SizeOrShare{.bytes = 4 * kMebi};
  budget.use(config_);
  EXPECT_THAT(budget.vacuum({.now = at_}).removed, IsEmpty()) << "so much is free";
  EXPECT_THAT(budget.warnings(), IsEmpty());
  EXPECT_FALSE(is_remembered());
  append("others", kMebi);
  EXPECT_EQ(budget.vacuum({.now = at_}).removed.size(), 1U);
}

TEST_F(KeepFreeOverARestart, ARecordingCostsNoSnapshots) {
  make_it_futile();
  if (HasFatalFailure()) return;
  StoreBudget budget = next_budget(kPart);
  const auto first = budget.make_part_room(kMebi);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_THAT(first->outcome.removed, IsEmpty());
  EXPECT_EQ(first->left_bytes, first->free_bytes / 2) << "it found less than keep_free";
  append(part_file(PartFileKind::data, kPart), kMebi + kMebi / 2);
  const auto second = budget.make_part_room(kMebi, first->free_bytes);
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_THAT(second->outcome.removed, IsEmpty());
  EXPECT_LT(second->left_bytes, kMebi) << "the recording ends";
  // The part becomes a snapshot, and no part is in use any more.
  std::filesystem::rename(folder_ + "/" + part_file(PartFileKind::data, kPart),
                          folder_ + "/" + data_of("record", kPart));
  EXPECT_THAT(next_budget().vacuum({.now = at_}).removed, IsEmpty());
}

// flightd was killed while it recorded: its part is not a file of others.
TEST_F(KeepFreeOverARestart, ItGoesOnIfARecordingUsedWhatWasFreed) {
  config_.keep_free = SizeOrShare{.bytes = 6 * kMebi};
  const IncomingSnapshot next{.trigger = "record", .disk_bytes = kMebi + 8192};
  ASSERT_EQ(next_budget(kPart).vacuum({.incoming = next, .now = at_}).removed.size(), 2U);
  ASSERT_TRUE(is_remembered());
  append(part_file(PartFileKind::data, kPart), kMebi + 65536);
  StoreBudget budget = next_budget();
  EXPECT_THAT(budget.vacuum({.now = at_}).removed, IsEmpty()) << "enough is free";
  at_ += std::chrono::seconds(61);
  const auto outcome = budget.vacuum({.incoming = next, .now = at_});
  ASSERT_EQ(outcome.removed.size(), 1U);
  EXPECT_EQ(outcome.removed[0].reason, VacuumReason::keep_free);
}

TEST_F(Budget, AFullInodeTableDeletesTheOldest) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M,nr_inodes=40"), 0);
  mounted_ = true;
  for (std::uint64_t seq = 1; seq <= 10; ++seq) make(seq, wall_now() - hours(11 - seq));
  for (int i = 0; std::ofstream(folder_ + fmt::format("/other-{}", i)); ++i) ASSERT_LT(i, 100);
  ASSERT_EQ(space_of(folder_)->free_inodes, 0U);
  StoreConfig config;
  config.keep_first = config.keep_last = 0;
  StoreBudget budget = this->budget(config);
  const auto room = budget.make_room("spike", 1U << 20U);
  ASSERT_TRUE(room) << room.error().what;
  ASSERT_FALSE(room->removed.empty());
  EXPECT_EQ(room->removed[0].id, "1");
  EXPECT_EQ(room->removed[0].reason, VacuumReason::room);
  EXPECT_GE(space_of(folder_)->free_inodes.value_or(0), kNeededInodes);
  EXPECT_LT(room->removed.size(), 9U) << "no more than is needed";
}

TEST_F(Budget, WithoutInodesTheOldestOfTwoMakesRoom) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M,nr_inodes=20"), 0);
  mounted_ = true;
  for (std::uint64_t seq = 1; seq <= 2; ++seq) make(seq, wall_now() - hours(3 - seq));
  for (int i = 0; std::ofstream(folder_ + fmt::format("/other-{}", i)); ++i) ASSERT_LT(i, 100);
  ASSERT_EQ(space_of(folder_)->free_inodes, 0U);
  const auto room = budget({}).make_room("spike", 1U << 20U);
  ASSERT_TRUE(room) << room.error().what;
  ASSERT_EQ(room->removed.size(), 1U);
  EXPECT_EQ(room->removed[0].id, "1");
  EXPECT_GE(space_of(folder_)->free_inodes.value_or(0), kLeastInodes);
  // The snapshot's two files, and then its number.
  for (int i = 100; std::ofstream(folder_ + fmt::format("/new-{}", i)); ++i) ASSERT_LT(i, 200);
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), 3U);
  // The only one that is left is the newest.
  for (int i = 100; std::ofstream(folder_ + fmt::format("/other-{}", i)); ++i) ASSERT_LT(i, 200);
  const auto refused = budget({}).make_room("spike", 1U << 20U);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what,
              HasSubstr("a snapshot needs 2; all snapshots that may be deleted for it would not"));
}

TEST_F(Budget, WithoutInodesAndWithoutSnapshotsItSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M,nr_inodes=10"), 0);
  mounted_ = true;
  for (int i = 0; std::ofstream(folder_ + fmt::format("/other-{}", i)); ++i) ASSERT_LT(i, 100);
  ASSERT_TRUE(std::filesystem::remove(folder_ + "/other-0"));
  const auto room = budget({}).make_room("spike", 1U << 20U);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().errno_value(), ENOSPC);
  EXPECT_THAT(room.error().what, HasSubstr("its file system has 1 inode free, a snapshot needs 2;"));
}

}  // namespace
}  // namespace flight::daemon
