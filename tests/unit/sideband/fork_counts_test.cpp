// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/fork_counts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/forker_cgroups.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/tape.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::Le;
using testing::Pair;

constexpr EventTime kMs = 1'000'000;

std::string forker_text(std::uint32_t pid, const Comm& comm) { return fmt::format("{}[{}]", name_of(comm), pid); }

// For whom they count, as far as the sideband knows.
std::map<std::string, std::uint64_t> by_forker(const std::vector<ForkCount>& forks) {
  std::map<std::string, std::uint64_t> out;
  for (const ForkCount& one : forks)
    out[one.shell != 0 ? forker_text(one.shell, one.shell_comm) : forker_text(one.pid, one.comm)] += one.count;
  return out;
}

class Forks : public testing::Test {
 protected:
  explicit Forks(TrackerLimits limits = {}) : tracker_(limits) {
    tape_.fork(1 * kSecond, 1, 100);
    tape_.exec(1 * kSecond + 1, 100, "sh");
    tape_.fork(1 * kSecond, 1, 200);
    tape_.exec(1 * kSecond + 1, 200, "make");
    tracker_.add(tape_.take());
  }
  std::map<std::string, std::uint64_t> between(EventTime begin_ns, EventTime end_ns) {
    return by_forker(tracker_.export_window(begin_ns, end_ns, {}).forks);
  }
  // "who > its shell" of each; a slice does not say who.
  std::vector<std::string> made_between(EventTime begin_ns, EventTime end_ns) {
    std::vector<std::string> out;
    for (const ForkCount& one : tracker_.export_window(begin_ns, end_ns, {}).forks) {
      const std::string who = one.pid != 0 ? forker_text(one.pid, one.comm) : "copies";
      out.push_back(one.shell != 0 ? who + " > " + forker_text(one.shell, one.shell_comm) : who);
    }
    return out;
  }
  // A subshell of a subshell, and what it forks at `at`.
  void subshells(EventTime at) {
    tape_.fork(5 * kSecond, 100, 300);
    tape_.fork(5 * kSecond + kMs, 300, 301);
    tape_.fork(at, 301, 302);
    tracker_.add(tape_.take());
  }
  Tape tape_;
  ProcessTracker tracker_;
};

TEST_F(Forks, OfProcessesAreCountedAndThreadsAreNot) {
  tape_.fork(5 * kSecond, 100, 300);
  tape_.fork(6 * kSecond, 100, 301);
  tape_.thread(6 * kSecond + 1, 100, 302);
  tape_.fork(7 * kSecond, 200, 303);
  tracker_.add(tape_.take());
  EXPECT_THAT(between(5 * kSecond, 7 * kSecond), ElementsAre(Pair("make[200]", 1), Pair("sh[100]", 2)));
  EXPECT_THAT(between(6 * kSecond, 6 * kSecond), ElementsAre(Pair("sh[100]", 1)));
}

TEST_F(Forks, OfASubshellThatLivesForAMomentCountForTheShell) {
  tape_.fork(5 * kSecond, 100, 300);        // $( … )
  tape_.fork(5 * kSecond + kMs, 300, 301);  // the command inside it
  tape_.exec(5 * kSecond + 2 * kMs, 301, "curl");
  tape_.fork(5 * kSecond + 3 * kMs, 301, 302);  // curl forks, which is another program
  tape_.fork(9 * kSecond, 300, 303);            // it has run for a long time, so its forks count as its own
  tracker_.add(tape_.take());
  EXPECT_THAT(between(5 * kSecond, 9 * kSecond),
              ElementsAre(Pair("curl[301]", 1), Pair("sh[100]", 2), Pair("sh[300]", 1)));
}

// Who has the samples decides whether it is a subshell: so both are kept.
TEST_F(Forks, HaveTheSubshellAndItsShell) {
  subshells(5 * kSecond + 9 * kMs);
  EXPECT_THAT(made_between(5 * kSecond, 6 * kSecond), ElementsAre("sh[100]", "sh[300] > sh[100]", "sh[301] > sh[100]"));
  tracker_.fold(5 * kSecond + 20 * kMs);
  EXPECT_THAT(made_between(5 * kSecond, 6 * kSecond), ElementsAre("sh[100]", "copies > sh[100]"));
  EXPECT_THAT(between(5 * kSecond, 6 * kSecond), ElementsAre(Pair("sh[100]", 3)));
}

