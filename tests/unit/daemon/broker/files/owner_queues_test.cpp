// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/owner_queues.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "daemon/broker/files/process_owner.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

MappedAt mapped_at(std::uint64_t inode, std::uint32_t pid = 7) {
  return {.pid = pid, .file = {.major = 8, .minor = 1, .inode = inode}, .name = "/bin/x"};
}

class Queues : public testing::Test {
 protected:
  // Lets each task take `cost` for a time; returns how many tasks each user had.
  std::map<uid_t, int> run_for(std::chrono::milliseconds time, std::chrono::milliseconds cost) {
    std::map<uid_t, int> tasks;
    for (const auto until = now_ + time; now_ < until;) {
      const auto task = queues_.take([](const MappedAt&, uid_t) { return false; }, now_);
      if (!task) {
        now_ += 1ms;
        continue;
      }
      ++tasks[task->owner];
      now_ += cost;
      queues_.note_used(task->owner, cost, now_);
    }
    return tasks;
  }
  void fill(uid_t owner) {
    for (std::uint64_t i = 0; queues_.add(owner, mapped_at(i)); ++i) ASSERT_LE(i, OwnerQueues::kMaxQueued);
  }
  std::vector<std::uint64_t> next_inodes() {
    std::vector<std::uint64_t> out;
    if (const auto task = queues_.take(free_, now_))
      for (const MappedAt& one : task->files) out.push_back(one.file.inode);
    return out;
  }
  const OwnerQueues::IsBusy free_ = [](const MappedAt&, uid_t) { return false; };
  OwnerQueues::Time now_{1000s};
  OwnerQueues queues_;
};

TEST_F(Queues, AUserOtherThanRootHasAQuarterOfACpu) {
  for (const uid_t owner : {uid_t{1000}, kEndedOwner}) {
    fill(owner);
    const auto tasks = run_for(40s, 200ms);
    EXPECT_GE(tasks.at(owner), 49);
    EXPECT_LE(tasks.at(owner), 52) << "a quarter, and what was granted in advance";
    now_ += 60s;
    while (queues_.take([](const MappedAt&, uid_t) { return false; }, now_)) {
    }
  }
}

TEST_F(Queues, RootIsNotKeptWaiting) {
  for (std::uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(queues_.add(0, mapped_at(i)));
  fill(1000);
  const auto tasks = run_for(10s, 100ms);
  EXPECT_GE(tasks.at(0), 70);
  EXPECT_GE(tasks.at(1000), 24);
  EXPECT_LE(tasks.at(1000), 27);
}

// A process that has mapped a file may end soon, and with it the way to its file.
TEST_F(Queues, NamesAreLookedAtAfterTheFiles) {
  MappedAt name = mapped_at(1);
  name.by_name = true;
  const auto next = [&] {
    const auto task = queues_.take([](const MappedAt&, uid_t) { return false; }, now_);
    return task ? task->files.front() : MappedAt{};
  };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queues_.add(0, name));
  ASSERT_TRUE(queues_.add(0, mapped_at(2)));
  ASSERT_TRUE(queues_.add(0, mapped_at(3, 8)));
  EXPECT_EQ(next().file.inode, 3U) << "the newest";
  EXPECT_EQ(next().file.inode, 2U);
  EXPECT_TRUE(next().by_name);
  ASSERT_TRUE(queues_.add(0, mapped_at(4)));
  EXPECT_EQ(next().file.inode, 4U);
  int names = 0;
  while (next().by_name) ++names;
  EXPECT_GT(names, 0);
  EXPECT_TRUE(queues_.empty());
}

TEST_F(Queues, WhoIsKeptWaitingIsKnown) {
  EXPECT_TRUE(queues_.all_wait(now_));
  ASSERT_TRUE(queues_.add(1000, mapped_at(1)));
  EXPECT_FALSE(queues_.all_wait(now_));
  queues_.note_used(1000, 10s, now_);
  EXPECT_TRUE(queues_.all_wait(now_));
  ASSERT_TRUE(queues_.add(0, mapped_at(1)));
  EXPECT_FALSE(queues_.all_wait(now_));
}

