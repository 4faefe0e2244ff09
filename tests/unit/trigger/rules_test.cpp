// SPDX-License-Identifier: Apache-2.0
// The rules as a whole: events, requests of clients, storms, notifications, and reloads.
#include "libcore/trigger/rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

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
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kLevelRule = R"("t": {"metric": "cpu.hottest", "above": "90%", "for": "2s")";

TEST(TriggerRules, AnEventsReasonHasItsDetail) {
  Tape tape(R"("oom": {"event": "oom:mark_victim", "post": "500ms", "last": "10s", "capture": "live"})");
  const auto decision = tape.rules.on_event("oom", "oom:mark_victim: pid=12 \x1b[31mcomm=x", tape.clock.now());
  ASSERT_TRUE(decision && decision->fires());
  EXPECT_EQ(decision->trigger, "oom");
  EXPECT_EQ(decision->reason, "oom:mark_victim: pid=12 ?[31mcomm=x") << "it ends up in a terminal";
  EXPECT_FALSE(decision->fired) << "that is a metric's";
  EXPECT_EQ(decision->post, std::chrono::milliseconds(500));
  EXPECT_EQ(decision->last, std::chrono::seconds(10));
  EXPECT_EQ(decision->capture, CaptureMode::live);
  EXPECT_EQ(tape.rules.on_event("oom", "", tape.clock.now())->reason, "oom:mark_victim");
  EXPECT_LT(tape.rules.on_event("oom", std::string(5000, 'x'), tape.clock.now())->reason.size(), 500U);
  EXPECT_FALSE(tape.rules.on_event("none", "", tape.clock.now()));
}

TEST(TriggerRules, OneThatIsFiredFromOutside) {
  Tape tape(R"("slow": {"external": true, "cooldown": "10min"}, "oom": {"event": "oom:mark_victim"})");
  EXPECT_EQ(tape.rules.on_external("slow", "checkout took 4 s", tape.clock.now())->reason, "checkout took 4 s");
  const auto held = tape.rules.on_external("slow", "", tape.clock.now());
  EXPECT_EQ(held->by, SuppressedBy::cooldown);
  EXPECT_EQ(held->until_ns, tape.clock.monotonic_ns + 10 * kMin);
  EXPECT_EQ(held->until, tape.clock.wall + std::chrono::minutes(10));
  EXPECT_EQ(tape.rules.on_external("slw", "", tape.clock.now()).error().errno_value(), ENOENT);
  const auto other = tape.rules.on_external("oom", "", tape.clock.now());
  EXPECT_EQ(other.error().errno_value(), EINVAL);
  EXPECT_THAT(other.error().what, HasSubstr("\"external\": true"));
}

TEST(TriggerRules, TheLastFiringOfADaySaysUntilWhenItIsBlind) {
  Tape tape(R"("slow": {"external": true, "max_per_day": 2}, "oom": {"event": "oom:mark_victim"})");
  const WallTime begin = tape.clock.wall;
  EXPECT_EQ(tape.rules.on_external("slow", "", tape.clock.now())->blind_until, std::nullopt);
  tape.clock.go(kHour);
  EXPECT_EQ(tape.rules.test("slow", tape.clock.now())->blind_until, std::nullopt) << "a test uses up nothing";
  const auto last = tape.rules.on_external("slow", "", tape.clock.now());
  EXPECT_EQ(last->blind_until, begin + std::chrono::hours(24));
  EXPECT_EQ(last->max_per_day, 2U);
  EXPECT_EQ(tape.rules.on_external("slow", "", tape.clock.now())->until, last->blind_until);
  EXPECT_EQ(tape.rules.on_event("oom", "", tape.clock.now())->blind_until, std::nullopt);
}

TEST(TriggerRules, AFiringThatLeftNoSnapshotUsesUpNoDay) {
  Tape tape(R"("slow": {"external": true, "max_per_day": 1, "cooldown": "1min"})");
  EXPECT_TRUE(tape.rules.on_external("slow", "", tape.clock.now())->fires());
  tape.rules.note_lost("slow", "the disk is full");
  EXPECT_THAT(tape.row("slow").note, HasSubstr("the disk is full"));
  EXPECT_EQ(tape.rules.on_external("slow", "", tape.clock.now())->by, SuppressedBy::cooldown)
      << "a full disk is not tried without end";
  tape.clock.go(2 * kMin);
  EXPECT_TRUE(tape.rules.on_external("slow", "", tape.clock.now())->fires());
  tape.clock.go(2 * kMin);
  EXPECT_EQ(tape.rules.on_external("slow", "", tape.clock.now())->by, SuppressedBy::max_per_day);
}