TEST_F(Forks, AreFoldedOverNoMoreThanSixteenCopies) {
  for (std::uint32_t i = 0; i < 40; ++i) tape_.fork(5 * kSecond + i * kMs, i == 0 ? 100 : 299 + i, 300 + i);
  tracker_.add(tape_.take());
  const auto made = made_between(5 * kSecond, 6 * kSecond);
  ASSERT_EQ(made.size(), 40U);
  EXPECT_EQ(made[15], "sh[314] > sh[100]");
  EXPECT_EQ(made[39], "sh[338] > sh[322]");
}

// Nothing says that a process was moved, but a cgroup that was made since its fork may be the one.
class ForksMeanwhile : public Forks, public testing::WithParamInterface<bool> {
 protected:
  // The window begins where the state ends, if the parameter says that the older records have left the log.
  void fold_before(EventTime at) {
    if (GetParam()) tracker_.fold(at);
  }
};

TEST_P(ForksMeanwhile, ACgroupWasMadeAreOfTheCopyItself) {
  tape_.cgroup(5 * kSecond + 5 * kMs, 9, "/system.slice/run-1.scope");
  subshells(5 * kSecond + 9 * kMs);
  fold_before(5 * kSecond + 7 * kMs);
  EXPECT_THAT(made_between(5 * kSecond + 8 * kMs, 6 * kSecond), testing::Contains("sh[301]"));
  tape_.fork(5 * kSecond + 10 * kMs, 302, 303);  // it is younger than the cgroup, but its parent is not
  tape_.fork(5 * kSecond + 11 * kMs, 303, 304);
  tracker_.add(tape_.take());
  EXPECT_THAT(made_between(5 * kSecond + 8 * kMs, 6 * kSecond),
              testing::IsSupersetOf({"sh[302] > sh[301]", "sh[303] > sh[301]"}));
  tracker_.fold(5 * kSecond + 50 * kMs);
  EXPECT_EQ(between(5 * kSecond, 6 * kSecond)["sh[301]"], 3U) << "counted when the records left the log";
}

TEST_P(ForksMeanwhile, RecordsWereLostAreOfTheCopyItself) {
  tape_.lost(5 * kSecond + 5 * kMs, 3);
  subshells(5 * kSecond + 9 * kMs);
  fold_before(5 * kSecond + 7 * kMs);
  // By its number: it has lost its name until a scan.
  const auto of_the_copy = [this] {
    std::uint64_t count = 0;
    for (const ForkCount& one : tracker_.export_window(5 * kSecond, 6 * kSecond, {}).forks)
      if (one.pid == 301 && one.shell == 0) count += one.count;
    return count;
  };
  EXPECT_EQ(of_the_copy(), 1U);
  tracker_.fold(5 * kSecond + 50 * kMs);
  EXPECT_EQ(of_the_copy(), 1U) << "counted when the records left the log";
}
INSTANTIATE_TEST_SUITE_P(Before, ForksMeanwhile, testing::Bool(),
                         [](const auto& folded) { return folded.param ? "state" : "log"; });

// A window begins between the fork of a copy and its own forks. What leads to it is in no record of the window's log.
TEST_F(Forks, OfACopyFromBeforeTheWindowHaveTheirAncestors) {
  tape_.cgroup(4 * kSecond, 9, "/system.slice/run-1.scope");
  subshells(5 * kSecond + 9 * kMs);
  for (const bool folded : {false, true}) {
    if (folded) tracker_.fold(5 * kSecond + 8 * kMs);
    const TrackerExport window = tracker_.export_window(5 * kSecond + 8 * kMs, 6 * kSecond, {});
    std::vector<std::pair<std::uint32_t, std::uint32_t>> early;
    for (const TrackerExport::EarlyFork& one : window.early_forks) early.emplace_back(one.pid, one.parent);
    EXPECT_THAT(early, testing::UnorderedElementsAre(Pair(301, 300), Pair(300, 100))) << folded;
    EXPECT_EQ(window.cgroup_made_ns, 4 * kSecond) << folded;
  }
}