TEST_F(Queues, AFewFilesAreReadWithoutAPause) {
  for (std::uint64_t i = 0; i < 10 * OwnerQueues::kMaxOfTask; ++i) ASSERT_TRUE(queues_.add(1000, mapped_at(i)));
  EXPECT_EQ(run_for(100ms, 10ms).at(1000), 10);
  EXPECT_TRUE(queues_.empty());
}

TEST_F(Queues, WhenAUserGoesOn) {
  EXPECT_FALSE(queues_.goes_on(now_));
  ASSERT_TRUE(queues_.add(1000, mapped_at(1)));
  EXPECT_FALSE(queues_.goes_on(now_)) << "now";
  queues_.note_used(1000, 200ms, now_);
  const auto goes_on = queues_.goes_on(now_);
  ASSERT_TRUE(goes_on);
  EXPECT_EQ(*goes_on, now_ + 3 * 200ms - OwnerQueues::kAhead);
  const auto free = [](const MappedAt&, uid_t) { return false; };
  EXPECT_FALSE(queues_.take(free, *goes_on - 1ms));
  EXPECT_FALSE(queues_.goes_on(*goes_on));
  EXPECT_TRUE(queues_.take(free, *goes_on));
}

TEST_F(Queues, ATaskIsOfOneProcessAndOneDisk) {
  MappedAt other_disk = mapped_at(3), name = mapped_at(4);
  other_disk.file.minor = 2;
  name.by_name = true;
  for (const MappedAt& one : {mapped_at(1), other_disk, mapped_at(2, 8), name, mapped_at(5)})
    ASSERT_TRUE(queues_.add(0, one));
  std::vector<std::vector<std::uint64_t>> tasks;
  while (const auto task = queues_.take([](const MappedAt&, uid_t) { return false; }, now_)) {
    auto& inodes = tasks.emplace_back();
    for (const MappedAt& one : task->files) inodes.push_back(one.file.inode);
  }
  EXPECT_EQ(tasks, (std::vector<std::vector<std::uint64_t>>{{1, 5}, {2}, {3}, {4}}));
}

// A snapshot is about the present, however many files wait.
TEST_F(Queues, TheNewestComeFirst) {
  for (std::uint64_t i = 1; i <= 1000; ++i) ASSERT_TRUE(queues_.add(1000, mapped_at(i, static_cast<std::uint32_t>(i))));
  EXPECT_EQ(next_inodes(), std::vector<std::uint64_t>{1000});
  ASSERT_TRUE(queues_.add(1000, mapped_at(2000, 990)));
  EXPECT_EQ(next_inodes(), (std::vector<std::uint64_t>{990, 2000})) << "and what is of the same process";
  EXPECT_EQ(next_inodes(), std::vector<std::uint64_t>{999});
}

// A process that maps new files for ever does not keep the libraries of its others from being looked at.
TEST_F(Queues, NewFilesAndKnownOnesTakeTurns) {
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(queues_.add(0, mapped_at(i, static_cast<std::uint32_t>(i))));
  for (std::uint64_t i = 11; i <= 13; ++i)
    ASSERT_TRUE(queues_.add(0, mapped_at(i, static_cast<std::uint32_t>(i)), true));
  std::vector<std::uint64_t> order;
  while (!queues_.empty()) order.push_back(next_inodes().at(0));
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 13, 2, 12, 1, 11}));
}

TEST_F(Queues, WhatRunsComesBeforeWhatHasEnded) {
  OwnerQueues queues(nullptr, [](std::uint32_t pid) { return pid < 100; });
  ASSERT_TRUE(queues.add(0, mapped_at(1, 1)));
  for (std::uint32_t pid = 100; pid < 400; ++pid) ASSERT_TRUE(queues.add(0, mapped_at(pid, pid)));
  ASSERT_TRUE(queues.add(0, mapped_at(2, 2), true));
  std::vector<std::uint64_t> order;
  while (const auto task = queues.take(free_, now_)) order.push_back(task->files.front().file.inode);
  ASSERT_EQ(order.size(), 302U);
  EXPECT_EQ(order[0], 1U) << "behind 300 of programs that have ended";
  EXPECT_EQ(order[1], 2U);
  EXPECT_EQ(order[2], 399U) << "of these, too, the newest come first";
  EXPECT_EQ(order.back(), 100U);
}

