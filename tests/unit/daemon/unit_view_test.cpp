// SPDX-License-Identifier: Apache-2.0
#include "daemon/unit_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace flight::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(UnitView, HomesAndTemporaryFoldersAreHidden) {
  for (const char* path : {"/home/a/flightd.json", "/root/flightd.json", "/run/user/1000/x", "/root"})
    EXPECT_EQ(hidden_by_unit(path), "ProtectHome=yes") << path;
  for (const char* path : {"/tmp/flightd.json", "/var/tmp/x", "/etc/../tmp/x", "//tmp//x"})
    EXPECT_EQ(hidden_by_unit(path), "PrivateTmp=yes") << path;
  for (const char* path : {"/etc/flightd/flightd.json", "/homes/x", "/tmpfs/x", "/var/lib/flightd", "/srv/root/x"})
    EXPECT_EQ(hidden_by_unit(path), "") << path;
}

// The settings are those of the units.
TEST(UnitView, TheUnitsHideThem) {
  for (const char* name : {"flightd.service", "flightd-broker.service"}) {
    std::ifstream file(std::string(FLIGHTD_SOURCE_ROOT) + "/systemd/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_THAT(text.str(), AllOf(HasSubstr("\nProtectHome=yes\n"), HasSubstr("\nPrivateTmp=yes\n"))) << name;
  }
}

TEST(UnitView, TheStoreIsLookedAtToo) {
  EXPECT_TRUE(check_unit_view("/etc/x.json", Config{}, "/var/lib/flightd"));
  EXPECT_THAT(check_unit_view("", Config{}, "/home/snapshots").error().what, HasSubstr("/home/snapshots"));
  EXPECT_THAT(check_unit_view("/home/a/x.json", Config{}, "/var/lib/flightd").error().what, HasSubstr("/home/a/x"));
}

}  // namespace
}  // namespace flight::daemon