// fork(2) copies the name of the calling thread. Where the thread is known from makes no difference.
class ForksOfThreads : public Forks, public testing::WithParamInterface<bool> {};

TEST_P(ForksOfThreads, AreOfAProcessWithTheThreadsName) {
  tape_.thread(2 * kSecond, 200, 201);
  tape_.comm(2 * kSecond + 1, 200, 201, "worker-7");
  tracker_.add(tape_.take());
  if (GetParam()) tracker_.fold(2 * kSecond + kMs);
  tape_.fork(3 * kSecond, 200, 300, 201);
  tape_.fork(5 * kSecond, 300, 301);  // it has run for a long time
  tape_.fork(5 * kSecond + kMs, 200, 302, 201);
  tape_.fork(5 * kSecond + 2 * kMs, 302, 303);  // a copy that lives for a moment
  tracker_.add(tape_.take());
  const auto expected = ElementsAre(Pair("make[200]", 2), Pair("worker-7[300]", 1));
  EXPECT_THAT(between(5 * kSecond, 6 * kSecond), expected);
  tracker_.fold(5 * kSecond + 50 * kMs);
  EXPECT_THAT(between(5 * kSecond, 6 * kSecond), expected) << "counted when the records left the log";
}
INSTANTIATE_TEST_SUITE_P(ThreadIn, ForksOfThreads, testing::Bool(),
                         [](const auto& known) { return known.param ? "state" : "log"; });

// A thread that has ended gives its name to no later one with its number.
TEST_F(Forks, ByAThreadWithANumberThatIsUsedAgainHaveItsOwnName) {
  tape_.thread(2 * kSecond, 200, 201);
  tape_.comm(2 * kSecond + 1, 200, 201, "worker-7");
  tracker_.add(tape_.take());
  tracker_.fold(2 * kSecond + kMs);
  tape_.exit(3 * kSecond, 200, 201);
  tape_.exit(3 * kSecond + 1, 200);
  tape_.fork(4 * kSecond, 100, 200);
  tape_.thread(4 * kSecond + 1, 200, 201);
  tape_.fork(4 * kSecond + 2, 200, 300, 201);
  tape_.fork(6 * kSecond, 300, 301);
  tracker_.add(tape_.take());
  EXPECT_THAT(between(6 * kSecond, 6 * kSecond), ElementsAre(Pair("sh[300]", 1)));
}

// A subshell has ended, and its number is another process's by the time that its child forks.
TEST_F(Forks, AreNotOfTheProcessThatHasTheParentsNumberNow) {
  tape_.fork(5 * kSecond, 100, 300);        // $( … )
  tape_.fork(5 * kSecond + kMs, 300, 301);  // a subshell in it
  tape_.exit(5 * kSecond + 2 * kMs, 300);
  tape_.fork(5 * kSecond + 3 * kMs, 200, 300);
  tape_.fork(5 * kSecond + 4 * kMs, 301, 302);
  tracker_.add(tape_.take());
  EXPECT_THAT(between(5 * kSecond, 6 * kSecond), ElementsAre(Pair("make[200]", 1), Pair("sh[100]", 3)));
}

class LongKnown : public Forks {
 protected:
  LongKnown() : Forks({.dying_ns = 10 * kSecond}) {}
};

// make has ended. The FORK of the process that has its number was lost.
TEST_F(LongKnown, ADeadProcessForksNothing) {
  tape_.exit(3 * kSecond, 200);
  tracker_.add(tape_.take());
  tracker_.fold(4 * kSecond);
  ASSERT_EQ(tracker_.stats().exited, 1U);
  tape_.fork(5 * kSecond, 200, 301);
  tracker_.add(tape_.take());
  EXPECT_THAT(between(5 * kSecond, 6 * kSecond), ElementsAre(Pair("[200]", 1)));
  tracker_.fold(5 * kSecond + 50 * kMs);
  EXPECT_THAT(between(5 * kSecond, 6 * kSecond), ElementsAre(Pair("[200]", 1))) << "when the records left the log";
}

