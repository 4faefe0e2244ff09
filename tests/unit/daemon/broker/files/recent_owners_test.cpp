// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/recent_owners.hpp"

#include <gtest/gtest.h>

#include <map>

#include "libcore/perf/record_build.hpp"

namespace flight::broker {
namespace {

RecordBuffer fork_of(std::uint32_t pid, std::uint32_t ppid) {
  RecordBuffer out;
  append_fork(out, {.pid = pid, .ppid = ppid, .tid = pid, .ptid = ppid}, {});
  return out;
}

class Owners : public testing::Test {
 protected:
  // A process is there while it is in the map.
  std::map<std::uint32_t, uid_t> there_{{100, 1000}, {200, 0}};
  RecentOwners owners_{[this](std::uint32_t pid) {
    const auto found = there_.find(pid);
    return found == there_.end() ? std::nullopt : std::optional<uid_t>(found->second);
  }};
};

TEST_F(Owners, AnEndedOneIsItsParents) {
  owners_.note(fork_of(101, 100));
  EXPECT_EQ(owners_.of(101), 1000U);
  EXPECT_EQ(owners_.of(301), std::nullopt);
}

// As a service's, which becomes its user's after the fork.
TEST_F(Owners, AnEndedChildOfRootIsNotRoots) {
  owners_.note(fork_of(201, 200));
  EXPECT_EQ(owners_.of(201), std::nullopt);
  EXPECT_EQ(owners_.of(200), 0U);
}

TEST_F(Owners, WhoWasSeenIsKnownAfterItsEnd) {
  EXPECT_EQ(owners_.of(100), 1000U);
  there_.clear();
  EXPECT_EQ(owners_.of(100), 1000U) << "in the same look it is not looked up again";
  owners_.begin_look();
  EXPECT_EQ(owners_.of(100), 1000U);
  owners_.note(fork_of(101, 100));
  EXPECT_EQ(owners_.of(101), 1000U);
}

TEST_F(Owners, AUserWhoseProcessesInBetweenEndIsStillHe) {
  owners_.note(fork_of(101, 100));
  owners_.note(fork_of(102, 101));
  owners_.note(fork_of(103, 102));
  EXPECT_EQ(owners_.of(103), 1000U);
}

TEST_F(Owners, WhoEndsAllInBetweenIsNotRoot) {
  owners_.note(fork_of(201, 200));
  owners_.note(fork_of(202, 201));
  EXPECT_EQ(owners_.of(202), std::nullopt);
}

TEST_F(Owners, ANumberThatIsUsedAgainIsAnotherProcess) {
  owners_.note(fork_of(101, 100));
  there_[101] = 1000;
  EXPECT_EQ(owners_.of(101), 1000U);
  there_.erase(101);
  owners_.begin_look();
  owners_.note(fork_of(101, 200));
  EXPECT_EQ(owners_.of(101), std::nullopt);
}

TEST_F(Owners, AProcessThatBecomesAnotherUsersIsHis) {
  owners_.note(fork_of(201, 200));
  there_[201] = 0;
  EXPECT_EQ(owners_.of(201), 0U);
  there_[201] = 1001;
  owners_.begin_look();
  EXPECT_EQ(owners_.of(201), 1001U);
  there_.erase(201);
  owners_.begin_look();
  EXPECT_EQ(owners_.of(201), 1001U);
}

TEST_F(Owners, WhoseItProbablyIsTakesNoLook) {
  EXPECT_EQ(owners_.likely(100), std::nullopt) << "nobody has looked yet";
  EXPECT_EQ(owners_.of(100), 1000U);
  EXPECT_EQ(owners_.of(200), 0U);
  there_.clear();
  EXPECT_EQ(owners_.likely(100), 1000U);
  EXPECT_EQ(owners_.likely(200), 0U);
  owners_.note(fork_of(101, 100));
  owners_.note(fork_of(102, 101));
  owners_.note(fork_of(201, 200));
  EXPECT_EQ(owners_.likely(102), 1000U);
  EXPECT_EQ(owners_.likely(201), std::nullopt) << "a service becomes its user's";
  owners_.note(fork_of(301, 302));
  owners_.note(fork_of(302, 301));
  EXPECT_EQ(owners_.likely(301), std::nullopt) << "a ring of processes";
}

// A user's sudo forks them.
TEST_F(Owners, OwnIsOnlyWhatWasSeenOfTheProcessItself) {
  EXPECT_EQ(owners_.of(100), 1000U);
  owners_.note(fork_of(101, 100));
  EXPECT_EQ(owners_.own(100), 1000U);
  EXPECT_EQ(owners_.own(101), std::nullopt);
  EXPECT_EQ(owners_.likely(101), 1000U);
  there_[101] = 0;
  EXPECT_FALSE(owners_.was_looked_at(101));
  EXPECT_EQ(owners_.of(101), 0U);
  EXPECT_TRUE(owners_.was_looked_at(101));
  EXPECT_EQ(owners_.own(101), 0U);
  EXPECT_EQ(owners_.likely(101), 0U);
  owners_.begin_look();
  EXPECT_FALSE(owners_.was_looked_at(101));
  EXPECT_EQ(owners_.own(101), 0U);
  EXPECT_EQ(owners_.of(301), std::nullopt);
  EXPECT_TRUE(owners_.was_looked_at(301)) << "it has ended";
  EXPECT_EQ(owners_.own(301), std::nullopt);
}

TEST_F(Owners, TheOldestAreForgotten) {
  owners_.note(fork_of(101, 100));
  owners_.note(fork_of(102, 100));
  owners_.note(fork_of(103, 100));
  owners_.note(fork_of(101, 100));  // its number was used again
  for (std::uint32_t pid = 1001; pid < 1001 + RecentOwners::kMaxProcesses - 1; ++pid) owners_.note(fork_of(pid, 100));
  EXPECT_EQ(owners_.of(103), std::nullopt);
  EXPECT_EQ(owners_.of(101), 1000U);
  EXPECT_EQ(owners_.of(1001), 1000U);
}

// A ring of processes, as records of two rings that are not in order could make.
TEST_F(Owners, ALoopEnds) {
  owners_.note(fork_of(101, 102));
  owners_.note(fork_of(102, 101));
  EXPECT_EQ(owners_.of(101), std::nullopt);
}

}  // namespace
}  // namespace flight::broker
