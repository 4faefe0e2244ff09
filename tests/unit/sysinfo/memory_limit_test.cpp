// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/memory_limit.hpp"

#include <gtest/gtest.h>

#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

constexpr const char* kUnified =
    "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

std::string text_of(const std::optional<MemoryLimit>& limit) {
  return limit ? fmt::format("{} {} {}", limit->bytes, limit->file, limit->cgroup) : "none";
}

TEST(MemoryLimit, IsThatOfTheUnit) {
  TempTree tree;
  tree.write("/proc/self/cgroup", "0::/system.slice/flightd.service\n");
  tree.write("/proc/self/mountinfo", std::string("25 1 8:1 / / rw - ext4 /dev/sda1 rw\n") + kUnified);
  tree.write("/sys/fs/cgroup/system.slice/memory.max", "max\n");
  tree.write("/sys/fs/cgroup/system.slice/flightd.service/memory.max", "67108864\n");
  tree.write("/sys/fs/cgroup/system.slice/flightd.service/memory.high", "max\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "67108864 memory.max /system.slice/flightd.service");
  tree.write("/sys/fs/cgroup/system.slice/memory.max", "33554432\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "33554432 memory.max /system.slice") << "the smallest of all";
  tree.write("/sys/fs/cgroup/system.slice/flightd.service/memory.high", "16777216\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "16777216 memory.high /system.slice/flightd.service");
}

TEST(MemoryLimit, InAContainerIsThatOfItsRoot) {
  TempTree tree;
  tree.write("/proc/self/cgroup", "0::/\n");
  tree.write("/proc/self/mountinfo", kUnified);
  EXPECT_EQ(text_of(memory_limit(tree.root())), "none") << "the root of the machine has no such file";
  tree.write("/sys/fs/cgroup/memory.max", "134217728\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "134217728 memory.max /");
  // Without a namespace for cgroups: the container's cgroup is mounted, and has the path of the host.
  tree.write("/proc/self/cgroup", "0::/docker/0123/init\n");
  tree.write("/proc/self/mountinfo", "29 23 0:26 /docker/0123 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "134217728 memory.max /docker/0123");
  tree.write("/sys/fs/cgroup/init/memory.max", "1048576\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "1048576 memory.max /docker/0123/init");
  tree.write("/proc/self/cgroup", "0::/docker/01234\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "none") << "another container is mounted";
  tree.write("/proc/self/cgroup", "0::/../other\n");
  tree.write("/proc/self/mountinfo", kUnified);
  EXPECT_EQ(text_of(memory_limit(tree.root())), "none") << "outside of the namespace";
}

TEST(MemoryLimit, OfVersionOne) {
  TempTree tree;
  tree.write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a b/c\n0::/x\n");
  tree.write("/proc/self/mountinfo", std::string(kUnified) +
                                         "31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                                         "32 23 0:29 / /sys/fs/my\\040memory rw - cgroup cgroup rw,cpu,memory\n");
  tree.write("/sys/fs/cgroup/x/memory.max", "4096\n");
  tree.write("/sys/fs/my memory/a b/c/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "none") << "that number means no limit";
  tree.write("/sys/fs/my memory/a b/memory.limit_in_bytes", "8388608\n");
  EXPECT_EQ(text_of(memory_limit(tree.root())), "8388608 memory.limit_in_bytes /a b");
}

TEST(MemoryLimit, WhatCannotBeReadIsNoLimit) {
  TempTree tree;
  EXPECT_EQ(text_of(memory_limit(tree.root())), "none");
  tree.write("/proc/self/cgroup", "\n:\n0\n0:\n");
  tree.write("/proc/self/mountinfo", "\n - \n1 2 3 - cgroup2 x\n" + std::string(kUnified));
  EXPECT_EQ(text_of(memory_limit(tree.root())), "none");
  tree.write("/proc/self/cgroup", "0::/a\n");
  for (const char* text : {"", "-1\n", "12 MB\n", "99999999999999999999999\n"}) {
    tree.write("/sys/fs/cgroup/a/memory.max", text);
    EXPECT_EQ(text_of(memory_limit(tree.root())), "none") << text;
  }
}

}  // namespace
}  // namespace flight
