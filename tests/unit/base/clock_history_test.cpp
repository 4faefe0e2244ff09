// SPDX-License-Identifier: Apache-2.0
// What the wall clock showed, while it is set, while the machine is suspended, and after very many changes.
#include "libcore/base/clock_history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::Each;
using testing::Field;
using testing::IsEmpty;

constexpr EventTime kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr WallTime kNoon = seconds(1795176000);  // 2026-11-20T12:00:00Z

// A machine that looks at its clocks.
class Machine {
 public:
  // `every`: the interval of the looks.
  void run(nanoseconds time, nanoseconds every = milliseconds(100)) {
    for (nanoseconds done{}; done < time; done += every) {
      monotonic_ns += static_cast<EventTime>(every.count());
      if (looks) history.look(now());
    }
  }
  void set(nanoseconds by) { wall += by; }
  void suspend(nanoseconds time) {
    slept += time;
    wall += time;
  }
  [[nodiscard]] ClockTriple now(std::uint64_t took_ns = 0) const {
    const nanoseconds passed(static_cast<std::int64_t>(monotonic_ns));
    return {.monotonic_ns = monotonic_ns,
            .boottime_ns = static_cast<std::uint64_t>((passed + slept).count()),
            .wall = wall + passed,
            .took_ns = took_ns};
  }

  EventTime monotonic_ns = 0;
  WallTime wall = kNoon;  // minus monotonic_ns
  nanoseconds slept{};
  bool looks = true;
  ClockHistory history;
};

TEST(ClockHistory, KeepsATripleEachMinute) {
  Machine machine;
  machine.run(hours(1));
  EXPECT_EQ(machine.history.triples().size(), 60U);
  EXPECT_THAT(machine.history.steps(0, UINT64_MAX), IsEmpty());
  EXPECT_EQ(machine.history.known_from_ns(), 100 * kMs);
  EXPECT_EQ(machine.history.wall_at(1800 * kSecond), kNoon + seconds(1800));
  EXPECT_EQ(machine.history.wall_at(0), kNoon) << "before the first look";
  EXPECT_EQ(machine.history.wall_at(7200 * kSecond), kNoon + hours(2)) << "after the last one";
  EXPECT_EQ(machine.history.pair_at(5).monotonic_ns, 5U);
}

// Each change, in both directions, and a time of the old and of the new clock.
TEST(ClockHistory, ATimeIsWhatTheClockShowedThen) {
  for (const nanoseconds by :
       {nanoseconds(hours(1)), nanoseconds(hours(-1)), nanoseconds(hours(24 * 40)), nanoseconds(hours(-24 * 40)),
        nanoseconds(milliseconds(60)), nanoseconds(milliseconds(-60))}) {
    Machine machine;
    machine.run(seconds(30));
    machine.set(by);
    machine.run(seconds(30));
    const ClockHistory& clock = machine.history;
    EXPECT_EQ(clock.wall_at(10 * kSecond), kNoon + seconds(10));
    EXPECT_EQ(clock.wall_at(40 * kSecond), kNoon + seconds(40) + by);
    EXPECT_EQ(clock.event_at(kNoon + seconds(10), 60 * kSecond), 10 * kSecond);
    EXPECT_EQ(clock.event_at(kNoon + seconds(40) + by, 60 * kSecond), 40 * kSecond);
    const auto steps = clock.steps(0, UINT64_MAX);
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_EQ(steps[0].looked_ns, 30 * kSecond) << "known to the interval of the looks";
    EXPECT_EQ(steps[0].ns, 30 * kSecond + 100 * kMs);
    EXPECT_EQ(steps[0].after - steps[0].before, by);
    EXPECT_EQ(steps[0].after, clock.wall_at(steps[0].ns));
    EXPECT_EQ(steps[0].slept, nanoseconds(0));
    EXPECT_THAT(clock.steps(steps[0].ns, UINT64_MAX), IsEmpty());
    EXPECT_THAT(clock.steps(0, steps[0].ns - 1), IsEmpty());
  }
}

