// SPDX-License-Identifier: Apache-2.0
// Which cgroups are one unit.
#include "libcore/snapshot/lives.hpp"

#include <gmock/gmock.h>

#include <set>

#include "libcore/snapshot/forks.hpp"

namespace flight {
namespace {

constexpr const char* kSystems = "/system.slice/payroll.service";
constexpr const char* kEves = "/user.slice/user-1000.slice/user@1000.service/app.slice/payroll.service";

TEST(Lives, AUnitIsItsCgroupAndNotItsLabel) {
  Lives lives(TrackerExport(), {});
  const std::string id = "3f2a91c7d8e0" + std::string(52, 'b'), other = "3f2a91c7d8e0" + std::string(52, 'c');
  const std::uint32_t payroll = lives.unit_of_path(kSystems);
  EXPECT_EQ(lives.unit_of_path(std::string(kSystems) + "/worker"), payroll);
  EXPECT_EQ(lives.unit(payroll).label, "payroll.service");
  EXPECT_EQ(lives.unit(payroll).path, kSystems);
  const std::uint32_t of_eve = lives.unit_of_path(kEves);
  EXPECT_EQ(lives.unit(of_eve).label, "payroll.service of user 1000");
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
}

TEST(Lives, ForksOfUnitsWithTheSameNameAreApart) {
  Selection selection;
  selection.begin_ns = 1;
  selection.end_ns = 2'000'000'000;
  TrackerExport sideband;
  sideband.forks = {{10, 10, 7, to_comm("sh"), 10}, {10, 10, 8, to_comm("sh"), 500}};
  sideband.forker_cgroups = {{7, kSystems}, {8, kEves}};
  Lives lives(sideband, {});
  const SidecarForks forks = rank_forks(selection, sideband, lives);
  ASSERT_EQ(forks.by_unit.size(), 2U);
  EXPECT_EQ(forks.by_unit[0].name, "payroll.service of user 1000");
  EXPECT_EQ(forks.by_unit[0].count, 500U);
  EXPECT_EQ(forks.by_unit[1].name, "payroll.service");
  EXPECT_EQ(forks.by_unit[1].count, 10U);
  ASSERT_EQ(forks.by_program.size(), 1U);
  EXPECT_EQ(forks.by_program[0].unit, "payroll.service of user 1000");
}

}  // namespace
}  // namespace flight
