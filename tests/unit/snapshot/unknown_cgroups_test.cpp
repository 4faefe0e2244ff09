// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/unknown_cgroups.hpp"

#include <gmock/gmock.h>

namespace flight {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class UnknownCgroups : public testing::Test {
 protected:
  UnknownCgroups() {
    append_cgroup(sideband_.prologue, {1, "/init.scope"}, {});
    append_cgroup(sideband_.log, {2, "/late.scope"}, {.time_ns = 5, .id = 7});
    selection_.begin_ns = 1000;
    selection_.end_ns = 2000;
    selection_.rings.resize(2);
  }
  void sampled(std::size_t ring, std::uint32_t pid, std::uint64_t cgroup, std::uint64_t samples = 10) {
    selection_.rings[ring].tallies[{pid, cgroup}].window.samples += samples;
    selection_.samples += samples;
  }
  [[nodiscard]] Sidecar described() const {
    Sidecar out;
    describe_cgroups(out, selection_, sideband_);
    return out;
  }

  TrackerExport sideband_;
  Selection selection_;
};

TEST_F(UnknownCgroups, AreReportedIfTheyWereForgottenAndHaveSamples) {
  sampled(0, 100, 1);
  sampled(1, 101, 2);
  sampled(1, 102, 0, 5000);
  sampled(1, 0, 9);  // the idle tasks
  sideband_.forgotten.cgroups = 9;
  EXPECT_THAT(described().warnings, IsEmpty());
  sampled(0, 103, 3, 1);
  sampled(1, 103, 3, 1);
  sampled(1, 104, 4, 1);
  sampled(1, 104, 1);  // it was in another one, too
  EXPECT_THAT(described().warnings, ElementsAre(AllOf(HasSubstr("the cgroups of 2 processes are unknown"),
                                                      HasSubstr("a cgroup's name was forgotten 9 times"))));
  EXPECT_THAT(described().notes, IsEmpty());
}

TEST_F(UnknownCgroups, OfWhichNothingWasForgottenHaveAnotherReason) {
  sampled(0, 100, 1, 99);
  sampled(0, 103, 3, 1);
  EXPECT_THAT(described().warnings, IsEmpty());
  EXPECT_THAT(described().notes, ElementsAre(AllOf(HasSubstr("the cgroups of 1 process are unknown"),
                                                   HasSubstr("flightd-broker cannot list them"))));
  sideband_.gaps = {{.begin_ns = 500, .end_ns = 900, .lost = 3}};
  EXPECT_THAT(described().warnings, IsEmpty()) << "before the window";
  sideband_.gaps.push_back({.begin_ns = 1500, .end_ns = 1600, .lost = 3});
  EXPECT_THAT(described().warnings, ElementsAre(AllOf(HasSubstr("the cgroups of 1 process are unknown"),
                                                      HasSubstr("made while records were lost"))));
  EXPECT_THAT(described().notes, IsEmpty());
  sampled(0, 100, 1);
  EXPECT_THAT(described().warnings, IsEmpty()) << "less than 1 % of the samples";
}

}  // namespace
}  // namespace flight
