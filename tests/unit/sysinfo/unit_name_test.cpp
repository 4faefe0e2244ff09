// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/unit_name.hpp"

#include <gtest/gtest.h>

namespace flight {
namespace {

TEST(UnitName, IsTheInnermostServiceOrScope) {
  EXPECT_EQ(unit_of("/system.slice/burn.service"), "burn.service");
  EXPECT_EQ(unit_of("/system.slice/system-getty.slice/getty@tty1.service"), "getty@tty1.service");
  EXPECT_EQ(unit_of("/system.slice/burn.service/payload/worker"), "burn.service");
  EXPECT_EQ(unit_of("/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.x.scope"), "app-org.x.scope");
  EXPECT_EQ(unit_of("/user.slice/user-1000.slice/session-3.scope"), "session-3.scope");
  EXPECT_EQ(unit_of("/system.slice/_cpu.service"), "cpu.service");
}

TEST(UnitName, ElseTheInnermostSlice) {
  EXPECT_EQ(unit_of("/user.slice/user-1000.slice"), "user-1000.slice");
  EXPECT_EQ(unit_of("/machine.slice/payload"), "machine.slice");
}

TEST(UnitName, ElseThereIsNone) {
  for (const char* path : {"", "/", "/docker/0123abcd", "/.service", "/.scope/x", "///", "/a.services", "/service"})
    EXPECT_EQ(unit_of(path), "") << path;
}

}  // namespace
}  // namespace flight
