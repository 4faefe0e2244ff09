// SPDX-License-Identifier: Apache-2.0
// Which cgroups are one unit.
#include "libcore/snapshot/lives.hpp"

#include <gtest/gtest.h>

#include <set>

#include "libcore/perf/record_build.hpp"
#include "libcore/snapshot/forks.hpp"

namespace flight {
namespace {

constexpr const char* kSystems = "/system.slice/payroll.service";
constexpr const char* kEves = "/user.slice/user-1000.slice/user@1000.service/app.slice/payroll.service";

TEST(Lives, AUnitIsItsCgroupAndNotItsLabel) {
  Lives lives(TrackerExport(), {}, false);
  const std::string id = "3f2a91c7d8e0" + std::string(52, 'b'), other = "3f2a91c7d8e0" + std::string(52, 'c');
  const std::uint32_t payroll = lives.unit_of_path(kSystems);
  EXPECT_EQ(lives.unit_of_path(std::string(kSystems) + "/worker"), payroll);
  EXPECT_EQ(lives.unit(payroll).label, "payroll.service");
  EXPECT_EQ(lives.unit(payroll).path, kSystems);
  const std::uint32_t of_eve = lives.unit_of_path(kEves);
  EXPECT_EQ(lives.unit(of_eve).label, "user@1000/payroll.service");
  EXPECT_EQ(lives.unit(of_eve).path, kEves);
  EXPECT_EQ(lives.unit_of_path(std::string(kEves) + "/worker"), of_eve);
  std::set<std::uint32_t> all{payroll, of_eve};
  const std::vector<std::string> others{
      "/system.slice/eve.service/payroll.service", "/docker/" + id + "/system.slice/payroll.service", "/docker/" + id,
      "/docker/" + other, "/system.slice/eve.service/docker/" + id,
      // The same label twice: neither the middle nor a slice is shown.
      "/system.slice/eve.service/a.service/payroll.service", "/other.slice/payroll.service"};
  for (const std::string& path : others) EXPECT_TRUE(all.insert(lives.unit_of_path(path)).second) << path;
  EXPECT_EQ(lives.unit_of_path("/"), 0U);
  EXPECT_EQ(lives.unit_of_path(""), Lives::kUnitUnknown);
  EXPECT_EQ(lives.unit_of(99), Lives::kUnitUnknown);
}

// As /proc and perf have it: fork(2) copies the name of the calling thread.
TEST(Lives, AProcessHasTheNameOfTheThreadThatForkedIt) {
  TrackerExport sideband;
  const auto at = [](std::uint32_t pid, std::uint32_t tid, EventTime time_ns) { return Trailer{pid, tid, time_ns}; };
  append_fork(sideband.prologue, {.pid = 10, .ppid = 1, .tid = 10, .ptid = 1}, at(10, 10, 0));
  append_comm(sideband.prologue, {10, 10, "mainprog"}, at(10, 10, 0));
  append_mmap2(sideband.prologue, {.pid = 10, .tid = 10, .bytes = 4096, .name = "/bin/mainprog", .is_program = true},
               {});
  append_fork(sideband.log, {.pid = 10, .ppid = 10, .tid = 11, .ptid = 10, .time_ns = 100}, at(10, 10, 100));
  append_fork(sideband.log, {.pid = 20, .ppid = 10, .tid = 20, .ptid = 11, .time_ns = 110}, at(10, 11, 110));
  append_comm(sideband.log, {10, 11, "worker-7"}, at(10, 11, 120));
  append_fork(sideband.log, {.pid = 21, .ppid = 10, .tid = 21, .ptid = 11, .time_ns = 130}, at(10, 11, 130));
  append_fork(sideband.log, {.pid = 22, .ppid = 10, .tid = 22, .ptid = 10, .time_ns = 140}, at(10, 10, 140));
  for (const bool parent_is_sampled : {true, false}) {
    std::unordered_set<std::uint32_t> sampled{20, 21, 22};
    if (parent_is_sampled) sampled.insert(10);
    const Lives lives(sideband, sampled, false);
    const auto text = [&](std::uint32_t pid) {
      const Lives::Life* life = lives.find(pid, lives.number_at(pid, 1000));
      return life == nullptr ? "" : lives.comm_text(pid, *life) + " of " + lives.program_text(life->program);
    };
    EXPECT_EQ(text(20), "mainprog of mainprog") << "a new thread has the name of its creator";
    EXPECT_EQ(text(21), "worker-7 of mainprog") << "a name is no program";
    EXPECT_EQ(text(22), "mainprog of mainprog");
  }
}

// A program without a mapping of its file, which moved its code to memory: its children have it, too.
TEST(Lives, AChildHasTheProgramThatNoMappingShows) {
  TrackerExport sideband;
  const auto at = [](std::uint32_t pid, EventTime time_ns) { return Trailer{pid, pid, time_ns}; };
  append_fork(sideband.prologue, {.pid = 10, .ppid = 1, .tid = 10, .ptid = 1, .exec = true}, at(10, 0));
  append_comm(sideband.prologue, {10, 10, "server"}, at(10, 0));
  sideband.programs = {{.pid = 10, .from_ns = 50, .path = "/usr/sbin/server"}};
  append_fork(sideband.log, {.pid = 20, .ppid = 10, .tid = 20, .ptid = 10, .time_ns = 100}, at(10, 100));
  for (const bool parent_is_sampled : {true, false}) {
    std::unordered_set<std::uint32_t> sampled{20};
    if (parent_is_sampled) sampled.insert(10);
    const Lives lives(sideband, sampled, false);
    const Lives::Life* life = lives.find(20, lives.number_at(20, 1000));
    ASSERT_NE(life, nullptr);
    EXPECT_EQ(lives.program_text(life->program), "server") << parent_is_sampled;
  }
}

TEST(Lives, ForksOfUnitsWithTheSameNameAreApart) {
  Selection selection;
  selection.begin_ns = 1;
  selection.end_ns = 2'000'000'000;
  TrackerExport sideband;
  sideband.forks = {{10, 10, 7, to_comm("sh"), 10}, {10, 10, 8, to_comm("sh"), 500}};
  sideband.forker_cgroups = {{7, {kSystems}}, {8, {kEves}}};
  Lives lives(sideband, {}, false);
  const RankedForks ranked = rank_forks(selection, sideband, UnitTimes(), lives);
  const auto& units = ranked.units;
  ASSERT_EQ(units.size(), 2U);
  EXPECT_NEAR(units.at(lives.unit_of_path(kEves)).per_second, 250, 0.1) << "500 in a window of two seconds";
  EXPECT_EQ(units.at(lives.unit_of_path(kEves)).program, "[unknown]");
  EXPECT_NEAR(units.at(lives.unit_of_path(kSystems)).per_second, 5, 0.1);
  const SidecarForks& forks = ranked.sidecar;
  ASSERT_EQ(forks.by_unit.size(), 2U);
  EXPECT_EQ(forks.by_unit[0].name, "user@1000/payroll.service");
  EXPECT_EQ(forks.by_unit[0].count, 500U);
  EXPECT_EQ(forks.by_unit[1].name, "payroll.service");
  EXPECT_EQ(forks.by_unit[1].count, 10U);
  ASSERT_EQ(forks.by_program.size(), 1U);
  EXPECT_EQ(forks.by_program[0].unit, "user@1000/payroll.service");
  EXPECT_EQ(forks.by_program[0].cgroup, kEves);
}

// It was moved there after its first forks.
TEST(Lives, AForkerIsNotInACgroupThatIsYoungerThanItsForks) {
  Selection selection;
  selection.begin_ns = 1;
  selection.end_ns = 2'000'000'000;
  TrackerExport sideband;
  sideband.forks = {{10, 10, 7, to_comm("sh"), 100}, {20, 25, 7, to_comm("sh"), 5}, {30, 30, 7, to_comm("sh"), 10}};
  sideband.forker_cgroups[7] = {.path = kSystems, .since_ns = 22};
  Lives lives(sideband, {}, false);
  const SidecarForks forks = rank_forks(selection, sideband, UnitTimes(), lives).sidecar;
  ASSERT_EQ(forks.by_unit.size(), 2U);
  EXPECT_EQ(forks.by_unit[0].name, kUnknownForker);
  EXPECT_EQ(forks.by_unit[0].count, 105U) << "with those of a time that is not exact";
  EXPECT_EQ(forks.by_unit[1].cgroup, kSystems);
  EXPECT_EQ(forks.by_unit[1].count, 10U);
}

TEST(Lives, ForkersInUnitsOfOneLabelAreToldApartByTheirCgroups) {
  Selection selection;
  selection.begin_ns = 1;
  selection.end_ns = 2'000'000'000;
  TrackerExport sideband;
  sideband.forks = {{10, 10, 7, to_comm("sh"), 10}, {10, 10, 8, to_comm("sh"), 500}, {10, 10, 9, to_comm("sh"), 3}};
  sideband.forker_cgroups = {{7, {std::string(kSystems) + "/worker"}}, {8, {"/other.slice/payroll.service"}}};
  Lives lives(sideband, {}, false);
  const SidecarForks forks = rank_forks(selection, sideband, UnitTimes(), lives).sidecar;
  for (const auto* rows : {&forks.by_unit, &forks.by_pid}) {
    ASSERT_EQ(rows->size(), 3U);
    EXPECT_EQ((*rows)[0].unit, "payroll.service");
    EXPECT_EQ((*rows)[0].cgroup, "/other.slice/payroll.service");
    EXPECT_EQ((*rows)[1].unit, "payroll.service");
    EXPECT_EQ((*rows)[1].cgroup, kSystems);
    EXPECT_EQ((*rows)[2].unit, kUnknownForker);
    EXPECT_EQ((*rows)[2].cgroup, "");
  }
  EXPECT_EQ(forks.by_unit[0].name, "payroll.service");
  EXPECT_EQ(forks.by_unit[2].name, kUnknownForker);
}

}  // namespace
}  // namespace flight
