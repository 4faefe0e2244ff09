// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(CpuList, ReadsRangesAndSingleCpus) {
  EXPECT_THAT(parse_cpu_list("0-3,8").value(), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(parse_cpu_list("0\n").value(), ElementsAre(0));
  EXPECT_THAT(parse_cpu_list("4,2,2-3").value(), ElementsAre(2, 3, 4));
  EXPECT_THAT(parse_cpu_list("\n").value(), IsEmpty());
}

TEST(CpuList, RefusesWhatIsNone) {
  for (const char* text : {"a", "1-", "-1", "3-1", "1,,2", "1,", "0-65536", "99999999999", "1 2", "0x1"}) {
    const auto cpus = parse_cpu_list(text);
    ASSERT_FALSE(cpus) << text;
    EXPECT_THAT(cpus.error().what, HasSubstr("CPU list"));
  }
}

TEST(CpuList, IsBoundedForOverlappingRanges) {
  std::string text = "0-65535";
  for (int i = 0; i < 1000; ++i) text += ",0-65535";
  EXPECT_FALSE(parse_cpu_list(text));
  EXPECT_EQ(parse_cpu_list("0-65535").value().size(), 65536U);
}

TEST(CpuList, FormatsWhatItReads) {
  for (const char* text : {"", "0", "0-3,8", "1,3,5-6", "0-65535"})
    EXPECT_EQ(format_cpu_list(parse_cpu_list(text).value()), text);
}

TEST(Cpus, WithoutTick) {
  TempTree tree;
  EXPECT_THAT(nohz_full_cpus(tree.root()), IsEmpty());
  for (const char* none : {"", "\n", " (null)\n"}) {
    tree.write("/devices/system/cpu/nohz_full", none);
    EXPECT_THAT(nohz_full_cpus(tree.root()), IsEmpty()) << none;
  }
  tree.write("/devices/system/cpu/nohz_full", "2-3,5\n");
  EXPECT_THAT(nohz_full_cpus(tree.root()), ElementsAre(2, 3, 5));
}

TEST(Cpus, OfThisMachine) {
  const auto online = online_cpus();
  ASSERT_TRUE(online) << online.error().what;
  EXPECT_EQ(static_cast<long>(online->size()), ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GE(available_cpus(), online->size());
  const CpuTopology topology = cpu_topology();
  ASSERT_EQ(topology.cpus.size(), available_cpus());
  for (const int cpu : *online) {
    const auto siblings = parse_cpu_list(topology.cpus[static_cast<std::size_t>(cpu)].thread_siblings);
    ASSERT_TRUE(siblings);
    EXPECT_THAT(*siblings, testing::Contains(cpu));
  }
  const auto nodes = numa_nodes();
  ASSERT_FALSE(nodes.empty());
  EXPECT_GT(nodes[0].total_kb, nodes[0].free_kb);
  EXPECT_THAT(pmus(), testing::Contains(Pair(1U, "software")));
  EXPECT_THAT(pmus(), testing::Contains(Pair(2U, "tracepoint")));
}

TEST(Cpus, OfAFakeMachineWithAnOfflineCpu) {
  TempTree tree;
  tree.write("/sys/devices/system/cpu/online", "0-1,3\n");
  tree.write("/sys/devices/system/cpu/possible", "0-3\n");
  for (const char* cpu : {"0", "1", "3"}) {
    const std::string folder = std::string("/sys/devices/system/cpu/cpu") + cpu + "/topology/";
    tree.write(folder + "core_siblings_list", "0-1,3\n");
    tree.write(folder + "thread_siblings_list", std::string(cpu) + "\n");
    tree.write(folder + "core_id", std::string(cpu) + "\n");
    tree.write(folder + "physical_package_id", "1\n");
    tree.write(folder + "die_id", "-1\n");
  }
  tree.write("/sys/devices/system/node/online", "0,2\n");
  tree.write("/sys/devices/system/node/node2/meminfo",
             "Node 2 MemTotal:       16384 kB\nNode 2 MemFree:          512 kB\n");
  tree.write("/sys/devices/system/node/node2/cpulist", "0-3\n");
  tree.write("/sys/bus/event_source/devices/cpu/type", "4\n");
  tree.write("/sys/bus/event_source/devices/odd/type", "four\n");

  EXPECT_THAT(online_cpus(tree.root()).value(), ElementsAre(0, 1, 3));
  const CpuTopology topology = cpu_topology(tree.root());
  ASSERT_EQ(topology.cpus.size(), 4U);
  EXPECT_EQ(topology.cpus[3].core_id, 3U);
  EXPECT_EQ(topology.cpus[3].package_id, 1U);
  EXPECT_EQ(topology.cpus[3].die_id, 0U);
  EXPECT_EQ(topology.cpus[3].core_siblings, "0-1,3");
  EXPECT_EQ(topology.cpus[2].core_siblings, "");
  const auto nodes = numa_nodes(tree.root());
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].node, 2U);
  EXPECT_EQ(nodes[0].total_kb, 16384U);
  EXPECT_EQ(nodes[0].free_kb, 512U);
  EXPECT_EQ(nodes[0].cpu_list, "0-3");
  EXPECT_THAT(pmus(tree.root()), ElementsAre(Pair(4U, "cpu")));
}

TEST(Cpus, WithoutSysfsThoseOfProcStat) {
  TempTree tree;
  tree.write("/proc/stat",
             "cpu  10 0 10 90 0 0 0 0 0 0\ncpu0 5 0 5 45 0 0 0 0 0 0\ncpu3 5 0 5 45 0 0 0 0 0 0\nctxt 1\n");
  EXPECT_THAT(online_cpus(tree.root()).value(), ElementsAre(0, 3));
  EXPECT_EQ(available_cpus(tree.root()), 4U);
}

TEST(Cpus, AnEmptyRootIsAnErrorThatNamesTheFile) {
  TempTree tree;
  const auto online = online_cpus(tree.root());
  ASSERT_FALSE(online);
  EXPECT_THAT(online.error().what, HasSubstr("/sys/devices/system/cpu/online"));
  EXPECT_EQ(online.error().errno_value(), ENOENT);
  EXPECT_EQ(available_cpus(tree.root()), 1U);
}

}  // namespace
}  // namespace flight
