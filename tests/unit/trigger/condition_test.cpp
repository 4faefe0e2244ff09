// SPDX-License-Identifier: Apache-2.0
// When a metric trigger fires: once for each crossing, at every interval of the sampler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/config/default_text.hpp"
#include "tests/unit/trigger/tape.hpp"

namespace flight {
namespace {

using test::kHour;
using test::kMin;
using test::kMs;
using test::kS;
using test::Tape;
using testing::AllOf;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kLevel = R"("t": {"metric": "cpu.hottest", "above": "90%", "for": "2s", "rearm": "70%"})";
const std::string kJump = R"("t": {"metric": "cpu.busy", "above": "90%", "delta": "30%", "for": "2s", "rearm": "70%"})";
const std::string kWideGuard = R"(, "storm_guard": {"burst": 1000, "per_hour": 1000})";

TEST(Condition, SaysHowMuchOfItWasStolen) {
  const auto of = [](const std::string& metric) {
    return Tape("\"t\": {\"metric\": \"" + metric + "\", \"above\": \"50%\"}");
  };
  Tape busy = of("cpu.busy");
  const Tape::Values stolen{{Metric::cpu_busy, 96}, {Metric::cpu_steal, 95}};
  auto fired = busy.play(100 * kMs, stolen);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_THAT(fired[0].reason, AllOf(StartsWith("cpu.busy 96 %"), HasSubstr("95 % stolen"), HasSubstr("above 50 %"),
                                     HasSubstr("for 100 ms"), Not(AnyOf(HasSubstr("baseline"), HasSubstr("jump")))));
  EXPECT_EQ(fired[0].fired->stolen, 95);

  // The stolen share is a mean over the whole time, as the value is: a hypervisor steals in bursts.
  Tape bursts(R"("t": {"metric": "cpu.busy", "above": "50%", "for": "2s"})");
  std::vector<Decision> held;
  for (int i = 0; i < 20 && held.empty(); ++i)
    held = bursts.play(100 * kMs, {{Metric::cpu_busy, 96}, {Metric::cpu_steal, i % 2 == 0 ? 0 : 90}});
  ASSERT_EQ(held.size(), 1U);
  EXPECT_NEAR(held[0].fired->stolen.value_or(0), 45, 5);

  Tape little = of("cpu.busy");
  fired = little.play(100 * kMs, {{Metric::cpu_busy, 96}, {Metric::cpu_steal, 0.5}});
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_THAT(fired[0].reason, AllOf(StartsWith("cpu.busy 96 % "), HasSubstr("above 50 %"), HasSubstr("for 100 ms"),
                                     Not(AnyOf(HasSubstr("stolen"), HasSubstr("baseline"), HasSubstr("jump")))));

  Tape system = of("cpu.system");
  fired = system.play(100 * kMs, {{Metric::cpu_system, 96}, {Metric::cpu_steal, 3}});
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_EQ(fired[0].fired->stolen, std::nullopt) << "the kernel's time has no stolen part";
}

// Tests the triggers of the shipped configuration.
TEST(Condition, AStolenCpuFiresStealAndNotCpuSpike) {
  Tape tape(*parse_config(built_in_config(), "built-in"));
  const Tape::Values calm{{Metric::cpu_busy, 5}, {Metric::cpu_used, 5}, {Metric::cpu_steal, 0}};
  const Tape::Values stolen{{Metric::cpu_busy, 96}, {Metric::cpu_used, 5}, {Metric::cpu_steal, 91}};
  EXPECT_TRUE(tape.play(10 * kMin, calm).empty());
  EXPECT_TRUE(tape.play(3 * kS, stolen).empty()) << "for 5 s";
  const auto first = tape.play(3 * kS, stolen);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].trigger, "steal");
  EXPECT_TRUE(first[0].fires());
  EXPECT_TRUE(tape.play(kMin, calm).empty());
  const auto second = tape.play(10 * kS, stolen);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_FALSE(second[0].fires()) << "its cooldown is 15 min";
  EXPECT_TRUE(tape.play(15 * kMin, calm).empty());
  const auto third = tape.play(10 * kS, stolen);
  ASSERT_EQ(third.size(), 1U);
  EXPECT_TRUE(third[0].fires());
}