TEST(TriggerRules, ARecordingBelongsToTheAction) {
  Tape tape(R"("hot": {"external": true, "action": {"record": "2min"}}, "oom": {"event": "oom:mark_victim"})");
  EXPECT_EQ(tape.rules.on_external("hot", "", tape.clock.now())->record, std::chrono::minutes(2));
  EXPECT_EQ(tape.rules.test("hot", tape.clock.now())->record, std::chrono::minutes(2));
  EXPECT_EQ(tape.rules.on_event("oom", "", tape.clock.now())->record, std::chrono::nanoseconds(0));
}

TEST(TriggerRules, WhatBecameOfItsRecordingsIsCounted) {
  const std::string hot = R"("hot": {"external": true, "max_per_day": 1, "action": {"record": "2min"}})";
  Tape tape(hot);
  EXPECT_TRUE(tape.rules.on_external("hot", "", tape.clock.now())->fires());
  tape.rules.note_recording("hot", "12");
  EXPECT_EQ(tape.row("hot").recording, "12");
  EXPECT_EQ(tape.row("hot").recordings, 1U);
  EXPECT_EQ(tape.row("hot").recordings_failed, 0U);
  EXPECT_THAT(tape.row("hot").note, Not(HasSubstr("recording")));
  tape.rules.note_unrecorded("hot", "2 recordings run already \x1b[31m");
  EXPECT_EQ(tape.row("hot").recordings_failed, 1U);
  EXPECT_EQ(tape.row("hot").recording, "12") << "the last one that there is";
  EXPECT_THAT(tape.row("hot").note, HasSubstr("made no recording: 2 recordings run already ?[31m"));
  EXPECT_FALSE(tape.rules.on_external("hot", "", tape.clock.now())->fires()) << "its snapshot was taken: it counts";
  const Config next = test::config_of(hot);
  tape.rules.replace(next.triggers, next.storm_guard, tape.clock.now());
  EXPECT_EQ(tape.row("hot").recordings, 1U);
  EXPECT_EQ(tape.row("hot").recordings_failed, 1U);
  EXPECT_EQ(tape.row("hot").recording, "12");
  EXPECT_THAT(tape.row("hot").note, HasSubstr("made no recording"));
  tape.rules.note_recording("hot", "15");
  EXPECT_THAT(tape.row("hot").note, Not(HasSubstr("made no recording")));
  // It is gone after a reload, and its recording ends later.
  tape.rules.note_recording("gone", "16");
  tape.rules.note_unrecorded("gone", "the disk is full");
}

TEST(TriggerRules, WhileNothingIsRecordedNothingIsUsedUp) {
  Tape tape(R"("slow": {"external": true, "max_per_day": 1})");
  tape.rules.set_recording(false);
  const auto paused = tape.rules.on_external("slow", "", tape.clock.now());
  EXPECT_EQ(paused->by, SuppressedBy::not_recording);
  EXPECT_EQ(tape.row("slow").suppressed, 1U);
  tape.rules.set_recording(true);
  EXPECT_TRUE(tape.rules.on_external("slow", "", tape.clock.now())->fires());
  EXPECT_FALSE(tape.rules.on_external("slow", "", tape.clock.now())->fires());
  const auto ended = tape.rules.take_ended_windows(tape.clock.now(), /*all=*/true);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].by_text(), fmt::format("{} (1), {} (1)", to_string(SuppressedBy::max_per_day),
                                            to_string(SuppressedBy::not_recording)));
}

TEST(TriggerRules, SwitchedOffAndOn) {
  Tape tape(kLevelRule + R"(}, "slow": {"external": true}, "oom": {"event": "oom:mark_victim", "enabled": false})");
  ASSERT_TRUE(tape.rules.enable("t", false));
  tape.play(10 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired + tape.held_back, 0U);
  EXPECT_EQ(tape.row("t").state, "off");
  EXPECT_EQ(tape.row("t").note, "disabled by a user");
  ASSERT_TRUE(tape.rules.enable("slow", false));
  EXPECT_EQ(tape.rules.on_external("slow", "", tape.clock.now())->by, SuppressedBy::disabled);
  EXPECT_EQ(tape.row("slow").suppressed, 0U);
  EXPECT_FALSE(tape.rules.on_event("oom", "", tape.clock.now()));
  // The broker does not watch an event that the configuration has off.
  const auto unwatched = tape.rules.enable("oom", true);
  ASSERT_FALSE(unwatched);
  EXPECT_THAT(unwatched.error().what, HasSubstr("flightctl reload"));
  // The trigger is on again: an existing condition counts as a crossing from now on.
  ASSERT_TRUE(tape.rules.enable("t", true));
  tape.play(1900 * kMs, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 0U);
  tape.play(200 * kMs, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U);
  EXPECT_EQ(tape.rules.enable("none", true).error().errno_value(), ENOENT);
}

