// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/host.hpp"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

TEST(HostInfo, OfThisMachine) {
  const HostInfo info = HostInfo::read();
  utsname names{};
  ASSERT_EQ(::uname(&names), 0);
  EXPECT_EQ(info.hostname, names.nodename);
  EXPECT_EQ(info.os_release, names.release);
  EXPECT_EQ(info.arch, names.machine);
  EXPECT_EQ(info.boot_id.size(), 36U);
  EXPECT_FALSE(info.cpu_description.empty());
  struct sysinfo memory {};
  ASSERT_EQ(::sysinfo(&memory), 0);
  EXPECT_EQ(info.total_memory_kb, memory.totalram * memory.mem_unit / 1024);
}

TEST(HostInfo, OfAnX86Machine) {
  TempTree tree;
  tree.write("/proc/cpuinfo",
             "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n"
             "model name\t: AMD EPYC 9755 128-Core Processor\nstepping\t: 1\n\nprocessor\t: 1\nmodel\t\t: 77\n");
  tree.write("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree:          17 kB\n");
  tree.write("/proc/sys/kernel/hostname", "web3\n");
  tree.write("/proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
  const HostInfo info = HostInfo::read(tree.root());
  EXPECT_EQ(info.hostname, "web3");
  EXPECT_EQ(info.os_release, "6.1.0-9-amd64");
  EXPECT_EQ(info.cpu_id, "AuthenticAMD,26,2,1");
  EXPECT_EQ(info.cpu_description, "AMD EPYC 9755 128-Core Processor");
  EXPECT_EQ(info.total_memory_kb, 4194304U);
  EXPECT_EQ(info.boot_id, "");
}

TEST(HostInfo, OfAnArmMachine) {
  TempTree tree;
  tree.write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
  tree.write("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "0x00000000413fd0c1\n");
  const HostInfo info = HostInfo::read(tree.root());
  EXPECT_EQ(info.cpu_id, "0x00000000413fd0c1");
  EXPECT_EQ(info.cpu_description, "ARM implementer 0x41 part 0xd0c");
}

}  // namespace
}  // namespace flight