TEST(ClockHistory, ATimeThatWasTwiceIsTheLaterOneAndOneThatNeverWasTheMomentOfTheChange) {
  Machine machine;
  machine.run(seconds(30));
  machine.set(seconds(-10));  // 12:00:20 to 12:00:30 are twice
  machine.run(seconds(30));
  machine.set(hours(1));  // 12:00:50 to 13:00:50 are missing
  machine.run(seconds(30));
  const ClockHistory& clock = machine.history;
  const EventTime now_ns = machine.monotonic_ns;
  EXPECT_EQ(clock.event_at(kNoon + seconds(25), now_ns), 35 * kSecond);
  EXPECT_EQ(clock.event_at(kNoon + seconds(15), now_ns), 15 * kSecond) << "once";
  EXPECT_EQ(clock.event_at(kNoon + seconds(45), now_ns), 55 * kSecond) << "once";
  EXPECT_EQ(clock.event_at(kNoon + milliseconds(30 * 60'000), now_ns), 60 * kSecond + 100 * kMs) << "never";
  EXPECT_EQ(clock.event_at(kNoon - hours(9000), now_ns), 0U) << "before the machine started";
}

TEST(ClockHistory, TheLastTimeAtWhichATimeCanHaveBeenShownIsAlsoBetweenTwoLooks) {
  for (const nanoseconds by : {nanoseconds(hours(1)), nanoseconds(hours(-1))}) {
    Machine machine;
    machine.run(seconds(30));
    machine.monotonic_ns += 40 * kMs;
    const ClockTriple before = machine.now();
    machine.set(by);
    machine.monotonic_ns += 40 * kMs;
    const ClockTriple after = machine.now();
    machine.run(seconds(30));
    const ClockPair now = machine.now().pair();
    EXPECT_EQ(machine.history.latest_at(before.wall, now), before.monotonic_ns);
    EXPECT_EQ(machine.history.latest_at(after.wall, now), after.monotonic_ns);
    EXPECT_EQ(machine.history.latest_at(kNoon + seconds(10), now), 10 * kSecond);
    EXPECT_EQ(machine.history.latest_at(now.wall, now), now.monotonic_ns);
    EXPECT_EQ(machine.history.latest_at(kNoon + by + seconds(10), now).value_or(0), 0U) << "that clock came later";
    EXPECT_EQ(machine.history.latest_at(kNoon + hours(2), now), std::nullopt) << "it is still to come";
  }
  EXPECT_EQ(ClockHistory().latest_at(kNoon, {.wall = kNoon, .monotonic_ns = 7}), 7U);
  EXPECT_EQ(ClockHistory().latest_at(kNoon - hours(1), {.wall = kNoon, .monotonic_ns = 7}), 0U) << "before the boot";
}

// 12:05 was, although the clock shows 11:15 now.
TEST(ClockHistory, ATimeOfBeforeAStepBackIsNotInTheFuture) {
  Machine machine;
  machine.run(seconds(600));
  machine.set(hours(-1));
  machine.run(seconds(300));
  const EventTime now_ns = machine.monotonic_ns;
  EXPECT_EQ(machine.history.event_at(kNoon + seconds(300), now_ns), 300 * kSecond);
  EXPECT_EQ(machine.history.event_at(kNoon + seconds(700), now_ns), 4300 * kSecond) << "it is still to come";
  EXPECT_EQ(machine.history.event_at(kNoon + seconds(300), 4000 * kSecond), 3900 * kSecond) << "within `post`";
}

TEST(ClockHistory, StepsBackAndForthAreAllKnown) {
  Machine machine;
  std::vector<std::pair<EventTime, WallTime>> shown;
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    machine.run(milliseconds(100 + 100 * (random() % 900)));
    shown.emplace_back(machine.monotonic_ns, machine.now().wall);
    machine.set(seconds(static_cast<int>(random() % 7200) - 3600));
  }
  for (const auto& [time_ns, wall] : shown) EXPECT_EQ(machine.history.wall_at(time_ns), wall) << time_ns;
  EXPECT_GE(machine.history.steps(0, UINT64_MAX).size(), 190U);
}

TEST(ClockHistory, ASuspendIsAChangeThatSaysSo) {
  Machine machine;
  machine.run(seconds(30));
  machine.suspend(hours(8));
  machine.run(seconds(30));
  const ClockHistory& clock = machine.history;
  EXPECT_EQ(clock.wall_at(10 * kSecond), kNoon + seconds(10));
  EXPECT_EQ(clock.wall_at(40 * kSecond), kNoon + seconds(40) + hours(8));
  const auto steps = clock.steps(0, UINT64_MAX);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].slept, nanoseconds(hours(8)));
  const std::uint64_t slept = nanoseconds(hours(8)).count();
  EXPECT_EQ(clock.boottime_at(10 * kSecond), 10 * kSecond);
  EXPECT_EQ(clock.boottime_at(40 * kSecond), 40 * kSecond + slept);
  EXPECT_EQ(clock.boottime_at(0), 0U) << "before the first look";
  EXPECT_EQ(ClockHistory().boottime_at(7), 7U);
  const ClockTriple now = machine.now();
  EXPECT_EQ(clock.event_before(now, seconds(5)), 55 * kSecond);
  EXPECT_EQ(clock.event_before(now, hours(1)), 30 * kSecond + 100 * kMs) << "while it was suspended";
  EXPECT_EQ(clock.event_before(now, hours(8) + seconds(50)), 10 * kSecond);
  EXPECT_EQ(clock.event_before(now, hours(24)), 0U);
}

