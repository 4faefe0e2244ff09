// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify/status_line.hpp"

#include <gmock/gmock.h>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"

namespace flight::daemon {
namespace {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using testing::AllOf;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

StatusFacts facts() {
  return {.cpus = 2,
          .channels = 3,
          .held = 34'900ms,
          .last = StatusFacts::Last{12min, "lopsided"},
          .store_bytes = 180U << 20U,
          .store_max_bytes = 2ULL << 30U};
}

TEST(StatusLine, ShowsTheHistoryAndTheLastSnapshot) {
  EXPECT_THAT(status_line(facts()),
              AllOf(StartsWith("recording 2 CPUs, 3 channels, "), HasSubstr(" channels, 34 s held"),
                    HasSubstr("snapshot 12 min ago (lopsided)"), EndsWith("store 180.0M of 2.0G")));
  StatusFacts young = facts();
  young.cpus = young.channels = 1;
  young.held = 900ms;
  young.last.reset();
  young.store_max_bytes = 0;
  EXPECT_THAT(status_line(young), AllOf(StartsWith("recording 1 CPU, 1 channel, "), HasSubstr(" 0 s held"),
                                        HasSubstr("no snapshot"), Not(AnyOf(HasSubstr("ago"), HasSubstr("store")))));
}

TEST(StatusLine, TheShortestHistoryHasItsChannel) {
  StatusFacts uneven = facts();
  uneven.held = 13s;
  uneven.shortest = "net\n";
  EXPECT_THAT(status_line(uneven), StartsWith("recording 2 CPUs, 3 channels, 13 s held (channel net?); "));
}

TEST(StatusLine, ProblemsComeFirst) {
  StatusFacts wrong = facts();
  wrong.trouble = "degraded (disk): no room";
  EXPECT_THAT(status_line(wrong), StartsWith("degraded (disk): no room; recording 2 CPUs"));
  wrong.paused = true;
  EXPECT_THAT(status_line(wrong), StartsWith("PAUSED, nothing is recorded; degraded (disk): no room; 2 CPUs"));
  wrong.broker_gone = true;
  EXPECT_THAT(status_line(wrong), StartsWith("flightd-broker is gone, looking for its successor; PAUSED"));
}

TEST(StatusLine, WithoutARecordingNothingIsHeld) {
  StatusFacts refused = facts();
  refused.refusal = "no such event";
  refused.cpus = refused.channels = 0;
  EXPECT_THAT(status_line(refused), AllOf(StartsWith("recording: no (no such event)"),
                                          HasSubstr("snapshot 12 min ago (lopsided)"), EndsWith("store 180.0M of 2.0G"),
                                          Not(AnyOf(HasSubstr("CPU"), HasSubstr("channel"), HasSubstr("held")))));
}

TEST(StatusLine, IsOneBoundedLine) {
  StatusFacts evil = facts();
  evil.trouble = "a\nREADY=0\n" + std::string(10'000, 'x');
  evil.last->trigger = "\x1b[2J\n" + std::string(10'000, 'x');
  evil.held = -5s;
  evil.shortest = std::string(10'000, 'x');
  const std::string line = status_line(evil);
  EXPECT_TRUE(is_printable(line));
  EXPECT_LE(columns(line), 600U);
}

}  // namespace
}  // namespace flight::daemon
