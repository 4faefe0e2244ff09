// SPDX-License-Identifier: Apache-2.0
// Passes are slow while everything is calm. Still no trigger fires later than its "for" plus half a second, nor earlier
// than before: a machine in continuous time, sampled as the trigger thread does it.
#include <gtest/gtest.h>

#include <algorithm>

#include "libcore/trigger/pass_interval.hpp"
#include "tests/unit/trigger/tape.hpp"

namespace flight {
namespace {

using test::kMin;
using test::kMs;
using test::kS;

constexpr std::uint64_t kQuick = 100 * kMs, kSlow = 400 * kMs;

// The metric's value: `calm`, and `high` from `begin_ns` to `end_ns`.
struct Machine {
  double calm = 0, high = 0;
  EventTime begin_ns = UINT64_MAX, end_ns = UINT64_MAX;
  [[nodiscard]] double mean(EventTime from, EventTime to) const {
    const EventTime a = std::clamp(begin_ns, from, to), b = std::clamp(end_ns, from, to);
    return calm + (high - calm) * static_cast<double>(b - a) / static_cast<double>(to - from);
  }
  [[nodiscard]] double level(EventTime at) const { return at > begin_ns && at <= end_ns ? high : calm; }
};

struct Watched {
  std::vector<EventTime> fired_ns;
  std::size_t looks = 0;
};

// The trigger thread's loop until `end_ns`.
Watched watch(test::Tape& tape, Metric metric, const Machine& machine, EventTime end_ns) {
  Watched out;
  const PassInterval interval;
  bool slow = false;
  for (std::uint64_t wait = kQuick; tape.clock.monotonic_ns < end_ns; ++out.looks) {
    tape.clock.go(wait);
    const EventTime now = tape.clock.monotonic_ns;
    MetricPass pass{.time_ns = now, .span_ns = wait, .sure_ns = slow ? kQuick : 0};
    pass.of(metric) = info_of(metric).share ? machine.mean(now - pass.span_ns, now) : machine.level(now);
    for (const Decision& decision : tape.rules.on_pass(pass, tape.clock.now()))
      if (decision.fires()) out.fired_ns.push_back(now);
    wait = static_cast<std::uint64_t>(interval.next(tape.rules.longest_look()).count());
    slow = wait > kQuick;
  }
  return out;
}

struct Case {
  const char* trigger;
  Metric metric;
  double calm, high;
  std::uint64_t for_ns;
};

const Case kCases[] = {
    {R"("metric": "cpu.busy", "above": "90%", "for": "2s")", Metric::cpu_busy, 3, 91, 2 * kS},
    {R"("metric": "cpu.busy", "above": "90%", "for": "2s")", Metric::cpu_busy, 0, 100, 2 * kS},
    {R"("metric": "cpu.busy", "above": "90%", "delta": "30%", "for": "2s")", Metric::cpu_busy, 20, 92, 2 * kS},
    {R"("metric": "cpu.busy", "delta": "30%", "for": "2s")", Metric::cpu_busy, 4, 36, 2 * kS},
    {R"("metric": "cpu.lopsided", "above": "80%", "for": "3s", "rearm": "50%")", Metric::cpu_lopsided, 5, 99, 3 * kS},
    {R"("metric": "psi.memory.some", "above": "25%", "for": "3s")", Metric::psi_memory_some, 0, 100, 3 * kS},
    {R"("metric": "psi.memory.some", "above": "25%", "for": "3s")", Metric::psi_memory_some, 0, 26, 3 * kS},
    {R"("metric": "psi.io.full", "above": "10%", "for": "1s")", Metric::psi_io_full, 0, 50, 1 * kS},
    {R"("metric": "psi.io.full", "above": "10%", "for": "500ms")", Metric::psi_io_full, 0, 50, 500 * kMs},
    {R"("metric": "psi.io.full", "above": "10%", "for": "100ms")", Metric::psi_io_full, 0, 90, 100 * kMs},
    {R"("metric": "psi.io.full", "above": "10%")", Metric::psi_io_full, 0, 90, 0},
    {R"("metric": "cpu.busy", "below": "5%", "for": "10s")", Metric::cpu_busy, 99, 4, 10 * kS},
    {R"("metric": "tasks.running", "above": 8, "for": "2s")", Metric::tasks_running, 1, 9, 2 * kS},
    {R"("metric": "tasks.blocked", "below": 1, "for": "2s")", Metric::tasks_blocked, 7, 0, 2 * kS},
};

// For any position of a crossing between the passes, even if it ends half a second after its time.
void expect_to_fire_in_time_from_every(std::uint64_t step_ns) {
  for (const Case& one : kCases) {
    for (std::uint64_t at = 0; at < kSlow; at += step_ns) {
      test::Tape tape("\"t\": {" + std::string(one.trigger) + "}");
      const Machine calm{.calm = one.calm};
      watch(tape, one.metric, calm, tape.clock.monotonic_ns + 6 * kMin);
      const EventTime begin = tape.clock.monotonic_ns + at, due = begin + one.for_ns;
      const Machine machine{.calm = one.calm, .high = one.high, .begin_ns = begin, .end_ns = due + 500 * kMs};
      const Watched seen = watch(tape, one.metric, machine, due + 10 * kS);
      const std::string what = fmt::format("{}, {} ms behind a look", one.trigger, at / kMs);
      ASSERT_EQ(seen.fired_ns.size(), 1U) << what;
      EXPECT_LE(seen.fired_ns[0], due + 500 * kMs) << what;
      EXPECT_GE(seen.fired_ns[0] + kQuick, due)
          << what;  // as with quick passes only: the value may have been high for half of the first one
    }
  }
}

TEST(Pace, FiresInTimeFromEveryBegin) { expect_to_fire_in_time_from_every(23 * kMs); }
TEST(PaceLong, FiresInTimeFromEveryBegin) { expect_to_fire_in_time_from_every(7 * kMs); }

// A short stall in a slow pass does not count as a long one.
TEST(Pace, AShorterConditionDoesNotFire) {
  for (std::uint64_t at = 0; at < kSlow; at += 7 * kMs) {
    test::Tape tape(R"("t": {"metric": "psi.memory.some", "above": "25%", "for": "2s"})");
    watch(tape, Metric::psi_memory_some, {}, tape.clock.monotonic_ns + kMin);
    const EventTime begin = tape.clock.monotonic_ns + at;
    const Machine machine{.high = 100, .begin_ns = begin, .end_ns = begin + 1700 * kMs};
    EXPECT_TRUE(watch(tape, Metric::psi_memory_some, machine, begin + 10 * kS).fired_ns.empty()) << at;
  }
}

TEST(Pace, ACalmMachineIsLookedAtSlowly) {
  const std::string shipped =
      R"("cpu-spike": {"metric": "cpu.busy", "above": "90%", "delta": "30%", "for": "2s", "rearm": "70%"},
         "psi": {"metric": "psi.memory.some", "above": "25%", "for": "3s", "rearm": "10%"},
         "oom": {"event": "oom:mark_victim"}, "mine": {"external": true})";
  test::Tape tape(shipped);
  EXPECT_EQ(tape.rules.longest_look().count(), 0) << "nothing is known yet";
  tape.play(kQuick, {{Metric::cpu_busy, 5}, {Metric::psi_memory_some, 0}});
  EXPECT_EQ(tape.rules.longest_look(), PassInterval::kCalm);
  tape.play(kQuick, {{Metric::cpu_busy, 5}});
  EXPECT_EQ(tape.rules.longest_look().count(), 0) << "one is not known";
  tape.play(kQuick, {{Metric::cpu_busy, 23}, {Metric::psi_memory_some, 0}});
  EXPECT_EQ(tape.rules.longest_look().count(), 0) << "a quarter of 90 %: the first sign";
  tape.play(kQuick, {{Metric::cpu_busy, 5}, {Metric::psi_memory_some, 7}});
  EXPECT_EQ(tape.rules.longest_look().count(), 0);
  ASSERT_TRUE(tape.rules.enable("psi", false));
  EXPECT_EQ(tape.rules.longest_look(), PassInterval::kCalm) << "one that is off has no say";

