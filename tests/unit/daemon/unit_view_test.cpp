// SPDX-License-Identifier: Apache-2.0
#include "daemon/unit_view.hpp"
#include "tests/unit/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

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
    std::ifstream file(test::source_root() + "/systemd/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_THAT(text.str(), AllOf(HasSubstr("\nProtectHome=yes\n"), HasSubstr("\nPrivateTmp=yes\n"))) << name;
    if (name == std::string_view("flightd.service")) {
      EXPECT_THAT(text.str(), HasSubstr(std::string("\nUser=") + kUnitUser + "\n"));
    }
  }
}

// Not only the name that the configuration has: a link from /etc/flightd leads there, too.
TEST(UnitView, ALinkIsFollowed) {
  const std::string link = "/dev/shm/unit-view-link-" + std::to_string(::getpid());
  const std::string file = "/tmp/unit-view-file-" + std::to_string(::getpid());
  std::filesystem::remove(link);
  std::ofstream(file) << "{}";
  std::filesystem::create_symlink(file, link);
  Config config;
  config.values = {{.path = "a", .value = "1", .file = "built-in", .line = 0},
                   {.path = "b", .value = "1", .file = link, .line = 1}};
  const auto seen = check_unit_view("", config, "/var/lib/x");
  std::filesystem::remove(link);
  std::filesystem::remove(file);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().errno_value(), EACCES);
  EXPECT_THAT(seen.error().what, AllOf(HasSubstr(link + " (" + file + ")"), HasSubstr("PrivateTmp=yes")));
}

TEST(UnitView, TheStoreIsLookedAtToo) {
  EXPECT_TRUE(check_unit_view("/etc/x.json", Config{}, "/var/lib/flightd"));
  EXPECT_THAT(check_unit_view("", Config{}, "/home/snapshots").error().what, HasSubstr("/home/snapshots"));
  EXPECT_THAT(check_unit_view("/home/a/x.json", Config{}, "/var/lib/flightd").error().what, HasSubstr("/home/a/x"));
}

}  // namespace
}  // namespace flight::daemon
