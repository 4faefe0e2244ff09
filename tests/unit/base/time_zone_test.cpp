// SPDX-License-Identifier: Apache-2.0
// The file of the time zone on a server that hangs. Whoever reads it waits for ever, so it is done in a child.
#include "libcore/base/time_zone.hpp"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

using test::HungMount;
using test::in_own_mounts;
using testing::AllOf;
using testing::HasSubstr;

class TimeZone : public test::RootTest {
 protected:
  // A /etc and a folder of zones of its own, in the child.
  static void make_folders() {
    for (const char* folder : {"/etc", "/mnt"})
      ASSERT_EQ(::mount("none", folder, "tmpfs", 0, nullptr), 0) << folder << ": errno " << errno;
    ASSERT_EQ(::mkdir("/mnt/zones", 0755), 0);
    ASSERT_EQ(::mkdir("/mnt/zones/Some", 0755), 0);
    for (const char* file : {"/etc/localtime", "/mnt/zones/Some/Town"}) std::ofstream(file) << "no zone";
    ::unsetenv("TZ");
    ::unsetenv("TZDIR");
  }
  static void expect_utc(const std::string& file) {
    EXPECT_THAT(settle_time_zone(), AllOf(HasSubstr("local times are UTC: the file of the time zone, " + file),
                                          HasSubstr(", is on fuse.hung")));
    expect_no_offset();
    EXPECT_EQ(settle_time_zone(), "") << "it is said once";
  }
  static void expect_no_offset() {
    const std::time_t summer = 1'780'000'000;
    std::tm parts{};
    ASSERT_NE(::localtime_r(&summer, &parts), nullptr);
    EXPECT_EQ(parts.tm_gmtoff, 0);
    EXPECT_EQ(::timegm(&parts), summer);
  }
};

TEST_F(TimeZone, IsUtcWhereTheFileOfTheMachineHangs) {
  in_own_mounts([] {
    make_folders();
    const HungMount hung("/etc/localtime");
    expect_utc("/etc/localtime");
  });
}

TEST_F(TimeZone, IsUtcWhereItsLinkLeadsToAFolderThatHangs) {
  in_own_mounts([] {
    make_folders();
    ASSERT_EQ(::unlink("/etc/localtime"), 0);
    ASSERT_EQ(::symlink("../mnt/zones/Some/Town", "/etc/localtime"), 0);
    const HungMount hung("/mnt/zones");
    expect_utc("/etc/localtime");
  });
}

TEST_F(TimeZone, IsUtcWhereTheFileThatTzNamesHangs) {
  for (const char* zone : {"/mnt/zones/Some/Town", ":/mnt/zones/Some/Town", "Some/Town", "CET-1CEST", ""})
    in_own_mounts([zone] {
      make_folders();
      ::setenv("TZ", zone, 1);
      ::setenv("TZDIR", "/mnt/zones", 1);
      const HungMount hung("/mnt/zones");
      expect_utc("/mnt/zones/");
    });
}

TEST_F(TimeZone, StaysWhereNothingWaits) {
  in_own_mounts([] {
    make_folders();
    ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    ::setenv("TZDIR", "/mnt/zones", 1);
    EXPECT_EQ(settle_time_zone(), "");
    EXPECT_STREQ(std::getenv("TZ"), "CET-1CEST,M3.5.0,M10.5.0/3");
    const HungMount hung("/mnt/zones");  // later: it is not read any more
    const std::time_t summer = 1'780'000'000;
    std::tm parts{};
    ASSERT_NE(::localtime_r(&summer, &parts), nullptr);
    EXPECT_EQ(parts.tm_gmtoff, 2 * 3600);
  });
}

}  // namespace
}  // namespace flight