  test::Tape alone(R"("t": {"metric": "cpu.busy", "above": "90%", "for": "2s"})");
  const Watched seen = watch(alone, Metric::cpu_busy, {.calm = 3}, alone.clock.monotonic_ns + kMin);
  EXPECT_LE(seen.looks, 152U);
  EXPECT_GE(seen.looks, 150U);
}

TEST(Pace, AShortForAndAPendingOneKeepLooksQuick) {
  const auto after_a_calm_look = [](const std::string& more) {
    test::Tape tape(R"("t": {"metric": "cpu.busy", "above": "90%")" + more + "}");
    tape.play(kQuick, Metric::cpu_busy, 1);
    return tape.rules.longest_look();
  };
  EXPECT_EQ(after_a_calm_look("").count(), 0);
  EXPECT_EQ(after_a_calm_look(R"(, "for": "1s")"), std::chrono::milliseconds(200));
  EXPECT_EQ(after_a_calm_look(R"(, "for": "1h")"), PassInterval::kCalm);

  test::Tape tape(R"("t": {"metric": "cpu.busy", "above": "90%", "for": "5s", "rearm": "70%"})");
  tape.play(2 * kS, Metric::cpu_busy, 95);
  tape.play(kQuick, Metric::cpu_busy, 1);  // a dip
  EXPECT_EQ(tape.row("t").state, "pending");
  EXPECT_EQ(tape.rules.longest_look().count(), 0);
  tape.play(5 * kS, Metric::cpu_busy, 95);
  tape.play(kQuick, Metric::cpu_busy, 1);
  EXPECT_EQ(tape.row("t").state, "fired");
  EXPECT_EQ(tape.rules.longest_look().count(), 0);
  tape.play(6 * kS, Metric::cpu_busy, 1);
  EXPECT_EQ(tape.rules.longest_look(), PassInterval::kCalm) << "armed again";
}

TEST(Pace, WhereLooksAreDearTheyAreNotMadeMoreOften) {
  PassInterval interval;
  EXPECT_EQ(interval.next(std::chrono::seconds(0)), PassInterval::kShortest);
  EXPECT_EQ(interval.next(std::chrono::milliseconds(250)), std::chrono::milliseconds(250));
  EXPECT_EQ(interval.next(std::chrono::hours(1)), PassInterval::kCalm);
  for (int i = 0; i < 100; ++i) interval.note(std::chrono::seconds(1));
  EXPECT_EQ(interval.next(PassInterval::kCalm), PassInterval::kLongest);
}

}  // namespace
}  // namespace flight
