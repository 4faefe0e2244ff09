// SPDX-License-Identifier: Apache-2.0
// What the wall clock showed at which time. It can be set, and it advances during a suspend, while CLOCK_MONOTONIC does
// not; so today's difference of both is not yesterday's. Between two such changes the difference is constant, because
// NTP's slewing changes both clocks alike (clock_gettime(2)).
//
//   wall clock   12:00 ────────── 12:10│11:10 ──────────── 11:15      set back by an hour
//   events           0 ─────────── 600 s ───────────────── 900 s
//                    ▲      ▲      ▲   ▲      ▲      ▲     ▲
//                    one triple a minute, the last look before a change, the first look after it
//
// A plain value. Times before the first triple are converted with the first one, times after the last with the last.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

// The same moment on three clocks.
struct ClockTriple {
  EventTime monotonic_ns = 0;
  std::uint64_t boottime_ns = 0;  // as CLOCK_MONOTONIC, and also advances during a suspend
  WallTime wall{};
  std::uint64_t took_ns = 0;  // between the first and the last reading: the triple can be off by as much

  // Reads them again, up to a limit, if this thread was preempted between the readings.
  [[nodiscard]] static ClockTriple now();
  [[nodiscard]] ClockPair pair() const { return {.wall = wall, .monotonic_ns = monotonic_ns}; }
};

// A change of the wall clock: it was set, or the machine was suspended.
struct ClockStep {
  EventTime ns = 0;                  // the first look after it
  EventTime looked_ns = 0;           // the last look before it
  WallTime before{}, after{};        // what the old and the new clock show at `ns`
  std::chrono::nanoseconds slept{};  // how long the machine was suspended; 0: it was not
};

class ClockHistory {
 public:
  static constexpr std::size_t kMaxTriples = 4096;
  static constexpr std::chrono::nanoseconds kEvery = std::chrono::minutes(1);
  static constexpr std::chrono::nanoseconds kMostMoved = std::chrono::milliseconds(50);   // wall clock − monotonic
  static constexpr std::chrono::nanoseconds kMostSlept = std::chrono::milliseconds(100);  // boottime − monotonic

  ClockHistory() = default;
  // A clock that was never set.
  explicit ClockHistory(const ClockPair& pair);

  // Call it often: a change is known to the interval of two looks. Returns the number of triples that were added at the
  // end, 0 to 2. A look that is older than the last one is ignored: threads may look at the same time.
  std::size_t look(const ClockTriple& now);
  // Adds the triples of an earlier flightd of this boot before its own. Input from a file: those that are out of order,
  // not older or impossible are ignored.
  void restore(std::span<const ClockTriple> earlier);
  [[nodiscard]] std::span<const ClockTriple> triples() const { return triples_; }

  // What the wall clock showed at that time.
  [[nodiscard]] WallTime wall_at(EventTime time_ns) const { return pair_at(time_ns).wall; }
  // That time on both clocks, for conversions with the clock that was in force then.
  [[nodiscard]] ClockPair pair_at(EventTime time_ns) const;
  // CLOCK_BOOTTIME at that time; before the oldest triple, as if the machine had not been suspended.
  [[nodiscard]] std::uint64_t boottime_at(EventTime time_ns) const;
  // The time at which CLOCK_BOOTTIME showed that. Between two looks it may have been before or after a suspend: then
  // the earlier time is returned. Only a short suspend makes the result too late, by its length at most: one below
  // kMostSlept, or the first of several between two looks. Before the oldest triple, as boottime_at().
  [[nodiscard]] EventTime event_at_boottime(std::uint64_t boottime_ns) const;
  // The time at which the wall clock showed `time`, up to `latest_ns`. If it showed `time` twice, the later moment is
  // returned; if it never did, because the clock was set forward, the moment of the change; if `time` is still to come,
  // a moment after `latest_ns`.
  [[nodiscard]] EventTime event_at(WallTime time, EventTime latest_ns) const;
  // When the wall clock can have shown `time` last, up to `now`, a later look: it can also have been between two looks
  // of which one was before a change and one after it. nullopt: it never did.
  [[nodiscard]] std::optional<EventTime> latest_at(WallTime time, const ClockPair& now) const;
  // This long before `now`, suspended time included, whatever the wall clock showed; in a suspend: when that began.
  [[nodiscard]] EventTime event_before(const ClockTriple& now, std::chrono::nanoseconds span) const;
  // The changes of the wall clock after `begin_ns` up to `end_ns`, oldest first.
  [[nodiscard]] std::vector<ClockStep> steps(EventTime begin_ns, EventTime end_ns) const;

  // Nothing is known about changes before this. UINT64_MAX: there is no triple.
  [[nodiscard]] EventTime known_from_ns() const {
    return triples_.empty() ? UINT64_MAX : triples_.front().monotonic_ns;
  }
  // The number of changes that were dropped because of kMaxTriples; all of them were before known_from_ns().
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

 private:
  [[nodiscard]] bool changed(std::size_t at) const;
  [[nodiscard]] const ClockTriple& in_force_at(EventTime time_ns) const;
  void thin();

  std::vector<ClockTriple> triples_;  // oldest first
  std::optional<ClockTriple> last_;   // the last look
  std::uint64_t forgotten_ = 0;
};

}  // namespace flight
