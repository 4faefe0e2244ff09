// SPDX-License-Identifier: Apache-2.0
// Files of /proc and /sys over which a server's are mounted, as in a container of LXC.
#include "libcore/base/kernel_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/generated_code.hpp"
#include "libcore/sysinfo/host.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"
#include "libcore/sysinfo/memory_limit.hpp"
#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using test::HungMount;
using test::in_own_mounts;
using testing::AllOf;
using testing::HasSubstr;

class KernelFile : public test::RootTest {
 protected:
  static void expect_refused(const std::string& path) {
    const auto text = read_kernel_file(path);
    ASSERT_FALSE(text) << *text;
    EXPECT_EQ(text.error().errno_value(), EREMOTE) << text.error().what;
    EXPECT_THAT(text.error().what, AllOf(HasSubstr("open " + path), HasSubstr("fuse.hung is mounted over it")));
  }
};

TEST(KernelFiles, AreReadAsOthers) {
  EXPECT_EQ(read_kernel_file("/proc/sys/kernel/ostype").value_or("?"), "Linux\n");
  EXPECT_TRUE(open_kernel_file("/proc/stat"));
  EXPECT_EQ(read_kernel_file("/proc/stat", 10).error().errno_value(), EFBIG);
  for (const char* path : {"/proc/no-such-file", "/sys/no-such-folder/x"}) {
    const auto missing = read_kernel_file(path);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().what, std::string("open ") + path + ": No such file or directory");
  }
  const TempTree tree;
  tree.write("/proc/stat", "of a test");
  EXPECT_EQ(read_kernel_file(tree.root() + "/proc/stat").value_or("?"), "of a test");
}

TEST_F(KernelFile, AServersFileIsNotOpened) {
  in_own_mounts([] {
    const HungMount one("/proc/stat"), other("/proc/loadavg");
    expect_refused("/proc/stat");
    expect_refused("/proc/loadavg");
    EXPECT_TRUE(read_kernel_file("/proc/uptime")) << "it is the kernel's";
  });
}

// Without asking it, not even for a name in it.
TEST_F(KernelFile, NothingIsLookedUpInAServersFolder) {
  in_own_mounts([] {
    const HungMount folder("/proc/sys");
    expect_refused("/proc/sys/kernel/ostype");
  });
}

// Its server does not serve other users, and the kernel does not tell them which mount it is.
TEST_F(KernelFile, AServersFileOfAnotherUserIsNotOpened) {
  in_own_mounts([] {
    const HungMount mount("/proc/stat", "");
    constexpr uid_t kNobody = 65534;
    ASSERT_EQ(::setresuid(kNobody, kNobody, kNobody), 0);
    expect_refused("/proc/stat");
    EXPECT_TRUE(read_kernel_file("/proc/loadavg"));
  });
}

TEST_F(KernelFile, AFileThatWaitsForNobodyIsRead) {
  const TempTree tree;
  in_own_mounts([&] {
    ASSERT_EQ(::mount("none", tree.root().c_str(), "tmpfs", 0, nullptr), 0);
    tree.write("/other", "of a disk");
    ASSERT_EQ(::mount((tree.root() + "/other").c_str(), "/proc/loadavg", nullptr, MS_BIND, nullptr), 0);
    EXPECT_EQ(read_kernel_file("/proc/loadavg").value_or("?"), "of a disk");
  });
}

TEST_F(KernelFile, TheMachinesMemoryIsKnownWithoutIt) {
  in_own_mounts([] {
    const HungMount meminfo("/proc/meminfo"), cpuinfo("/proc/cpuinfo");
    struct sysinfo memory {};
    ASSERT_EQ(::sysinfo(&memory), 0);
    const HostInfo info = HostInfo::read();
    EXPECT_EQ(info.total_memory_kb, memory.totalram * memory.mem_unit / 1024);
    EXPECT_EQ(info.boot_id.size(), 36U);
    EXPECT_EQ(info.cpu_description, "");
  });
}