// The busiest CPU's stolen time: of all CPUs together it is little.
TEST(Condition, SaysHowMuchOfTheBusiestCpuWasStolen) {
  for (const auto& [metric, name] :
       {std::pair(Metric::cpu_hottest, "cpu.hottest"), std::pair(Metric::cpu_lopsided, "cpu.lopsided")}) {
    Tape tape("\"t\": {\"metric\": \"" + std::string(name) + "\", \"above\": \"50%\"}");
    tape.clock.go(100 * kMs);
    MetricPass pass{.time_ns = tape.clock.monotonic_ns, .span_ns = 100 * kMs};
    pass.of(metric) = 94;
    pass.of(Metric::cpu_steal) = 23;
    pass.cpus = {
        {.cpu = 0, .busy = 2}, {.cpu = 1, .busy = 96, .steal = 91}, {.cpu = 2, .busy = 2}, {.cpu = 3, .busy = 2}};
    const auto fired = tape.rules.on_pass(pass, tape.clock.now());
    ASSERT_EQ(fired.size(), 1U) << name;
    EXPECT_THAT(fired[0].reason, AllOf(StartsWith(name), HasSubstr("91 % stolen")));
    EXPECT_EQ(fired[0].fired->stolen, 91) << name;
  }
}

TEST(Condition, TheShippedStealFiresAboveThirtyPercentAndFourTimesADay) {
  Tape tape(*parse_config(built_in_config(), "built-in"));
  const auto stolen = [](double percent) {
    return Tape::Values{{Metric::cpu_busy, percent + 5}, {Metric::cpu_used, 5}, {Metric::cpu_steal, percent}};
  };
  EXPECT_TRUE(tape.play(10 * kMin, stolen(0)).empty());
  EXPECT_TRUE(tape.play(kMin, stolen(30)).empty()) << "not above it";
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(tape.play(16 * kMin, stolen(0), kS).empty());
    EXPECT_EQ(tape.play(10 * kS, stolen(31)).size(), 1U) << i;
  }
  EXPECT_EQ(tape.fired, 4U);
  EXPECT_EQ(tape.held_back, 2U);
}

TEST(Condition, FiresOnceWhenItHeldForItsTime) {
  Tape tape(kLevel);
  tape.play(10 * kS, Metric::cpu_hottest, 12);
  EXPECT_TRUE(tape.play(1900 * kMs, Metric::cpu_hottest, 100).empty());
  const EventTime begin = tape.clock.monotonic_ns - 1900 * kMs;
  EXPECT_EQ(tape.row("t").state, "pending");
  const auto fired = tape.play(100 * kMs, Metric::cpu_hottest, 100);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_TRUE(fired[0].fires());
  EXPECT_THAT(fired[0].reason, AllOf(StartsWith("cpu.hottest 100 % "), HasSubstr("above 90 %"), HasSubstr("for 2.0 s"),
                                     HasSubstr("baseline 12 %"), Not(AnyOf(HasSubstr("stolen"), HasSubstr("jump")))));
  ASSERT_TRUE(fired[0].fired);
  EXPECT_EQ(fired[0].fired->metric, "cpu.hottest");
  EXPECT_EQ(fired[0].fired->value, 100);
  EXPECT_EQ(fired[0].fired->threshold, 90);
  EXPECT_EQ(fired[0].fired->baseline, 12);
  EXPECT_EQ(fired[0].fired->since_ns, begin);
  EXPECT_TRUE(tape.play(10 * kMin, Metric::cpu_hottest, 100).empty()) << "one firing for one crossing";
  EXPECT_EQ(tape.row("t").state, "fired");
}

TEST(Condition, AShorterOrLowerValueDoesNotFire) {
  Tape tape(kLevel);
  for (int i = 0; i < 20; ++i) {
    tape.play(1500 * kMs, Metric::cpu_hottest, 100);
    tape.play(3 * kS, Metric::cpu_hottest, 5);
  }
  tape.play(10 * kMin, Metric::cpu_hottest, 90);  // a value at the limit does not fire
  EXPECT_EQ(tape.fired + tape.held_back, 0U);
}

TEST(Condition, IsArmedAgainWhenItWasOverForAsLong) {
  Tape tape(kLevel, kWideGuard);
  tape.play(3 * kS, Metric::cpu_hottest, 100);
  tape.play(30 * kS, Metric::cpu_hottest, 80);  // between rearm and above
  tape.play(3 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U) << "the hysteresis";
  tape.play(1 * kS, Metric::cpu_hottest, 10);  // shorter than `for`
  tape.play(3 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U);
  tape.play(2500 * kMs, Metric::cpu_hottest, 70);
  EXPECT_EQ(tape.row("t").state, "armed");
  tape.play(3 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 2U);
}

// A thread moves to another CPU in the middle of a pass, so both CPUs look half idle in it.
TEST(Condition, ADipOfAPassEndsNothing) {
  Tape tape(R"("t": {"metric": "cpu.lopsided", "above": "80%", "for": "3s"})", kWideGuard);
  for (int i = 0; i < 20; ++i) {
    tape.play(700 * kMs, Metric::cpu_lopsided, 98);
    tape.play(100 * kMs, Metric::cpu_lopsided, 3);
  }
  EXPECT_EQ(tape.fired, 1U) << "nor is it over for a dip";
  // Being above for half of the time does not satisfy "for".
  Tape half(R"("t": {"metric": "cpu.lopsided", "above": "80%", "for": "3s"})");
  for (int i = 0; i < 200; ++i) {
    half.play(100 * kMs, Metric::cpu_lopsided, 98);
    half.play(100 * kMs, Metric::cpu_lopsided, 3);
  }
  EXPECT_EQ(half.fired, 0U);
}