TEST_F(Queues, TheOldestAreDroppedForNewOnes) {
  fill(1000);
  const auto dropped = queues_.drop_oldest(1000, 6);
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->owner, 1000U);
  EXPECT_EQ(dropped->files.at(0).file.inode, 0U);
  EXPECT_TRUE(queues_.add(1000, mapped_at(5000)));
  EXPECT_FALSE(queues_.add(1000, mapped_at(5001)));
  // When there is no space at all, it is the user with the most who loses one.
  for (std::uint64_t i = 0; queues_.add(0, mapped_at(i)); ++i) ASSERT_LE(i, OwnerQueues::kMaxQueued);
  EXPECT_FALSE(queues_.has_space(1001, mapped_at(1)));
  const auto of_most = queues_.drop_oldest(1001, 6);
  ASSERT_TRUE(of_most);
  EXPECT_EQ(of_most->owner, 0U);
  EXPECT_TRUE(queues_.add(1001, mapped_at(1)));
  EXPECT_FALSE(OwnerQueues().drop_oldest(0, 6)) << "there is none";
}

// His names are long, so that their bytes and not their number are the limit.
TEST_F(Queues, AUserWithLongNamesDropsOnlyHisOwn) {
  MappedAt with_long_name = mapped_at(1);
  with_long_name.name = std::string(4000, 'x');
  const std::size_t bytes = with_long_name.name.size();
  std::size_t his = 0;
  for (; queues_.add(1000, with_long_name); ++his) ASSERT_LE(his, OwnerQueues::kMaxQueued);
  ASSERT_LT(his, OwnerQueues::kMaxQueued / 8);
  std::size_t roots = 0;
  for (; roots < OwnerQueues::kMaxQueued / 2; ++roots) ASSERT_TRUE(queues_.add(0, mapped_at(roots)));
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(queues_.has_space(1000, with_long_name));
    const auto dropped = queues_.drop_oldest(1000, bytes);
    ASSERT_TRUE(dropped);
    ASSERT_EQ(dropped->owner, 1000U);
    ASSERT_TRUE(queues_.add(1000, with_long_name)) << "one is enough";
  }
  EXPECT_FALSE(queues_.drop_oldest(1001, bytes)) << "there is space for another one's";
  std::map<uid_t, std::size_t> left;
  while (const auto task = queues_.take(free_, now_)) left[task->owner] += task->files.size();
  EXPECT_EQ(left, (std::map<uid_t, std::size_t>{{0, roots}, {1000, his}}));
}

// The answer must list the names that are not checked, however many files wait.
TEST_F(Queues, NamesToBeCheckedHaveALimitOfTheirOwn) {
  fill(1000);
  for (std::uint64_t i = 0; queues_.add(0, mapped_at(i)); ++i) ASSERT_LE(i, OwnerQueues::kMaxQueued);
  MappedAt name = mapped_at(1);
  name.by_name = true;
  for (const uid_t owner : {uid_t{0}, uid_t{1000}, uid_t{1001}}) {
    std::size_t names = 0;
    while (queues_.add(owner, name) && names < 2 * OwnerQueues::kMaxNames) ++names;
    EXPECT_EQ(names, OwnerQueues::kMaxNames) << owner;
  }
  for (const uid_t owner : {uid_t{0}, uid_t{1000}}) {
    while (const auto dropped = queues_.drop_oldest(owner, OwnerQueues::kMaxQueuedBytes)) {
      ASSERT_FALSE(dropped->files.at(0).by_name);
    }
  }
  std::size_t left = 0;
  while (const auto task = queues_.take(free_, now_)) {
    ASSERT_TRUE(task->files.at(0).by_name);
    left += task->files.size();
  }
  EXPECT_EQ(left, 3 * OwnerQueues::kMaxNames);
  EXPECT_TRUE(queues_.empty());
}