TEST(TriggerRules, ATestRunsTheActionAndCountsAgainstNoLimit) {
  Tape tape(kLevelRule + R"(, "cooldown": "1h", "max_per_day": 1, "post": "1s"})");
  tape.play(5 * kS, Metric::cpu_hottest, 12);
  for (int i = 0; i < 20; ++i) {
    const auto decision = tape.rules.test("t", tape.clock.now());
    ASSERT_TRUE(decision);
    EXPECT_TRUE(decision->fires());
    EXPECT_THAT(decision->reason,
                AllOf(StartsWith("test "), HasSubstr(" armed"), HasSubstr("cpu.hottest"), HasSubstr(" 12 %")));
    EXPECT_EQ(decision->post, std::chrono::seconds(1));
  }
  EXPECT_EQ(tape.row("t").fired, 20U);
  EXPECT_EQ(tape.row("t").fired_at, tape.clock.now().wall);
  tape.play(5 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U);
  EXPECT_EQ(tape.row("t").fired, 21U);
  // A test without a snapshot does not give the day's firing back.
  tape.rules.note_lost("t", "the disk is full", /*test=*/true);
  tape.play(5 * kS, Metric::cpu_hottest, 12);
  tape.clock.go(2 * kHour);
  tape.play(5 * kS, Metric::cpu_hottest, 12);
  tape.play(5 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U);
  EXPECT_EQ(tape.held_back, 1U);
  EXPECT_EQ(tape.rules.test("none", tape.clock.now()).error().errno_value(), ENOENT);
}

// A thousand firings in a minute: the policy admits some, all of them are counted, and there is one notification per
// window.
TEST(TriggerRules, AStorm) {
  Tape tape(R"("slow": {"external": true, "max_per_hour": 3}, "oom": {"event": "oom:mark_victim"})",
            R"(, "storm_guard": {"burst": 5, "per_hour": 4})");
  std::map<std::string, int> fired, firsts;
  for (int i = 0; i < 1000; ++i) {
    tape.clock.go(60 * kMs);
    const auto now = tape.clock.now();
    const Decision decision =
        i % 2 == 0 ? *tape.rules.on_external("slow", "", now) : *tape.rules.on_event("oom", "", now);
    if (decision.fires())
      ++fired[decision.trigger];
    else
      firsts[decision.trigger] += decision.first ? 1 : 0;
  }
  EXPECT_EQ(fired["slow"], 3);
  EXPECT_EQ(fired["oom"], 2) << "the guard is over all of them";
  EXPECT_EQ(tape.row("slow").suppressed, 497U);
  EXPECT_EQ(tape.row("oom").suppressed, 498U);
  EXPECT_EQ(firsts["slow"], 1);
  EXPECT_EQ(firsts["oom"], 1);

  EXPECT_TRUE(tape.rules.take_ended_windows(tape.clock.now()).empty()) << "they are not over yet";
  tape.clock.go(kHour);
  const auto ended = tape.rules.take_ended_windows(tape.clock.now());
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].trigger, "slow");
  EXPECT_EQ(ended[0].count, 497U);
  EXPECT_EQ(ended[0].by_text(), "max_per_hour");
  EXPECT_LT(ended[0].first, ended[0].last);
  EXPECT_EQ(ended[1].count, 498U);
  EXPECT_EQ(ended[1].by_text(), "storm guard");
  EXPECT_TRUE(tape.rules.take_ended_windows(tape.clock.now()).empty()) << "once";
}

