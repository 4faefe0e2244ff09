// SPDX-License-Identifier: Apache-2.0
// Random lives, drained in pieces from several rings and folded at random: at any moment the process tracker gives the
// same answer as a reader of all records from the beginning.
#include <gtest/gtest.h>

#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/random_lives.hpp"
#include "tests/unit/sideband/reader_model.hpp"

namespace flight {
namespace {

TEST(Property, TheStateAtAnyMomentIsThatOfAllRecordsBefore) {
  for (unsigned seed = 1; seed <= 25; ++seed) {
    RandomLives lives(seed, false);
    while (lives.events().size() < 1500) lives.step();
    const auto& events = lives.events();
    std::mt19937 random(seed + 1000);
    ProcessTracker tracker;
    EventTime horizon = 0;
    for (std::size_t done = 0; done < events.size();) {
      const std::size_t to = std::min(events.size(), done + 1 + random() % 150);
      tracker.add(drained(events, done, to, random));
      done = to;
      if (random() % 2 == 0) {
        horizon = std::max(horizon, events[random() % done].time_ns);
        tracker.fold(horizon);
      }
      for (int probe = 0; probe < 3; ++probe) {
        const std::size_t last = random() % done;
        // A record is in the log at its own time, and in the prologue a moment later. Neither of them says that a
        // leader is a zombie.
        const bool exits = load<perf_event_header>(events[last].bytes.data()).type == PERF_RECORD_EXIT;
        const EventTime time = events[last].time_ns + (exits ? 1 : random() % 2);
        if (time < horizon) continue;
        ReaderModel expected;
        for (std::size_t i = 0; i <= last; ++i) expected.apply_all(events[i].bytes);
        const auto window = tracker.export_window(time, time, everybody());
        ReaderModel model;
        model.apply_all(window.prologue);
        model.apply_all(window.log);
        ASSERT_EQ(model.text(), expected.text()) << "seed " << seed << " at " << time << " horizon " << horizon;
      }
    }
    ReaderModel all;
    for (const Event& event : events) all.apply_all(event.bytes);
    tracker.fold(lives.now() + 1);
    EXPECT_EQ(tracker.stats().processes, all.processes.size());
    EXPECT_EQ(tracker.stats().exited, 0U);
    EXPECT_EQ(tracker.stats().log_bytes, 0U);
  }
}

// The log is far too small, so nearly everything is folded early. Still every moment of the window is unchanged.
TEST(Property, EarlyFoldingKeepsEveryMomentOfTheWindow) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    RandomLives lives(seed, true);
    while (lives.events().size() < 2500) lives.step();
    const auto& events = lives.events();
    std::mt19937 random(seed + 1000);
    ProcessTracker tracker({.log_bytes = 32U << 10U, .state_bytes = 64U << 20U});
    for (std::size_t done = 0; done < events.size();) {
      const std::size_t to = std::min(events.size(), done + 1 + random() % 20);
      tracker.add(drained(events, done, to, random));
      done = to;
    }
    ASSERT_FALSE(tracker.stats().stale);
    const std::size_t from = random() % (events.size() / 2);
    tracker.fold(events[from].time_ns);
    const auto window = tracker.export_window(events[from].time_ns, lives.now(), everybody());
    for (int probe = 0; probe < 30; ++probe) {
      const std::size_t last = from + random() % (events.size() - from);
      ReaderModel expected;
      for (std::size_t i = 0; i <= last; ++i) expected.apply_all(events[i].bytes);
      ReaderModel model;
      model.apply_all(window.prologue);
      model.apply_all(window.log, events[last].time_ns);
      ASSERT_EQ(model.text(), expected.text()) << "seed " << seed << " from " << from << " to " << last;
    }
  }
}

}  // namespace
}  // namespace flight