class HeldQueues : public Queues {
 protected:
  std::size_t waiting(bool of_asked) {
    std::size_t count = 0;
    held_.each(now_, of_asked, [&](const MappedAt&, bool is_held) { count += is_held ? 1 : 0; });
    return count;
  }
  ReadShare share_;
  OwnerQueues held_{&share_};
};

TEST_F(HeldQueues, AUserWithoutAShareKeepsNobodyWaiting) {
  share_.charge(1000, 10s, now_);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(held_.add(1000, mapped_at(i)));
  EXPECT_FALSE(held_.take(free_, now_));
  EXPECT_TRUE(held_.all_wait(now_));
  EXPECT_TRUE(held_.all_wait(now_, true)) << "no client waits for him";
  EXPECT_EQ(waiting(false), 100U);
  EXPECT_EQ(waiting(true), 100U);
  ASSERT_TRUE(held_.add(0, mapped_at(1)));
  ASSERT_TRUE(held_.add(1001, mapped_at(2)));
  EXPECT_FALSE(held_.all_wait(now_));
  std::map<uid_t, int> tasks;
  while (const auto task = held_.take(free_, now_)) ++tasks[task->owner];
  EXPECT_EQ(tasks, (std::map<uid_t, int>{{0, 1}, {1001, 1}}));
  const auto goes_on = held_.goes_on(now_);
  ASSERT_TRUE(goes_on);
  EXPECT_GE(*goes_on, now_ + 700s) << "7 s of a CPU";
  EXPECT_TRUE(held_.take(free_, *goes_on));
}

// A quarter of a CPU is not the share over time.
TEST_F(HeldQueues, AUserWhoGoesOnInAMomentIsNotHeld) {
  ASSERT_TRUE(held_.add(1000, mapped_at(1)));
  held_.note_used(1000, 200ms, now_);
  EXPECT_TRUE(held_.all_wait(now_));
  EXPECT_EQ(waiting(false), 0U);
  ASSERT_TRUE(held_.pace_ends(now_));
  EXPECT_EQ(held_.goes_on(now_), held_.pace_ends(now_));
  share_.charge(1001, 10s, now_);
  ASSERT_TRUE(held_.add(1001, mapped_at(2)));
  EXPECT_EQ(waiting(false), 1U);
  now_ = *held_.pace_ends(now_);
  EXPECT_FALSE(held_.pace_ends(now_)) << "the other one only waits for his share";
  EXPECT_TRUE(held_.goes_on(now_));
}

// They are looked at when a snapshot needs it, for which a part is kept.
TEST_F(HeldQueues, KnownFilesLeaveAPartToNewOnesAndToSnapshots) {
  share_.charge(0, ReadShare::kOfUser / 2, now_);
  ASSERT_TRUE(held_.add(0, mapped_at(1), true));
  EXPECT_FALSE(held_.take(free_, now_));
  EXPECT_TRUE(held_.all_wait(now_));
  EXPECT_EQ(waiting(false), 1U);
  EXPECT_FALSE(held_.all_wait(now_, true)) << "a client waits, and it may be read";
  EXPECT_EQ(waiting(true), 0U);
  ASSERT_TRUE(held_.add(0, mapped_at(2)));
  const auto fresh = held_.take(free_, now_);
  ASSERT_TRUE(fresh);
  EXPECT_EQ(fresh->files.at(0).file.inode, 2U);
  share_.charge(0, ReadShare::kOfUser / 4, now_);
  ASSERT_TRUE(held_.add(0, mapped_at(3)));
  EXPECT_FALSE(held_.take(free_, now_));
  EXPECT_TRUE(held_.take(free_, now_, true));
  EXPECT_TRUE(held_.take(free_, now_, true));
  EXPECT_TRUE(held_.empty());
}

}  // namespace
}  // namespace flight::broker
