// SPDX-License-Identifier: Apache-2.0
// The state that survives a restart: its text, and its times on the clock of another boot.
#include "libcore/trigger/state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/trigger/tape.hpp"

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using test::Clock;
using test::kHour;
using test::kMin;
using test::kS;
using test::Tape;

TriggerState sample() {
  return {.boot_id = "6f1c2f0e-1111-4e4e-9d6b-000000000001",
          .wall = hours(24 * 365 * 56),
          .monotonic_ns = 5'000'000'000'000,
          .guard_tokens = 2.25,
          .triggers = {{"cpu-spike", 12, 40, std::nullopt, WallTime(hours(490'000)), "42", {1, 2, 3}, 7, 2, "43"},
                       {"oom", 0, 0, false, std::nullopt, "", {}},
                       {"x", 18446744073709551615U, 1, true, std::nullopt, "", {-5}}}};
}

TEST(TriggerStateText, ComesBackAsItWas) {
  const auto state = parse_trigger_state(to_text(sample()));
  ASSERT_TRUE(state) << state.error().what;
  EXPECT_EQ(to_text(*state), to_text(sample()));
  ASSERT_EQ(state->triggers.size(), 3U);
  EXPECT_EQ(state->triggers[0].firings, (std::vector<SignedTime>{1, 2, 3}));
  EXPECT_EQ(state->triggers[0].snapshot, "42");
  EXPECT_EQ(state->triggers[0].recordings, 7U);
  EXPECT_EQ(state->triggers[0].recordings_failed, 2U);
  EXPECT_EQ(state->triggers[0].recording, "43");
  EXPECT_EQ(state->triggers[1].recordings, 0U);
  EXPECT_EQ(state->triggers[0].fired_at, WallTime(hours(490'000)));
  EXPECT_EQ(state->triggers[1].enabled, false);
  EXPECT_EQ(state->triggers[2].fired, 18446744073709551615U);
  EXPECT_DOUBLE_EQ(state->guard_tokens, 2.25);
}

TEST(TriggerStateText, DamageIsReported) {
  const std::string text = to_text(sample());
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    const auto state = parse_trigger_state(text.substr(0, cut));
    ASSERT_FALSE(state) << "cut at " << cut;
    EXPECT_THAT(state.error().what, testing::HasSubstr("starts again"));
  }
  for (const char* wrong :
       {"flightd-triggers 2\nsaved b 1 2\nguard 1\nend\n", "flightd-triggers 1\nend\n",
        "flightd-triggers 1\nguard 1\nsaved b 1 2\nend\n", "flightd-triggers 1\nsaved b 1\nguard 1\nend\n",
        "flightd-triggers 1\nsaved b -1 2\nguard 1\nend\n", "flightd-triggers 1\nsaved b 1 2 3\nguard 1\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard nan\nend\n", "flightd-triggers 1\nsaved b 1 2\nguard -1\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\nguard 1\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\ntrigger t 1 1 maybe - -\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\ntrigger t 1 -1 on - -\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\ntrigger t 1 1 on - - 9223372036854775807\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\ntrigger t 1 1 on - - 5x\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\nrecordings 1 0 5\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\ntrigger t 1 1 on - -\nrecordings 1 0\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\ntrigger t 1 1 on - -\nrecordings 1 -1 5\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\ntrigger t 1 1 on - -\nrecordings 1 0 5 6\nend\n",
        "flightd-triggers 1\nsaved b 1 2\nguard 1\nend\nmore\n"})
    EXPECT_FALSE(parse_trigger_state(wrong)) << wrong;
  EXPECT_FALSE(parse_trigger_state(std::string(kMaxTriggerStateBytes + 1, ' ')));
}

TEST(TriggerStateText, IsBounded) {
  TriggerState large = sample();
  large.triggers.assign(
      64, {"t", 1, 1, std::nullopt, std::nullopt, "", std::vector<SignedTime>(1000, -999'999'999'999'999'999)});
  const std::string text = to_text(large);
  EXPECT_LE(text.size(), kMaxTriggerStateBytes);
  EXPECT_TRUE(parse_trigger_state(text)) << "what may be saved can be read again";
  large.triggers.emplace_back(large.triggers.front());
  EXPECT_FALSE(parse_trigger_state(to_text(large)));
  large.triggers.resize(1);
  large.triggers[0].firings.push_back(1);
  EXPECT_FALSE(parse_trigger_state(to_text(large)));
}

TEST(TriggerStateText, MangledBytesNeverCrash) {
  std::mt19937 random(7);
  const std::string text = to_text(sample());
  int refused = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string mangled = text;
    mangled[i] = static_cast<char>(random());
    if (!parse_trigger_state(mangled)) ++refused;
  }
  EXPECT_GT(refused, 0);
}

const std::string kLimited = R"("t": {"external": true, "max_per_hour": 2, "cooldown": "1min"})";

// The state is saved after two firings, and loaded `later` with the clocks of that moment.
class Restart : public testing::Test {
 protected:
  Restart() {
    EXPECT_TRUE(before_.rules.on_external("t", "", before_.clock.now())->fires());
    before_.clock.go(10 * kMin);
    EXPECT_TRUE(before_.rules.on_external("t", "", before_.clock.now())->fires());
    EXPECT_FALSE(before_.rules.on_external("t", "", before_.clock.now())->fires());
    before_.rules.note_snapshot("t", "17");
    text_ = to_text(before_.rules.state("boot-1", before_.clock.now()));
  }
  // Whether it fires `after` the restart, with these clocks.
  static bool fires(TriggerRules& rules, const Clock& clock) {
    return rules.on_external("t", "", clock.now())->fires();
  }
  TriggerRules restored(const Clock& clock, const std::string& boot_id) const {
    const Config config = test::config_of(kLimited);
    TriggerRules rules(config.triggers, config.storm_guard, {});
    rules.restore(*parse_trigger_state(text_), boot_id, clock.now());
    return rules;
  }
  Tape before_{kLimited};
  std::string text_;
};

TEST_F(Restart, CountersAndRatesGoOn) {
  Clock clock = before_.clock;
  clock.go(5 * kMin);
  TriggerRules rules = restored(clock, "boot-1");
  const TriggerRow row = rules.rows(clock.now()).at(0);
  EXPECT_EQ(row.fired, 2U);
  EXPECT_EQ(row.suppressed, 1U);
  EXPECT_EQ(row.snapshot, "17");
  EXPECT_TRUE(row.fired_at);
  EXPECT_FALSE(fires(rules, clock)) << "twice in this hour";
  clock.go(44 * kMin);
  EXPECT_FALSE(fires(rules, clock));
  clock.go(1 * kMin);
  EXPECT_TRUE(fires(rules, clock)) << "an hour after the first";
}

// One without recordings has no line of them, as flightd 0.1 wrote it; and what happened since then is added.
TEST_F(Restart, RecordingsAreCountedOn) {
  EXPECT_THAT(text_, testing::Not(testing::HasSubstr("recordings")));
  before_.rules.note_recording("t", "18");
  before_.rules.note_unrecorded("t", "the disk is full");
  text_ = to_text(before_.rules.state("boot-1", before_.clock.now()));
  Tape next(kLimited);
  next.rules.note_recording("t", "20");
  next.rules.restore(*parse_trigger_state(text_), "boot-1", next.clock.now());
  EXPECT_EQ(next.row("t").recordings, 2U);
  EXPECT_EQ(next.row("t").recordings_failed, 1U);
  EXPECT_EQ(next.row("t").recording, "20");
}

TEST_F(Restart, InTheSameBootTheWallClockDoesNotMatter) {
  for (const auto step : {hours(-20'000), hours(20'000)}) {
    Clock clock = before_.clock;
    clock.wall += step;
    TriggerRules rules = restored(clock, "boot-1");
    EXPECT_FALSE(fires(rules, clock));
    clock.go(50 * kMin);
    EXPECT_TRUE(fires(rules, clock));
  }
}

TEST_F(Restart, AfterARebootAsMuchTimeHasPassedAsTheWallClockSays) {
  Clock clock{.monotonic_ns = 30 * kS, .wall = before_.clock.wall + minutes(20)};
  TriggerRules rules = restored(clock, "boot-2");
  EXPECT_FALSE(fires(rules, clock));
  clock.go(29 * kMin);
  EXPECT_FALSE(fires(rules, clock));
  clock.go(1 * kMin);
  EXPECT_TRUE(fires(rules, clock));
}

// A clock that was set back, or begins in 1970, suppresses no trigger for longer than the limit itself and lifts no
// limit.
TEST_F(Restart, AfterARebootIntoThePastTheLimitsBeginAnew) {
  for (const WallTime wall : {WallTime(0), WallTime(before_.clock.wall - hours(10'000))}) {
    Clock clock{.monotonic_ns = 30 * kS, .wall = wall};
    TriggerRules rules = restored(clock, "boot-2");
    EXPECT_FALSE(fires(rules, clock));
    clock.go(49 * kMin);
    EXPECT_FALSE(fires(rules, clock));
    clock.go(1 * kMin);
    EXPECT_TRUE(fires(rules, clock)) << "the time since the boot counts";
  }
}

TEST_F(Restart, ALongTimeLaterAllIsForgiven) {
  Clock clock{.monotonic_ns = 30 * kS, .wall = before_.clock.wall + hours(48)};
  TriggerRules rules = restored(clock, "boot-2");
  EXPECT_TRUE(fires(rules, clock));
  EXPECT_EQ(rules.rows(clock.now()).at(0).fired, 3U);
}

TEST_F(Restart, TheStormGuardStaysEmpty) {
  Tape tape(R"("t": {"external": true})", R"(, "storm_guard": {"burst": 2, "per_hour": 6})");
  for (int i = 0; i < 3; ++i) static_cast<void>(tape.rules.on_external("t", "", tape.clock.now()));
  const auto saved = parse_trigger_state(to_text(tape.rules.state("boot-1", tape.clock.now())));
  ASSERT_TRUE(saved);
  Tape next(R"("t": {"external": true})", R"(, "storm_guard": {"burst": 2, "per_hour": 6})");
  next.clock = Clock{.monotonic_ns = 20 * kS, .wall = tape.clock.wall + minutes(4)};
  next.rules.restore(*saved, "boot-2", next.clock.now());
  EXPECT_EQ(next.rules.on_external("t", "", next.clock.now())->by, SuppressedBy::storm_guard);
  next.clock.go(7 * kMin);
  EXPECT_TRUE(next.rules.on_external("t", "", next.clock.now())->fires());
}

TEST_F(Restart, ADisabledTriggerStaysDisabled) {
  Tape tape(kLimited + R"(, "u": {"external": true, "enabled": false})");
  ASSERT_TRUE(tape.rules.enable("t", false));
  ASSERT_TRUE(tape.rules.enable("u", true));
  const auto saved = parse_trigger_state(to_text(tape.rules.state("b", tape.clock.now())));
  ASSERT_TRUE(saved);
  Tape next(kLimited + R"(, "u": {"external": true, "enabled": false})");
  next.rules.restore(*saved, "b", next.clock.now());
  EXPECT_FALSE(next.row("t").enabled);
  EXPECT_TRUE(next.row("u").enabled);
}

// However a clock jumps, a state that is saved after it can be read again.
TEST_F(Restart, AfterAnyLeapItCanBeSavedAgain) {
  for (const WallTime wall : {WallTime(0), WallTime(std::chrono::hours(24 * 365 * 120))}) {
    const Clock clock{.monotonic_ns = kS, .wall = wall};
    const TriggerRules rules = restored(clock, "boot-2");
    EXPECT_TRUE(parse_trigger_state(to_text(rules.state("boot-2", clock.now()))));
  }
}

TEST_F(Restart, ATriggerThatIsGoneIsPassedOver) {
  Tape next(R"("other": {"external": true})");
  next.rules.restore(*parse_trigger_state(text_), "boot-1", next.clock.now());
  EXPECT_EQ(next.row("other").fired, 0U);
}

}  // namespace
}  // namespace flight