// As where a container has /proc/sys and parts of /sys of its own.
TEST_F(KernelFile, FoldersOfAServerAreNotLookedInto) {
  in_own_mounts([] {
    const HungMount sysctls("/proc/sys"), devices("/sys/bus/event_source");
    EXPECT_NE(HostInfo::read().os_release, "") << "uname(2) knows it";
    EXPECT_EQ(HostInfo::read().boot_id, "");
    EXPECT_TRUE(pmus().empty());
    EXPECT_EQ(open_kernel_folder("/sys/bus/event_source/devices").error().errno_value(), EREMOTE);
    EXPECT_TRUE(open_kernel_folder("/sys/bus"));
  });
}

TEST_F(KernelFile, SymbolsOfAServerAreNotRead) {
  in_own_mounts([] {
    const HungMount symbols("/proc/kallsyms"), notes("/sys/kernel/notes");
    EXPECT_EQ(read_generated_code().error().errno_value(), EREMOTE);
    EXPECT_TRUE(build_id_of_file("/sys/kernel/notes").empty());
  });
}

// lxcfs covers one or the other.
TEST_F(KernelFile, TheCpusAreThoseOfTheNodes) {
  const auto before = online_cpus();
  ASSERT_TRUE(before) << before.error().what;
  for (const char* covered : {"/sys/devices/system/cpu/online", "/sys/devices/system/cpu"})
    in_own_mounts([&] {
      const HungMount cpus(covered);
      const auto online = online_cpus();
      ASSERT_TRUE(online) << online.error().what;
      EXPECT_EQ(*online, *before) << covered;
      EXPECT_GE(available_cpus(), online->size());
      EXPECT_EQ(cpu_topology().cpus.size(), available_cpus());
    });
}

// No list of sysfs is left.
TEST_F(KernelFile, WhereAServerCoversSysfsTheCpusAreThoseOfProcStat) {
  const auto before = online_cpus();
  ASSERT_TRUE(before) << before.error().what;
  for (const char* covered : {"/sys", "/sys/devices", "/sys/devices/system"})
    in_own_mounts([&] {
      const HungMount sysfs(covered);
      const auto online = online_cpus();
      ASSERT_TRUE(online) << online.error().what;
      EXPECT_EQ(*online, *before) << covered;
      EXPECT_GE(available_cpus(), online->size());
    });
}

TEST_F(KernelFile, SysfsItselfCanBeAServers) {
  EXPECT_TRUE(open_kernel_folder("/sys/kernel"));
  in_own_mounts([] {
    EXPECT_TRUE(open_kernel_folder("/sys/kernel"));
    const HungMount sysfs("/sys");
    expect_refused("/sys/kernel/notes");
    EXPECT_EQ(open_kernel_folder("/sys/kernel").error().errno_value(), EREMOTE);
    EXPECT_TRUE(pmus().empty());
    EXPECT_TRUE(read_kernel_file("/proc/stat")) << "it is the kernel's";
  });
  in_own_mounts([] {
    const HungMount sysfs("/sys", "");
    ASSERT_EQ(::setresuid(65534, 65534, 65534), 0);
    expect_refused("/sys/kernel/notes");
  });
}

TEST_F(KernelFile, TheLimitOfMemoryIsNotAskedOfAServer) {
  in_own_mounts([] {
    const HungMount hung("/sys/fs/cgroup");
    std::string unread;
    EXPECT_FALSE(memory_limit("", &unread));
    EXPECT_THAT(unread, AllOf(HasSubstr("/memory."), HasSubstr("fuse.hung is mounted over it")));
  });
}

TEST_F(KernelFile, WithoutNodesTheCpusAreThosePresent) {
  const auto before = online_cpus();
  ASSERT_TRUE(before) << before.error().what;
  in_own_mounts([&] {
    const HungMount cpus("/sys/devices/system/cpu/online"), nodes("/sys/devices/system/node");
    const auto online = online_cpus();
    ASSERT_TRUE(online) << online.error().what;
    EXPECT_EQ(*online, *before);
  });
}

}  // namespace
}  // namespace flight