TEST_F(Forks, ProcessesOfAScanAreNoForks) {
  tape_.scanned(400, 1, 5 * kSecond, "there");
  tracker_.add_scan(tape_.take(), 6 * kSecond);
  EXPECT_THAT(between(2 * kSecond, 7 * kSecond), testing::IsEmpty());
}

class SmallLog : public Forks {
 protected:
  SmallLog() : Forks({.log_bytes = 16384, .state_bytes = 65536}) {}
};

// 3,000 forks a second for 20 s: the log holds 60 of them.
TEST_F(SmallLog, AStormIsCountedBeyondTheLog) {
  std::uint32_t pid = 1000;
  for (EventTime at = 5 * kSecond; at < 25 * kSecond; at += kSecond / 3000) {
    tape_.fork(at, 100, pid);
    tape_.exec(at + 1, pid, "true");
    tape_.exit(at + 2, pid);
    ++pid;
    if (pid % 1000 == 0) tracker_.add(tape_.take(), at + 3);
  }
  tracker_.add(tape_.take(), 25 * kSecond);
  EXPECT_THAT(between(0, 30 * kSecond), testing::Contains(Pair("sh[100]", 60001)));
  const auto ten = between(10 * kSecond, 20 * kSecond);
  EXPECT_THAT(ten, ElementsAre(Pair("sh[100]", testing::AllOf(testing::Ge(30'000U), Le(30'601U)))));
  tracker_.fold(15 * kSecond);
  EXPECT_THAT(between(0, 30 * kSecond),
              ElementsAre(Pair("sh[100]", testing::AllOf(testing::Ge(30'000U), Le(30'601U)))));
}

