// SPDX-License-Identifier: Apache-2.0
#include "daemon/units/unit_view.hpp"
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
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

auto hidden_by(const std::string& unit, const std::string& setting) {
  return AllOf(StartsWith(unit + ".service "), EndsWith(" " + setting));
}

TEST(UnitView, HomesAndTemporaryFoldersAreHidden) {
  for (const char* path : {"/home/a/flightd.json", "/root/flightd.json", "/run/user/1000/x", "/root"})
    EXPECT_THAT(hidden_by_unit(path, "/nowhere"), hidden_by("flightd", "ProtectHome=yes")) << path;
  for (const char* path : {"/tmp/flightd.json", "/var/tmp/x", "/etc/../tmp/x", "//tmp//x"})
    EXPECT_THAT(hidden_by_unit(path, "/nowhere"), hidden_by("flightd", "PrivateTmp=yes")) << path;
  for (const char* path : {"/etc/flightd/flightd.json", "/homes/x", "/tmpfs/x", "/var/lib/flightd", "/srv/root/x"})
    EXPECT_EQ(hidden_by_unit(path, "/nowhere"), "") << path;
}

// The settings are those of the units.
TEST(UnitView, TheUnitsHideThem) {
  for (const char* name : {"flightd.service", "flightd-broker.service"}) {
    std::ifstream file(test::source_root() + "/systemd/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_THAT(text.str(), AllOf(HasSubstr("\nProtectHome=yes\n"), HasSubstr("\nPrivateTmp=yes\n"))) << name;
    if (name == std::string_view("flightd.service")) {
      EXPECT_THAT(text.str(), HasSubstr("\nUser=" + unit_user("/nowhere") + "\n"));
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
  const auto seen = check_unit_view("", config, "/var/lib/x", "/nowhere");
  std::filesystem::remove(link);
  std::filesystem::remove(file);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().errno_value(), EACCES);
  EXPECT_THAT(seen.error().what, AllOf(HasSubstr(link + " (" + file + ")"), HasSubstr("PrivateTmp=yes")));
}

TEST(UnitView, TheStoreIsLookedAtToo) {
  EXPECT_TRUE(check_unit_view("/etc/x.json", Config{}, "/var/lib/flightd", "/nowhere"));
  EXPECT_THAT(check_unit_view("", Config{}, "/home/snapshots", "/nowhere").error().what, HasSubstr("/home/snapshots"));
  EXPECT_THAT(check_unit_view("/home/a/x.json", Config{}, "/var/lib/flightd", "/nowhere").error().what,
              HasSubstr("/home/a/x"));
}

class UnitWrites : public testing::Test {
 protected:
  UnitWrites() { std::filesystem::remove_all(root_); }
  ~UnitWrites() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, std::string_view text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // With the units of this source.
  void install() const {
    for (const char* name : {"flightd.service", "flightd-broker.service"}) {
      std::filesystem::create_directories(root_ + "/usr/lib/systemd/system");
      std::filesystem::copy_file(test::source_root() + "/systemd/" + name, root_ + "/usr/lib/systemd/system/" + name);
    }
  }
  void permit(const std::string& unit, std::string_view text, const std::string& name = "override") const {
    write("/etc/systemd/system/" + unit + ".service.d/" + name + ".conf", text);
  }
  // What is refused; empty: nothing.
  [[nodiscard]] std::string why(const std::string& state_dir, const std::string& runtime_dir = "/run/flightd") const {
    const auto checked = check_unit_writes(state_dir, runtime_dir, root_);
    return checked ? "" : checked.error().what;
  }
  const std::string root_ = "/dev/shm/unit-writes-" + std::to_string(::getpid());
};

// With the units of this source, and without any.
TEST_F(UnitWrites, OnlyThePackagesDirectories) {
  for (const bool installed : {false, true}) {
    SCOPED_TRACE(installed);
    if (installed) install();
    for (const char* inside : {"/var/lib/flightd", "/var/lib/flightd/", "/var/lib/flightd/a/b", "/var/lib/./flightd"})
      EXPECT_EQ(why(inside), "") << inside;
    EXPECT_EQ(why("/var/lib/flightd", "/run/flightd/x"), "");
    for (const char* outside : {"/srv/flightd", "/var/lib/flightd2", "/var/lib", "/var/lib/flightd/../x", "/"})
      EXPECT_THAT(why(outside), AllOf(HasSubstr("flightd.service may not write to "), HasSubstr("(--state-dir)"),
                                      HasSubstr("ProtectSystem=strict")))
          << outside;
    EXPECT_THAT(why("/srv/flightd"), AllOf(HasSubstr("[Service] and ReadWritePaths=-/srv/flightd "),
                                           HasSubstr("/etc/systemd/system/flightd.service.d/override.conf")));
    for (const char* outside : {"/run/other", "/run", "/var/lib/x"})
      EXPECT_THAT(why("/var/lib/flightd", outside), AllOf(HasSubstr(outside), HasSubstr("(--runtime-dir)"))) << outside;
    EXPECT_THAT(why("/var/lib/flightd", "/run/other"), HasSubstr("its unit has "))
        << "ReadOnlyPaths=/run, if installed";
  }
}

TEST_F(UnitWrites, ADropInPermitsIt) {
  install();
  permit("flightd", "[Service]\nReadWritePaths=-/srv/flightd\n");
  EXPECT_THAT(why("/srv/flightd"), HasSubstr("flightd-broker.service may not write to /srv/flightd"))
      << "it makes the files";
  permit("flightd-broker", "# ours\n[Service]\nReadWritePaths = /opt \\\n ; not this: /x \n  \"+/srv\"\n");
  EXPECT_EQ(why("/srv/flightd/snapshots"), "");
  EXPECT_EQ(why("/var/lib/flightd"), "") << "a list grows";
  EXPECT_THAT(why("/srv/other"), HasSubstr("flightd.service may not write"));
  permit("flightd", "[Unit]\nReadWritePaths=/srv\n[Service]\nRuntimeDirectory=flightd other\n", "zz");
  EXPECT_EQ(why("/var/lib/flightd", "/run/other"), "");
  EXPECT_NE(why("/srv/other"), "") << "in a wrong section";
}

TEST_F(UnitWrites, WhatADropInTakesAway) {
  install();
  permit("flightd", "[Service]\nReadWritePaths=\nReadWritePaths=/srv\n");
  permit("flightd-broker", "[Service]\nReadWritePaths=/srv\n");
  EXPECT_THAT(why("/var/lib/flightd"), HasSubstr("ProtectSystem=strict"));
  EXPECT_EQ(why("/srv/a"), "");
  permit("flightd", "[Service]\nReadOnlyPaths=/srv/a\n", "zz");
  EXPECT_THAT(why("/srv/a/b"), HasSubstr("ReadOnlyPaths=/srv/a"));
  // The same name in a less important folder is not read.
  write("/usr/lib/systemd/system/flightd.service.d/zz.conf", "[Service]\nProtectSystem=no\n");
  EXPECT_THAT(why("/srv/a/b"), HasSubstr("ReadOnlyPaths=/srv/a"));
  std::filesystem::remove(root_ + "/etc/systemd/system/flightd.service.d/zz.conf");
  std::filesystem::create_symlink("/dev/null", root_ + "/etc/systemd/system/flightd.service.d/zz.conf");
  EXPECT_THAT(why("/opt/x"), HasSubstr("ProtectSystem=strict")) << "masked";
}

TEST_F(UnitWrites, OfAnotherProtectSystem) {
  for (const char* unit : {"flightd", "flightd-broker"}) permit(unit, "[Service]\nProtectSystem=full\n");
  EXPECT_EQ(why("/srv/a"), "");
  EXPECT_THAT(why("/etc/a"), HasSubstr("ProtectSystem=full"));
  for (const char* unit : {"flightd", "flightd-broker"}) permit(unit, "[Service]\nStateDirectory=a\n");
  EXPECT_EQ(why("/var/lib/a"), "");
  EXPECT_NE(why("/var/lib/b"), "");
  // Where nothing is known, nothing is refused.
  for (const char* unit : {"flightd", "flightd-broker"}) permit(unit, "[Service]\nReadWritePaths=/srv/%H\n");
  EXPECT_EQ(why("/srv/b"), "");
}

TEST_F(UnitWrites, ByTheFormerNamesAndForAllWhoseNamesBeginSo) {
  install();
  permit("flightd", "[Service]\nReadWriteDirectories=/srv\n");
  EXPECT_THAT(why("/srv/a"), HasSubstr("flightd-broker.service may not write"));
  write("/etc/systemd/system/flightd-.service.d/a.conf", "[Service]\nReadWritePaths=/srv\n");
  EXPECT_EQ(why("/srv/a"), "");
  permit("flightd-broker", "", "a");
  EXPECT_NE(why("/srv/a"), "") << "one of the same name in the unit's own folder takes its place";
}

using UnitViewOf = UnitWrites;

// systemd.exec(5): below ProtectHome=yes and InaccessiblePaths= no bind counts.
TEST_F(UnitViewOf, WhatIsInaccessibleStaysSo) {
  install();
  for (const char* unit : {"flightd", "flightd-broker"})
    permit(unit, "[Service]\nInaccessiblePaths=/srv\nBindReadOnlyPaths=/home/a /srv/a\n");
  EXPECT_THAT(hidden_by_unit("/home/a/x.json", root_), hidden_by("flightd", "ProtectHome=yes"));
  EXPECT_THAT(hidden_by_unit("/srv/a/x.json", root_), hidden_by("flightd", "InaccessiblePaths=/srv"));
  for (const char* unit : {"flightd", "flightd-broker"})
    permit(unit, "[Service]\nProtectHome=maybe\nPrivateTmp=Yes\n", "zz");
  EXPECT_THAT(hidden_by_unit("/home/a/x.json", root_), hidden_by("flightd", "ProtectHome=yes")) << "systemd ignores it";
  EXPECT_THAT(hidden_by_unit("/tmp/x.json", root_), hidden_by("flightd", "PrivateTmp=Yes"));
  for (const char* unit : {"flightd", "flightd-broker"})
    permit(unit, "[Service]\nProtectHome=tmpfs\nBindReadOnlyPaths=/opt/conf:/home/b\n", "zz");
  EXPECT_EQ(hidden_by_unit("/home/a/x.json", root_), "");
  EXPECT_THAT(hidden_by_unit("/home/b/x.json", root_), HasSubstr("/opt/conf:/home/b")) << "another directory is there";
}

TEST_F(UnitWrites, TheStrongerOfTwoForOnePath) {
  for (const char* unit : {"flightd", "flightd-broker"})
    permit(unit, "[Service]\nProtectSystem=strict\nReadWritePaths=/ /run\n");
  EXPECT_THAT(why("/srv/a"), HasSubstr("ProtectSystem=strict"));
  for (const char* unit : {"flightd", "flightd-broker"})
    permit(unit, "[Service]\nProtectSystem=full\nProtectHome=read-only\nReadWritePaths=-/home\n", "zz");
  EXPECT_EQ(why("/srv/a"), "");
  EXPECT_THAT(why("/home/a"), HasSubstr("ProtectHome=read-only"));
  for (const char* unit : {"flightd", "flightd-broker"})
    permit(unit, "[Service]\nTemporaryFileSystem=/srv\nBindPaths=/srv\nReadOnlyPaths=/srv\n", "zzz");
  EXPECT_EQ(why("/srv/a"), "");
}

TEST_F(UnitViewOf, TheUserIsTheUnits) {
  EXPECT_EQ(unit_user(root_), "flightd");
  install();
  EXPECT_EQ(unit_user(root_), "flightd");
  permit("flightd", "[Service]\nUser=recorder\n");
  EXPECT_EQ(unit_user(root_), "recorder");
  permit("flightd", "[Service]\nUser=\n", "zz");
  EXPECT_EQ(unit_user(root_), "root");
}

TEST_F(UnitViewOf, ADropInShowsWhatTheUnitHides) {
  for (const bool installed : {false, true}) {
    if (installed) install();
    EXPECT_THAT(hidden_by_unit("/home/a/x.json", root_), hidden_by("flightd", "ProtectHome=yes"));
    EXPECT_THAT(hidden_by_unit("/tmp/x.json", root_), hidden_by("flightd", "PrivateTmp=yes"));
  }
  permit("flightd", "[Service]\nProtectHome=read-only\nPrivateTmp=no\n");
  EXPECT_THAT(hidden_by_unit("/home/a/x.json", root_), hidden_by("flightd-broker", "ProtectHome=yes"))
      << "the broker reads the file as well";
  permit("flightd-broker", "[Service]\nProtectHome=no\nPrivateTmp=false\n");
  EXPECT_EQ(hidden_by_unit("/home/a/x.json", root_), "");
  EXPECT_EQ(hidden_by_unit("/tmp/x.json", root_), "");
  permit("flightd", "[Service]\nProtectHome=tmpfs\nBindReadOnlyPaths=/home/a\nInaccessiblePaths=-/home/a/b /srv/x\n");
  EXPECT_THAT(hidden_by_unit("/home/c/x.json", root_), hidden_by("flightd", "ProtectHome=tmpfs"));
  EXPECT_EQ(hidden_by_unit("/home/a/x.json", root_), "");
  EXPECT_THAT(hidden_by_unit("/home/a/b/x.json", root_), hidden_by("flightd", "InaccessiblePaths=-/home/a/b"));
  EXPECT_THAT(hidden_by_unit("/srv/x/flightd.json", root_), hidden_by("flightd", "InaccessiblePaths=/srv/x"));
}

}  // namespace
}  // namespace flight::daemon