// However short the limit, there is at most one window a minute; however long, one an hour. An open window is reported
// at the end.
TEST(TriggerRules, WindowsAreNeitherTooShortNorTooLong) {
  Tape tape(R"("fast": {"external": true, "cooldown": "100ms"}, "daily": {"external": true, "max_per_day": 1})",
            R"(, "storm_guard": {"burst": 1000, "per_hour": 1000})");
  std::map<std::string, std::uint64_t> windows, counted;
  const auto take = [&](bool all) {
    for (const SuppressedWindow& window : tape.rules.take_ended_windows(tape.clock.now(), all)) {
      ++windows[window.trigger];
      counted[window.trigger] += window.count;
    }
  };
  for (int i = 0; i < 2 * 600; ++i) {  // two minutes
    tape.clock.go(100 * kMs);
    for (int j = 0; j < 3; ++j) static_cast<void>(tape.rules.on_external("fast", "", tape.clock.now()));
    static_cast<void>(tape.rules.on_external("daily", "", tape.clock.now()));
    take(false);
  }
  EXPECT_LE(windows["fast"], 2U);
  EXPECT_EQ(windows["daily"], 0U);
  tape.clock.go(kHour);
  take(false);
  EXPECT_EQ(windows["daily"], 1U);
  static_cast<void>(tape.rules.on_external("daily", "", tape.clock.now()));
  take(true);
  EXPECT_EQ(windows["daily"], 2U);
  EXPECT_EQ(counted["fast"], tape.row("fast").suppressed);
  EXPECT_EQ(counted["daily"], tape.row("daily").suppressed);
}

TEST(TriggerRules, AReloadKeepsWhatDidNotChange) {
  const std::string same = kLevelRule + R"(, "cooldown": "1h"})";
  Tape tape(same + R"(, "gone": {"external": true, "cooldown": "1h"}, "other": {"external": true, "max_per_day": 2})");
  tape.play(20 * kS, Metric::cpu_hottest, 5);
  tape.play(3 * kS, Metric::cpu_hottest, 100);
  ASSERT_EQ(tape.fired, 1U);
  static_cast<void>(tape.rules.on_external("other", "", tape.clock.now()));
  for (int i = 0; i < 3; ++i) static_cast<void>(tape.rules.on_external("gone", "", tape.clock.now()));
  tape.rules.note_snapshot("t", "9");

  const Config next =
      test::config_of(same + R"(, "other": {"external": true, "max_per_day": 1}, "new": {"external": true})");
  tape.rules.replace(next.triggers, next.storm_guard, tape.clock.now());
  EXPECT_EQ(tape.row("t").state, "fired") << "the crossing goes on";
  EXPECT_EQ(tape.row("t").fired, 1U);
  EXPECT_EQ(tape.row("t").snapshot, "9");
  tape.play(10 * kS, Metric::cpu_hottest, 100);
  EXPECT_EQ(tape.fired, 1U);
  EXPECT_EQ(tape.rules.history().baseline(Metric::cpu_hottest, tape.clock.monotonic_ns - 20 * kS), 5);
  EXPECT_EQ(tape.rules.on_external("other", "", tape.clock.now())->by, SuppressedBy::max_per_day)
      << "what it did still counts";
  EXPECT_TRUE(tape.rules.on_external("new", "", tape.clock.now())->fires());
  EXPECT_EQ(tape.row("gone").name, "");
  const auto ended = tape.rules.take_ended_windows(tape.clock.now());
  ASSERT_EQ(ended.size(), 1U) << "what was held back is reported, though its trigger is gone";
  EXPECT_EQ(ended[0].count, 2U);
}

TEST(TriggerRules, AChangedConditionBeginsAnew) {
  Tape tape(kLevelRule + "}");
  tape.play(3 * kS, Metric::cpu_hottest, 95);
  ASSERT_EQ(tape.fired, 1U);
  const Config next = test::config_of(R"("t": {"metric": "cpu.hottest", "above": "80%", "for": "2s"})");
  tape.rules.replace(next.triggers, next.storm_guard, tape.clock.now());
  EXPECT_EQ(tape.row("t").state, "armed");
  EXPECT_EQ(tape.row("t").fired, 1U);
}

TEST(TriggerRules, AHandsSwitchOutlivesAReloadButNotItsOwnKey) {
  Tape tape(R"("a": {"external": true}, "b": {"external": true})");
  ASSERT_TRUE(tape.rules.enable("a", false));
  ASSERT_TRUE(tape.rules.enable("b", false));
  Config next =
      test::config_of(R"("a": {"external": true, "cooldown": "1s"}, "b": {"external": true, "enabled": false})");
  tape.rules.replace(next.triggers, next.storm_guard, tape.clock.now());
  EXPECT_FALSE(tape.row("a").enabled);
  next = test::config_of(R"("a": {"external": true, "cooldown": "1s"}, "b": {"external": true})");
  tape.rules.replace(next.triggers, next.storm_guard, tape.clock.now());
  EXPECT_TRUE(tape.row("b").enabled) << "the file was changed since";
}