TEST(ClockHistory, ATimeSinceTheBootIsFoundBehindASuspend) {
  Machine machine;
  machine.run(seconds(30));
  machine.suspend(hours(8));
  machine.run(seconds(30));
  const ClockHistory& clock = machine.history;
  const std::uint64_t slept = nanoseconds(hours(8)).count();
  for (const EventTime at : {50 * kMs, 20 * kSecond, 30 * kSecond + 50 * kMs})
    EXPECT_EQ(clock.event_at_boottime(at), at) << "before the suspend";
  for (const EventTime at : {30 * kSecond + 50 * kMs, 40 * kSecond, 90 * kSecond})
    EXPECT_EQ(clock.event_at_boottime(at + slept), at) << "after it";
  EXPECT_EQ(ClockHistory().event_at_boottime(7), 7U);
  ClockHistory late;  // of a flightd that was started after it
  late.look(machine.now());
  EXPECT_EQ(late.event_at_boottime(40 * kSecond + slept), 40 * kSecond);
  EXPECT_EQ(late.event_at_boottime(40 * kSecond), 0U) << "nothing is known, and it was not later";
}

// What is compared with it must not take a process for another one because it seems to be younger than it is.
TEST(ClockHistory, ATimeSinceTheBootIsNeverTooLate) {
  Machine machine;
  std::vector<ClockTriple> moments;
  std::mt19937 random(11);
  const auto between_two_looks = [&] {
    machine.monotonic_ns += (random() % 500) * kMs;
    moments.push_back(machine.now());
  };
  for (int i = 0; i < 500; ++i) {
    machine.run(milliseconds(1 + random() % 3000), milliseconds(1 + random() % 900));
    between_two_looks();
    if (random() % 3 == 0) machine.suspend(milliseconds(200 + random() % 5000));
    between_two_looks();
  }
  machine.run(seconds(1));
  for (const ClockTriple& moment : moments) {
    const EventTime found = machine.history.event_at_boottime(moment.boottime_ns);
    EXPECT_LE(found, moment.monotonic_ns);
    EXPECT_GE(found + kSecond, moment.monotonic_ns) << "it is not before the last look before the suspend";
  }
}

// Between two looks that are far apart, as those of two flightds.
TEST(ClockHistory, ATimeSinceTheBootIsNotTooLateBetweenTwoSuspends) {
  Machine machine;
  machine.run(seconds(10));
  machine.monotonic_ns += 5 * kSecond;
  machine.suspend(hours(1));
  machine.monotonic_ns += 5 * kSecond;
  const ClockTriple between = machine.now();
  machine.suspend(hours(1));
  machine.monotonic_ns += 60 * kSecond;
  machine.run(seconds(1));
  const EventTime found = machine.history.event_at_boottime(between.boottime_ns);
  EXPECT_LE(found, between.monotonic_ns);
  EXPECT_GE(found, 10 * kSecond) << "the last look before";
}

