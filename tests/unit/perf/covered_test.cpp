// SPDX-License-Identifier: Apache-2.0
// Folders of the kernel over which a server's file system is mounted, as in a container. Nothing may ask the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <string>

#include "libcore/perf/event_spec.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {
namespace {

using ::testing::HasSubstr;

class CoveredFolders : public RootTest {};

TEST_F(CoveredFolders, SysctlsAreUnknown) {
  in_own_mounts([] {
    ASSERT_TRUE(kernel_sysctl("perf_event_paranoid"));
    const HungMount hung("/proc/sys");
    EXPECT_FALSE(kernel_sysctl("perf_event_paranoid"));
  });
}

TEST_F(CoveredFolders, TracefsIsNotUsed) {
  in_own_mounts([] {
    const auto tracefs = find_or_mount_tracefs();
    ASSERT_TRUE(tracefs) << tracefs.error().what;
    const HungMount hung(*tracefs);
    for (const auto& found : {find_tracefs(), find_or_mount_tracefs()}) {
      ASSERT_FALSE(found) << *found;
      EXPECT_EQ(found.error().errno_value(), EREMOTE);
      EXPECT_THAT(found.error().what, HasSubstr("fuse.hung is mounted over it"));
    }
    for (const std::string& folder : {*tracefs, std::string()})
      EXPECT_EQ(tracepoint_id(folder, "sched", "sched_switch").error().errno_value(), EREMOTE) << folder;
    EXPECT_TRUE(list_tracepoints(*tracefs).empty());
  });
}

TEST_F(CoveredFolders, NothingIsMountedInOne) {
  in_own_mounts([] {
    for (auto found = find_tracefs(); found; found = find_tracefs())
      ASSERT_EQ(::umount2(found->c_str(), MNT_DETACH), 0) << *found;
    const HungMount hung("/sys/kernel");
    const auto refused = find_or_mount_tracefs();
    ASSERT_FALSE(refused) << *refused;
    EXPECT_EQ(refused.error().errno_value(), EREMOTE) << refused.error().what;
  });
}

TEST_F(CoveredFolders, PmusAreUnknown) {
  in_own_mounts([] {
    const HungMount hung("/sys/bus/event_source/devices");
    const auto event = parse_event("msr/tsc/", EventSources());
    ASSERT_FALSE(event);
    EXPECT_EQ(event.error().errno_value(), EREMOTE) << event.error().what;
  });
}

}  // namespace
}  // namespace flight::test
