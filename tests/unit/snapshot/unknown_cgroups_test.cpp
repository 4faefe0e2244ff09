// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/unknown_cgroups.hpp"

#include <gmock/gmock.h>

namespace flight {
namespace {

TEST(UnknownCgroups, AreReportedIfTheyWereForgottenAndHaveSamples) {
  TrackerExport sideband;
  append_cgroup(sideband.prologue, {1, "/init.scope"}, {});
  append_cgroup(sideband.log, {2, "/late.scope"}, {.time_ns = 5, .id = 7});
  Selection selection;
  selection.rings.resize(2);
  const auto sampled = [&](std::size_t ring, std::uint32_t pid, std::uint64_t cgroup) {
    selection.rings[ring].tallies[{pid, cgroup}] = {};
  };
  sampled(0, 100, 1);
  sampled(1, 101, 2);
  sampled(1, 102, 0);
  sideband.forgotten.cgroups = 9;
  EXPECT_EQ(warn_of_cgroups(selection, sideband), "");
  sampled(0, 103, 3);
  sampled(1, 103, 3);
  sampled(1, 104, 4);
  sampled(1, 104, 1);  // it was in another one, too
  EXPECT_THAT(warn_of_cgroups(selection, sideband),
              testing::AllOf(testing::HasSubstr("the cgroups of 2 processes are unknown"),
                             testing::HasSubstr("a cgroup's name was forgotten 9 times")));
  sideband.forgotten.cgroups = 0;
  EXPECT_EQ(warn_of_cgroups(selection, sideband), "") << "they are unknown for another reason";
}

}  // namespace
}  // namespace flight