// The kernel's wall clock went on, and something set it back: perf's times are right, and nothing is to be said.
TEST(ClockHistory, ASuspendWithoutAMoveOfTheWallClockIsNoStep) {
  Machine machine;
  machine.run(seconds(30));
  machine.suspend(hours(8));
  machine.set(hours(-8));
  machine.run(seconds(30));
  EXPECT_THAT(machine.history.steps(0, UINT64_MAX), IsEmpty());
  EXPECT_EQ(machine.history.event_before(machine.now(), hours(8) + seconds(50)), 10 * kSecond);
}

// The tenth of a second is by CLOCK_BOOTTIME: it does not matter what the wall clock did.
TEST(ClockHistory, AShortSuspendIsKeptIfItWasLongerThanATenthOfASecond) {
  for (const int milliseconds_slept : {90, 110}) {
    const bool is_kept = milliseconds_slept > 100;
    Machine machine;
    machine.run(seconds(10));
    machine.suspend(milliseconds(milliseconds_slept));
    machine.set(-milliseconds(milliseconds_slept));
    machine.run(seconds(10));
    EXPECT_EQ(machine.history.triples().size(), is_kept ? 3U : 1U) << milliseconds_slept << " ms: both sides of it";
    EXPECT_EQ(machine.history.boottime_at(15 * kSecond), 15 * kSecond + (is_kept ? 110 * kMs : 0));
  }
}

TEST(ClockHistory, ASlewIsNotAStepButManySmallOnesAre) {
  Machine machine;
  for (int i = 0; i < 36'000; ++i) {  // an hour
    machine.run(milliseconds(100));
    machine.set(microseconds(50));
    ASSERT_LE(machine.now().wall - machine.history.wall_at(machine.monotonic_ns), milliseconds(31));
  }
  EXPECT_THAT(machine.history.steps(0, UINT64_MAX), IsEmpty());
  for (int i = 0; i < 100; ++i) {
    machine.run(milliseconds(100));
    machine.set(milliseconds(40));
  }
  EXPECT_GE(machine.history.steps(0, UINT64_MAX).size(), 40U);
}

// A thread that does not run for a minute, and one that is preempted between two readings.
TEST(ClockHistory, ALateLookIsNotAStep) {
  Machine machine;
  machine.run(seconds(10));
  machine.run(seconds(90), seconds(90));
  ClockTriple preempted = machine.now(200 * kMs);
  preempted.monotonic_ns += kSecond;
  preempted.boottime_ns += kSecond;
  preempted.wall += seconds(1) + milliseconds(190);
  machine.history.look(preempted);
  EXPECT_THAT(machine.history.steps(0, UINT64_MAX), IsEmpty());
  machine.set(seconds(1));
  machine.run(seconds(90), seconds(90));
  EXPECT_EQ(machine.history.steps(0, UINT64_MAX).size(), 1U) << "a step while nobody looked";
}

TEST(ClockHistory, AnOlderLookIsIgnored) {
  Machine machine;
  machine.run(seconds(1));
  ClockTriple older = machine.now();
  machine.run(seconds(1));
  older.wall += hours(1);
  EXPECT_EQ(machine.history.look(older), 0U);
  EXPECT_EQ(machine.history.wall_at(kSecond), kNoon + seconds(1));
}

// Three weeks without a change, but for one at the beginning.
TEST(ClockHistory, OldTriplesAreCoarsenedAndChangesStay) {
  Machine machine;
  machine.run(hours(1), seconds(1));
  machine.set(hours(2));
  machine.run(hours(24 * 21), seconds(10));
  EXPECT_LE(machine.history.triples().size(), 4096U);
  EXPECT_EQ(machine.history.forgotten(), 0U);
  EXPECT_EQ(machine.history.known_from_ns(), kSecond);
  const auto steps = machine.history.steps(0, UINT64_MAX);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].ns, 3601 * kSecond + 9 * kSecond) << "by the second interval";
  EXPECT_EQ(steps[0].looked_ns, 3600 * kSecond);
  EXPECT_EQ(machine.history.wall_at(1800 * kSecond), kNoon + seconds(1800));
}

