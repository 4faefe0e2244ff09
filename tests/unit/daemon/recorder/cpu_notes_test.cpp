// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/cpu_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace flight::daemon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// At 10 s the clock shows 12:00:10. At 60 s it is set ahead by a day.
TEST(CpuNotes, HaveTheTimeThatTheClockShowedThen) {
  constexpr EventTime kSecond = 1'000'000'000;
  const WallTime noon = parse_time("2026-11-20T12:00:00Z", {}).value();
  ClockHistory clock;
  clock.restore(
      std::array{ClockTriple{.monotonic_ns = kSecond, .boottime_ns = kSecond, .wall = noon + std::chrono::seconds(1)},
                 ClockTriple{.monotonic_ns = 60 * kSecond,
                             .boottime_ns = 60 * kSecond,
                             .wall = noon + std::chrono::seconds(60) + std::chrono::hours(24)}});
  Manifest manifest;
  manifest.notes = {"a machine without counters", gone_cpu_text(3), gone_cpu_text(5)};
  manifest.gaps = {{.cpu = 2, .begin_ns = 5 * kSecond, .end_ns = 6 * kSecond},
                   {.cpu = 5, .begin_ns = 70 * kSecond},
                   {.cpu = 3, .begin_ns = 10 * kSecond}};
  EXPECT_THAT(notes_with_times(manifest, clock),
              ElementsAre("a machine without counters",
                          AllOf(HasSubstr("CPU 3 went offline"), HasSubstr("2026-11-20T12:00:10.000Z")),
                          AllOf(HasSubstr("CPU 5 went offline"), HasSubstr("2026-11-21T12:01:10.000Z"))));
}

TEST(CpuNotes, WithoutAGapStayAsTheyAre) {
  Manifest manifest;
  manifest.notes = {gone_cpu_text(3)};
  EXPECT_THAT(notes_with_times(manifest, ClockHistory()), ElementsAre(gone_cpu_text(3)));
}

}  // namespace
}  // namespace flight::daemon