TEST(Condition, WorksAtEveryInterval) {
  for (const std::uint64_t step : {100 * kMs, 200 * kMs, 800 * kMs, 3200 * kMs}) {
    Tape tape(kLevel);
    tape.play(60 * kS, Metric::cpu_hottest, 10, step);
    const auto fired = tape.play(20 * kS, Metric::cpu_hottest, 100, step);
    ASSERT_EQ(fired.size(), 1U) << step;
    EXPECT_EQ(tape.fired, 1U) << step;
    // Not early, and not later than the pass in which the time is over.
    const std::uint64_t held = (2 * kS + step - 1) / step * step;
    EXPECT_EQ(fired[0].fired->since_ns, tape.clock.monotonic_ns - (20 * kS) / step * step) << step;
    EXPECT_THAT(fired[0].reason, HasSubstr(fmt::format("for {:.1f} s", static_cast<double>(held) / 1e9)));
  }
}

TEST(Condition, ASuspendIsNoEvidence) {
  Tape tape(kLevel);
  tape.play(10 * kS, Metric::cpu_hottest, 10);
  tape.play(1 * kS, Metric::cpu_hottest, 100);
  tape.play(kHour, Metric::cpu_hottest, 100, kHour);  // one pass over the gap
  EXPECT_EQ(tape.fired, 0U);
  EXPECT_EQ(tape.row("t").state, "armed");
  tape.play(1 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 0U) << "the second before the gap does not count";
  tape.play(1 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U);
}

TEST(Condition, AnUnknownValueIsNone) {
  Tape tape(kLevel);
  tape.play(1500 * kMs, Metric::cpu_hottest, 100);
  tape.play(2 * kS, Tape::Values{});
  EXPECT_EQ(tape.fired, 0U);
  EXPECT_FALSE(tape.row("t").value);
  tape.play(1900 * kMs, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 0U);
}

TEST(Condition, AJumpIsAgainstTheFiveMinutesBefore) {
  Tape tape(kJump, kWideGuard);
  tape.play(10 * kMin, Metric::cpu_busy, 20);
  const auto fired = tape.play(3 * kS, Metric::cpu_busy, 95);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_EQ(fired[0].fired->baseline, 20);
  EXPECT_THAT(fired[0].reason, AllOf(StartsWith("cpu.busy 95 % "), HasSubstr("above 90 %"), HasSubstr("for 2.0 s"),
                                     HasSubstr("baseline 20 %"), Not(AnyOf(HasSubstr("stolen"), HasSubstr("jump")))));
  // The crossing ends, and the value is as high again at once: the median of the 5 minutes is still 20.
  tape.play(5 * kS, Metric::cpu_busy, 20);
  tape.play(3 * kS, Metric::cpu_busy, 95);
  EXPECT_EQ(tape.fired, 2U);
}

// Level AND jump: one without the other does not fire.
TEST(Condition, ABusyMachineIsNoJumpAndAJumpToHalfNoLevel) {
  Tape busy(kJump);
  busy.play(10 * kMin, Metric::cpu_busy, 65);
  busy.play(10 * kMin, Metric::cpu_busy, 94);
  EXPECT_EQ(busy.fired, 0U) << "29 more than before";
  Tape half(kJump);
  half.play(10 * kMin, Metric::cpu_busy, 2);
  half.play(10 * kMin, Metric::cpu_busy, 60);
  EXPECT_EQ(half.fired, 0U);
}

// The longer the crossing lasts, the more of the 5 minutes belongs to it. So the earlier baseline is kept while it is
// pending.
TEST(Condition, TheBaselineStandsWhileItIsPending) {
  Tape tape(R"("t": {"metric": "cpu.busy", "above": "90%", "delta": "30%", "for": "10min"})");
  tape.play(10 * kMin, Metric::cpu_busy, 10);
  tape.play(9 * kMin, Metric::cpu_busy, 99);
  EXPECT_EQ(tape.fired, 0U);
  const auto fired = tape.play(2 * kMin, Metric::cpu_busy, 99);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_EQ(fired[0].fired->baseline, 10);
}

TEST(Condition, AJumpNeedsAPast) {
  Tape tape(kJump);
  tape.play(30 * kS, Metric::cpu_busy, 10);
  EXPECT_EQ(tape.row("t").state, "warming up");
  tape.play(20 * kS, Metric::cpu_busy, 99);
  EXPECT_EQ(tape.fired, 0U) << "60 s by default";
  tape.play(9 * kS, Metric::cpu_busy, 10);
  tape.play(2 * kS, Metric::cpu_busy, 10);
  EXPECT_EQ(tape.row("t").state, "armed");
  tape.play(3 * kS, Metric::cpu_busy, 99);
  EXPECT_EQ(tape.fired, 1U);
}

