// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/owner_queues.hpp"

#include <gtest/gtest.h>

#include <map>

#include "daemon/broker/files/process_owner.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

MappedAt at(std::uint64_t inode, std::uint32_t pid = 7) {
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
    for (std::uint64_t i = 0; queues_.add(owner, at(i)); ++i) ASSERT_LE(i, OwnerQueues::kMaxQueued);
  }
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
  for (std::uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(queues_.add(0, at(i)));
  fill(1000);
  const auto tasks = run_for(10s, 100ms);
  EXPECT_GE(tasks.at(0), 70);
  EXPECT_GE(tasks.at(1000), 24);
  EXPECT_LE(tasks.at(1000), 27);
}

// A process that has mapped a file may end soon, and with it the way to its file.
TEST_F(Queues, NamesAreLookedAtAfterTheFiles) {
  MappedAt name = at(1);
  name.by_name = true;
  const auto next = [&] {
    const auto task = queues_.take([](const MappedAt&, uid_t) { return false; }, now_);
    return task ? task->files.front() : MappedAt{};
  };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queues_.add(0, name));
  ASSERT_TRUE(queues_.add(0, at(2)));
  ASSERT_TRUE(queues_.add(0, at(3, 8)));
  EXPECT_EQ(next().file.inode, 2U);
  EXPECT_TRUE(next().by_name == false) << "the other file";
  EXPECT_TRUE(next().by_name);
  ASSERT_TRUE(queues_.add(0, at(4)));
  EXPECT_EQ(next().file.inode, 4U);
  int names = 0;
  while (next().by_name) ++names;
  EXPECT_GT(names, 0);
  EXPECT_TRUE(queues_.empty());
}

TEST_F(Queues, WhoIsKeptWaitingIsKnown) {
  EXPECT_TRUE(queues_.all_wait(now_));
  ASSERT_TRUE(queues_.add(1000, at(1)));
  EXPECT_FALSE(queues_.all_wait(now_));
  queues_.note_used(1000, 10s, now_);
  EXPECT_TRUE(queues_.all_wait(now_));
  ASSERT_TRUE(queues_.add(0, at(1)));
  EXPECT_FALSE(queues_.all_wait(now_));
}

TEST_F(Queues, AFewFilesAreReadWithoutAPause) {
  for (std::uint64_t i = 0; i < 10 * OwnerQueues::kMaxOfTask; ++i) ASSERT_TRUE(queues_.add(1000, at(i)));
  EXPECT_EQ(run_for(100ms, 10ms).at(1000), 10);
  EXPECT_TRUE(queues_.empty());
}

TEST_F(Queues, WhenAUserGoesOn) {
  EXPECT_FALSE(queues_.goes_on(now_));
  ASSERT_TRUE(queues_.add(1000, at(1)));
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
  MappedAt other_disk = at(3), name = at(4);
  other_disk.file.minor = 2;
  name.by_name = true;
  for (const MappedAt& one : {at(1), other_disk, at(2, 8), name, at(5)}) ASSERT_TRUE(queues_.add(0, one));
  std::vector<std::vector<std::uint64_t>> tasks;
  while (const auto task = queues_.take([](const MappedAt&, uid_t) { return false; }, now_)) {
    auto& inodes = tasks.emplace_back();
    for (const MappedAt& one : task->files) inodes.push_back(one.file.inode);
  }
  EXPECT_EQ(tasks, (std::vector<std::vector<std::uint64_t>>{{1, 5}, {3}, {2}, {4}}));
}

}  // namespace
}  // namespace flight::broker
