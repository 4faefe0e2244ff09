// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/unwatched.hpp"

#include <gtest/gtest.h>

namespace flight::daemon {
namespace {

constexpr EventTime kOneSecond = 1'000'000'000;

ManifestRing sideband(int cpu, EventTime enabled_ns) {
  return {.kind = RingKind::sideband, .channel = {}, .cpu = cpu, .enabled_ns = enabled_ns};
}

Manifest two_cpus() {
  Manifest manifest;
  manifest.recording = 7;
  manifest.rings = {sideband(0, kOneSecond), sideband(1, kOneSecond)};
  return manifest;
}

TEST(Unwatched, TheSameCpusHaveNoGap) {
  Manifest later = two_cpus();
  later.gaps = {{.cpu = 1, .begin_ns = 50 * kOneSecond, .end_ns = 0}};
  EXPECT_EQ(unwatched_since(two_cpus(), later), UINT64_MAX) << "a CPU that is offline runs nothing";
}

TEST(Unwatched, ACpuThatCameBackIsUnknownSinceItWasWellLast) {
  Manifest before = two_cpus();
  before.gaps = {{.cpu = 1, .begin_ns = 20 * kOneSecond, .end_ns = 30 * kOneSecond},
                 {.cpu = 1, .begin_ns = 50 * kOneSecond, .end_ns = 0}};
  Manifest later = before;
  later.gaps[1].end_ns = 60 * kOneSecond;
  EXPECT_EQ(unwatched_since(before, later), 50 * kOneSecond);
  EXPECT_EQ(unwatched_since(later, later), UINT64_MAX) << "each gap counts once";
  later.gaps.erase(later.gaps.begin());
  EXPECT_EQ(unwatched_since(before, later), 50 * kOneSecond) << "old gaps are removed from the manifest";
}

TEST(Unwatched, ACpuThatIsOnlineForTheFirstTime) {
  Manifest later = two_cpus();
  later.rings.push_back(sideband(2, 100 * kOneSecond));
  EXPECT_EQ(unwatched_since(two_cpus(), later), 70 * kOneSecond);
}

TEST(Unwatched, AnotherRecordingBeginsWithAScan) {
  Manifest later = two_cpus();
  later.recording = 8;
  later.rings.push_back(sideband(2, 100 * kOneSecond));
  later.gaps = {{.cpu = 1, .begin_ns = 50 * kOneSecond, .end_ns = 60 * kOneSecond}};
  EXPECT_EQ(unwatched_since(two_cpus(), later), UINT64_MAX);
}

TEST(Unwatched, ARecordingIsCompleteWhenItsLastCpuIs) {
  Manifest manifest = two_cpus();
  manifest.rings[1].enabled_ns = 3 * kOneSecond;
  manifest.rings.push_back({.kind = RingKind::channel, .channel = "stacks", .cpu = 1, .enabled_ns = 9 * kOneSecond});
  EXPECT_EQ(watched_since(manifest), 3 * kOneSecond);
  manifest.gaps = {{.cpu = 0, .begin_ns = 50 * kOneSecond, .end_ns = 60 * kOneSecond},
                   {.cpu = 1, .begin_ns = 70 * kOneSecond, .end_ns = 0}};
  EXPECT_EQ(watched_since(manifest), 60 * kOneSecond) << "a CPU that came back; one that is offline runs nothing";
  manifest.rings[0].enabled_ns = 0;
  EXPECT_EQ(watched_since(manifest), UINT64_MAX) << "not yet on all CPUs";
  EXPECT_EQ(watched_since({}), UINT64_MAX);
}

}  // namespace
}  // namespace flight::daemon