TEST(ForkerCgroups, AreThoseOfProcRightNowIfItIsTheSameProcess) {
  const TempTree tree;
  const auto proc = [&tree](std::uint32_t pid, std::string_view comm, std::uint64_t start_ticks) {
    tree.write(fmt::format("/proc/{}/stat", pid),
               fmt::format("{} ({}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0", pid, comm, start_ticks));
    tree.write(fmt::format("/proc/{}/cgroup", pid), fmt::format("0::/system.slice/{}.service\n", pid));
  };
  constexpr EventTime kDay = 86'400 * kSecond;
  TrackerExport window;
  for (const std::uint32_t pid : {300, 301, 302, 303, 304, 304, 305})
    window.forks.push_back({kDay, kDay, pid, to_comm("sh"), 1});
  window.forks.push_back({kDay, kDay, 305, to_comm("bash"), 1});
  window.forks.push_back({kDay, kDay, 0, to_comm(""), 9});
  proc(300, "sh", 100);
  proc(301, "sh", 2 * 86'400 * 100);  // it began after the fork: the pid was used again
  proc(302, "other", 100);
  proc(304, "sh", 200);  // 303 has exited
  proc(305, "sh", 100);  // it is not known which of the two names is right
  read_forker_cgroups(window, {}, ClockHistory(), tree.root());
  const auto in = [](const char* path) { return testing::Field(&TrackerExport::ForkerCgroup::path, path); };
  EXPECT_THAT(window.forker_cgroups, testing::UnorderedElementsAre(Pair(300, in("/system.slice/300.service")),
                                                                   Pair(304, in("/system.slice/304.service"))));
  window.forker_cgroups.clear();
  read_forker_cgroups(window, {300}, ClockHistory(), tree.root());
  EXPECT_THAT(window.forker_cgroups, testing::UnorderedElementsAre(Pair(304, in("/system.slice/304.service"))))
      << "a sample says it better";

  // Of a subshell and of its shell.
  window.forks = {{kDay, kDay, 300, to_comm("sh"), 1, 304, to_comm("sh")}};
  window.forker_cgroups.clear();
  read_forker_cgroups(window, {}, ClockHistory(), tree.root());
  EXPECT_THAT(window.forker_cgroups, testing::UnorderedElementsAre(Pair(300, in("/system.slice/300.service")),
                                                                   Pair(304, in("/system.slice/304.service"))));

  window.forks.clear();
  window.forker_cgroups.clear();
  for (std::uint32_t pid = 1000; pid < 1100; ++pid) {
    proc(pid, "sh", 100);
    window.forks.push_back({kDay, kDay, pid, to_comm("sh"), pid});
  }
  read_forker_cgroups(window, {}, ClockHistory(), tree.root());
  EXPECT_EQ(window.forker_cgroups.size(), kMostForkersRead);
  EXPECT_TRUE(window.forker_cgroups.contains(1099));
}

// cgroup_namespaces(7): such a path does not say where the cgroup is.
TEST(ForkerCgroups, OutsideOfTheCgroupNamespaceAreUnknown) {
  const TempTree tree;
  TrackerExport window;
  for (const auto& [pid, cgroup] :
       {std::pair<std::uint32_t, const char*>(300, "/.."), {301, "/../web.service"}, {302, "/..web/x.service"}}) {
    tree.write(fmt::format("/proc/{}/stat", pid),
               fmt::format("{} (sh) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0", pid));
    tree.write(fmt::format("/proc/{}/cgroup", pid), fmt::format("0::{}\n", cgroup));
    window.forks.push_back({100 * kSecond, 100 * kSecond, pid, to_comm("sh"), 1});
  }
  read_forker_cgroups(window, {}, ClockHistory(), tree.root());
  EXPECT_THAT(window.forker_cgroups,
              ElementsAre(Pair(302, testing::Field(&TrackerExport::ForkerCgroup::path, "/..web/x.service"))));
}

// Also where a cgroup of this name was there before.
TEST_F(Forks, AForkersCgroupIsKnownSinceItWasMadeLast) {
  tape_.cgroup(3 * kSecond, 5, "/user.slice/run-1.scope");
  tape_.cgroup(4 * kSecond, 6, "/user.slice/run-2.scope");
  tape_.cgroup(5 * kSecond, 7, "/user.slice/run-1.scope");
  tracker_.add(tape_.take());
  TrackerExport window = tracker_.export_window(2 * kSecond, 3 * kSecond, {});
  window.forker_cgroups = {{100, {"/user.slice/run-1.scope"}}, {200, {"/system.slice/old.service"}}};
  tracker_.date_forker_cgroups(window);
  EXPECT_EQ(window.forker_cgroups.at(100).since_ns, 5 * kSecond);
  EXPECT_EQ(window.forker_cgroups.at(200).since_ns, 0U);
}

TEST(ForkCounts, AreBoundedInTimeAndInForkers) {
  ForkCounts counts;
  std::uint64_t all = 0;
  for (std::uint32_t second = 0; second < 5000; ++second)
    for (std::uint32_t pid = 1; pid <= 100; ++pid, ++all)
      counts.add(second * kSecond, {.pid = pid, .comm = to_comm("bomb")});
  const auto forks = counts.all();
  EXPECT_LE(forks.size(), ForkCounts::kMaxSlices * (ForkCounts::kMaxForkers + 1));
  std::uint64_t sum = 0;
  for (const ForkCount& one : forks) sum += one.count;
  EXPECT_EQ(sum, all);
}

TEST(ForkCounts, ByCopiesAreApartAlsoWhereSlicesAreMerged) {
  ForkCounts counts;
  constexpr std::uint32_t kSeconds = 2000;
  for (std::uint32_t second = 0; second < kSeconds; ++second) {
    counts.add(second * kSecond, {.pid = 7, .comm = to_comm("sh")});
    for (std::uint32_t copy = 0; copy < 3; ++copy)
      counts.add(second * kSecond, {.pid = 8 + copy, .comm = to_comm("sh"), .shell = 7, .shell_comm = to_comm("sh")});
  }
  std::uint64_t own = 0, by_copies = 0;
  for (const ForkCount& one : counts.all()) {
    if (one.shell == 0) {
      EXPECT_EQ(one.pid, 7U);
      own += one.count;
    } else {
      EXPECT_EQ(one.pid, 0U);
      EXPECT_EQ(one.shell, 7U);
      by_copies += one.count;
    }
  }
  EXPECT_EQ(own, kSeconds);
  EXPECT_EQ(by_copies, 3 * kSeconds);
}

}  // namespace
}  // namespace flight