TEST(TriggerRules, RowsShowTheState) {
  Tape tape(
      kLevelRule +
      R"(, "rearm": "70%", "cooldown": "5min", "warmup": "10s"}, "oom": {"event": {"event": "oom:mark_victim", "filter": "pid > 1"}},
                       "slow": {"external": true}, "off": {"external": true, "enabled": false})");
  tape.play(4 * kS, Metric::cpu_hottest, 33);
  EXPECT_EQ(tape.row("t").state, "warming up");
  EXPECT_EQ(tape.row("t").note, "6.0 s more");
  EXPECT_EQ(tape.row("t").value, 33);
  EXPECT_TRUE(tape.row("t").share);
  tape.play(6 * kS, Metric::cpu_hottest, 33);
  EXPECT_EQ(tape.row("t").state, "armed");
  tape.play(1 * kS, Metric::cpu_hottest, 99);
  EXPECT_EQ(tape.row("t").state, "pending");
  EXPECT_EQ(tape.row("t").note, "for 1.0 s");
  tape.play(1 * kS, Metric::cpu_hottest, 99);
  tape.rules.note_snapshot("t", "7");
  EXPECT_EQ(tape.row("t").state, "fired");
  EXPECT_THAT(tape.row("t").note,
              AllOf(HasSubstr("not over"), HasSubstr("for 2.0 s"), HasSubstr("armed again at 70 %")));
  EXPECT_EQ(tape.row("t").fired, 1U);
  EXPECT_EQ(tape.row("t").snapshot, "7");
  EXPECT_EQ(tape.row("t").fired_at, tape.clock.wall);
  tape.play(3 * kS, Metric::cpu_hottest, 5);
  EXPECT_EQ(tape.row("t").state, "held back");
  EXPECT_THAT(tape.row("t").note, StartsWith("cooldown until 20"));
  EXPECT_EQ(tape.row("oom").condition, "oom:mark_victim if pid > 1");
  EXPECT_EQ(tape.row("slow").condition, "fired from outside");
  EXPECT_EQ(tape.row("off").state, "off");
  tape.rules.note_unavailable("oom", "no such tracepoint");
  EXPECT_EQ(tape.row("oom").state, "unavailable");
  EXPECT_EQ(tape.row("oom").note, "no such tracepoint");
}

// If the kernel has no such source, the shipped triggers are off, with a warning. An admin's trigger is an error, which
// names its place.
TEST(TriggerRules, ATriggerWithoutItsSource) {
  const std::vector<MissingMetric> missing{{Metric::psi_memory_some, "open /proc/pressure/memory: No such file"}};
  const auto shipped = parse_config(built_in_config(), "/etc/flightd/flightd.json");
  ASSERT_TRUE(shipped);
  auto without = triggers_without_source(shipped->triggers, missing);
  ASSERT_EQ(without.size(), 1U);
  EXPECT_TRUE(without[0].shipped) << "a copy of the shipped file asks for nothing";
  EXPECT_THAT(without[0].text(),
              AllOf(HasSubstr("'psi-memory' is off"), EndsWith(": " + missing[0].why), Not(HasSubstr("/etc/"))));
  const auto own = parse_config("{\"triggers\": {\n\"stall\": {\n\"metric\": \"psi.memory.some\", \"above\": \"5%\"}}}",
                                "/etc/x.json");
  ASSERT_TRUE(own);
  without = triggers_without_source(own->triggers, missing);
  ASSERT_EQ(without.size(), 1U);
  EXPECT_FALSE(without[0].shipped);
  EXPECT_THAT(without[0].text(), StartsWith("/etc/x.json:3: trigger 'stall' cannot work"));
  TriggerRules rules(own->triggers, own->storm_guard, missing);
  EXPECT_EQ(rules.rows(test::Clock{}.now()).at(0).state, "unavailable");
  EXPECT_EQ(rules.rows(test::Clock{}.now()).at(0).note, missing[0].why);
  rules.set_missing({{Metric::psi_io_some, "open /proc/pressure/io: No such file"}});
  EXPECT_NE(rules.rows(test::Clock{}.now()).at(0).state, "unavailable");
}

}  // namespace
}  // namespace flight