TEST(Condition, WarmupIsTheAdmins) {
  Tape none(R"("t": {"metric": "cpu.busy", "delta": "30%", "for": "1s", "warmup": "0s"})");
  none.play(3 * kS, Metric::cpu_busy, 10);
  none.play(2 * kS, Metric::cpu_busy, 60);
  EXPECT_EQ(none.fired, 1U);
  Tape longer(R"("t": {"metric": "cpu.hottest", "above": "90%", "warmup": "5min"})");
  longer.play(4 * kMin, Metric::cpu_hottest, 100);
  EXPECT_EQ(longer.fired, 0U);
  longer.play(2 * kMin, Metric::cpu_hottest, 100);
  EXPECT_EQ(longer.fired, 1U) << "it still holds when it is warm";
}

TEST(Condition, AJumpAloneIsOverWhenItIsDownAgain) {
  Tape tape(R"("t": {"metric": "tasks.running", "delta": 10, "for": "1s"})", kWideGuard);
  tape.play(2 * kMin, Metric::tasks_running, 4);
  const auto fired = tape.play(5 * kS, Metric::tasks_running, 15);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_EQ(fired[0].fired->threshold, 14);
  EXPECT_THAT(fired[0].reason, AllOf(StartsWith("tasks.running 15 "), HasSubstr("above 14 "), HasSubstr("for 1.0 s"),
                                     HasSubstr("jump"), HasSubstr("baseline 4)"), Not(HasSubstr("%"))));
  tape.play(5 * kS, Metric::tasks_running, 13);
  tape.play(5 * kS, Metric::tasks_running, 15);
  EXPECT_EQ(tape.fired, 2U);
}

TEST(Condition, BelowIsTheOtherWayRound) {
  Tape tape(R"("t": {"metric": "cpu.busy", "below": "5%", "delta": "50%", "for": "2s", "rearm": "20%"})", kWideGuard);
  tape.play(2 * kMin, Metric::cpu_busy, 80);
  const auto fired = tape.play(3 * kS, Metric::cpu_busy, 1);
  ASSERT_EQ(fired.size(), 1U);
  EXPECT_THAT(fired[0].reason, AllOf(StartsWith("cpu.busy 1 % "), HasSubstr("below 5 %"), HasSubstr("for 2.0 s"),
                                     HasSubstr("baseline 80 %"), Not(AnyOf(HasSubstr("stolen"), HasSubstr("jump")))));
  tape.play(5 * kS, Metric::cpu_busy, 10);
  tape.play(3 * kS, Metric::cpu_busy, 1);
  EXPECT_EQ(tape.fired, 1U);
  tape.play(3 * kS, Metric::cpu_busy, 25);
  tape.play(3 * kS, Metric::cpu_busy, 1);
  EXPECT_EQ(tape.fired, 2U);
}

TEST(Condition, WithoutForOnePassIsEnough) {
  Tape tape(R"("t": {"metric": "cpu.hottest", "above": "90%"})", kWideGuard);
  tape.play(100 * kMs, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U);
  tape.play(100 * kMs, Metric::cpu_hottest, 50);
  tape.play(100 * kMs, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 2U);
}

TEST(Condition, InWords) {
  Tape tape(kJump + "," +
            R"("b": {"metric": "tasks.running", "below": 2}, "d": {"metric": "tasks.blocked", "delta": 3},)"
            R"("l": {"metric": "cpu.hottest", "above": "90%", "for": "1.5s"},)"
            R"("u": {"metric": "cpu.busy", "below": "5%", "delta": "40%", "for": "30s"})");
  EXPECT_THAT(tape.row("t").condition, AllOf(StartsWith("cpu.busy above 90 %"), HasSubstr("30 points above the median"),
                                             HasSubstr("5 minutes before"), EndsWith("for 2 s")));
  EXPECT_EQ(tape.row("b").condition, "tasks.running below 2");
  EXPECT_THAT(tape.row("d").condition,
              AllOf(StartsWith("tasks.blocked 3 above the median"), EndsWith("5 minutes before"),
                    Not(AnyOf(HasSubstr("points"), HasSubstr("%")))));
  EXPECT_THAT(tape.row("l").condition,
              AllOf(StartsWith("cpu.hottest above 90 %"), EndsWith("for 1.5 s"), Not(HasSubstr("median"))));
  EXPECT_THAT(tape.row("u").condition, AllOf(StartsWith("cpu.busy below 5 %"), HasSubstr("40 points below the median"),
                                             HasSubstr("5 minutes before"), EndsWith("for 30 s")));
}

}  // namespace
}  // namespace flight