TEST(ClockHistory, ChangesThatAreForgottenAreCounted) {
  Machine machine;
  constexpr int kChanges = 3 * static_cast<int>(ClockHistory::kMaxTriples);
  for (int i = 0; i < kChanges; ++i) {
    machine.run(milliseconds(200));
    machine.set(seconds(i % 2 == 0 ? 60 : -60));
  }
  machine.run(milliseconds(100));
  const ClockHistory& clock = machine.history;
  EXPECT_LE(clock.triples().size(), 4096U);
  EXPECT_GT(clock.forgotten(), 0U);
  EXPECT_EQ(clock.forgotten() + clock.steps(0, UINT64_MAX).size(), std::size_t{kChanges});
  EXPECT_GT(clock.known_from_ns(), 100 * kMs);
}

// The next flightd: the old triples, a time in which nobody looked, its own.
TEST(ClockHistory, TheNextOneKnowsWhatTheOneBeforeKnew) {
  Machine machine;
  machine.run(seconds(30));
  machine.set(hours(1));
  machine.run(seconds(200));
  const std::vector<ClockTriple> kept(machine.history.triples().begin(), machine.history.triples().end());
  const auto earlier = machine.history.steps(0, UINT64_MAX);
  machine.history = ClockHistory();
  machine.looks = false;
  machine.run(seconds(20));
  machine.set(hours(-3));
  machine.run(seconds(20));
  machine.looks = true;
  machine.run(seconds(1));
  machine.history.restore(kept);
  const ClockHistory& clock = machine.history;
  const auto steps = clock.steps(0, UINT64_MAX);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].ns, earlier[0].ns);
  EXPECT_EQ(steps[1].after - steps[1].before, nanoseconds(hours(-3)));
  EXPECT_EQ(steps[1].ns, 270 * kSecond + 100 * kMs) << "its first look";
  EXPECT_GE(steps[1].looked_ns, 170 * kSecond) << "the last triple of the one before";
  EXPECT_EQ(clock.wall_at(10 * kSecond), kNoon + seconds(10));
  EXPECT_EQ(clock.wall_at(240 * kSecond), kNoon + hours(1) + seconds(240)) << "at that time it had not been set";
}

TEST(ClockHistory, ABadCheckpointIsNoHarm) {
  Machine machine;
  machine.run(seconds(1));
  const std::vector<ClockTriple> bad{
      {.monotonic_ns = UINT64_MAX, .boottime_ns = 1, .wall = kNoon},
      {.monotonic_ns = 40, .boottime_ns = UINT64_MAX, .wall = kNoon},
      {.monotonic_ns = 60, .boottime_ns = 1ULL << 60U, .wall = nanoseconds(6'000'000'000'000'000'000)},
      {.monotonic_ns = 50, .boottime_ns = 0, .wall = kNoon},
      {.monotonic_ns = 70, .boottime_ns = 0, .wall = kNoon, .took_ns = UINT64_MAX},
      {.monotonic_ns = 75, .boottime_ns = 0, .wall = WallTime::min()},
      {.monotonic_ns = 80, .boottime_ns = 0, .wall = WallTime(0)},
  };
  machine.history.restore(bad);
  EXPECT_EQ(machine.history.triples()[0].monotonic_ns, 60U);
  EXPECT_EQ(machine.history.triples()[1].monotonic_ns, 80U);
  EXPECT_EQ(machine.history.wall_at(kSecond), kNoon + seconds(1));
  for (const ClockStep& step : machine.history.steps(0, UINT64_MAX))
    EXPECT_NE(step.after - step.before - step.slept, nanoseconds(0));  // no overflow
  static_cast<void>(machine.history.event_at(kNoon, kSecond));
  static_cast<void>(machine.history.event_before(machine.now(), hours(1)));
}

TEST(ClockHistory, ReadsThisMachinesClocks) {
  const ClockTriple first = ClockTriple::now();
  const ClockTriple second = ClockTriple::now();
  EXPECT_LE(first.monotonic_ns, second.monotonic_ns);
  EXPECT_GE(second.boottime_ns, second.monotonic_ns);
  EXPECT_LT(second.took_ns, kSecond);
  ClockHistory history;
  EXPECT_EQ(history.look(first), 1U);
  EXPECT_THAT(history.triples(), Each(Field(&ClockTriple::wall, first.wall)));
}

}  // namespace
}  // namespace flight
