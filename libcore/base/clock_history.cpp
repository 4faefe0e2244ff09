// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/clock_history.hpp"

#include <algorithm>
#include <ctime>

namespace flight {
namespace {

using std::chrono::nanoseconds;

constexpr int kMostReadings = 8;
constexpr std::uint64_t kCloseNs = 10'000;  // between the readings of one triple
// Larger values in a checkpoint are refused, so that differences of times cannot overflow.
constexpr std::uint64_t kMostTookNs = 60'000'000'000;
constexpr std::uint64_t kMostUptimeNs = 1ULL << 60U;  // 36 years
constexpr WallTime kMostWall{6'000'000'000'000'000'000};
constexpr std::size_t kSpare = 64;  // freed at least when there are too many triples

// The readings are 64 bits of input where they come from a checkpoint: the difference wraps around.
nanoseconds difference(std::uint64_t a, std::uint64_t b) { return nanoseconds(static_cast<std::int64_t>(a - b)); }

// How far the wall clock and the suspended time moved against CLOCK_MONOTONIC between two triples.
struct Moved {
  nanoseconds wall{}, slept{}, unsure{};

  Moved(const ClockTriple& from, const ClockTriple& to) {
    const std::uint64_t passed = to.monotonic_ns - from.monotonic_ns;
    wall =
        difference(static_cast<std::uint64_t>(to.wall.count()), static_cast<std::uint64_t>(from.wall.count()) + passed);
    slept = difference(to.boottime_ns, from.boottime_ns + passed);
    unsure = difference(from.took_ns + to.took_ns, 0);
  }
  [[nodiscard]] static bool beyond(nanoseconds value, nanoseconds limit) { return value > limit || value < -limit; }
  [[nodiscard]] bool was_set() const { return beyond(wall, ClockHistory::kMostMoved + unsure); }
  [[nodiscard]] bool was_suspended() const { return beyond(slept, ClockHistory::kMostSlept + unsure); }
};

bool is_plausible(const ClockTriple& one) {
  return one.monotonic_ns <= kMostUptimeNs && one.boottime_ns <= kMostUptimeNs && one.took_ns <= kMostTookNs &&
         one.wall >= WallTime(0) && one.wall <= kMostWall;
}

}  // namespace

ClockTriple ClockTriple::now() {
  ClockTriple best{.took_ns = UINT64_MAX};
  for (int reading = 0; reading < kMostReadings && best.took_ns > kCloseNs; ++reading) {
    const EventTime before = monotonic_now();
    const WallTime wall = wall_now();
    const std::uint64_t boot = boottime_now();
    const std::uint64_t took = monotonic_now() - before;
    if (took < best.took_ns)
      best = {.monotonic_ns = before + took / 2, .boottime_ns = boot, .wall = wall, .took_ns = took};
  }
  return best;
}

ClockHistory::ClockHistory(const ClockPair& pair) : triples_{{.wall = pair.wall_at(0)}} {}

// Whether the clock changed between the triple before and this one.
bool ClockHistory::changed(std::size_t at) const {
  if (at == 0 || at >= triples_.size()) return false;
  const Moved moved(triples_[at - 1], triples_[at]);
  return moved.was_set() || moved.was_suspended();
}

std::size_t ClockHistory::look(const ClockTriple& now) {
  const EventTime newest_ns = last_ ? last_->monotonic_ns : triples_.empty() ? 0 : triples_.back().monotonic_ns;
  if (now.monotonic_ns <= newest_ns) return 0;
  const std::size_t before = triples_.size();
  if (triples_.empty()) {
    triples_.push_back(now);
  } else {
    // Against the pair in force, so that many small changes add up.
    const ClockTriple in_force = triples_.back();
    const Moved moved(in_force, now);
    const bool stepped = moved.was_set() || moved.was_suspended();
    // Until the last look the old pair was in force.
    if (stepped && last_ && last_->monotonic_ns > in_force.monotonic_ns) {
      const EventTime passed_ns = last_->monotonic_ns - in_force.monotonic_ns;
      triples_.push_back({.monotonic_ns = last_->monotonic_ns,
                          .boottime_ns = in_force.boottime_ns + passed_ns,
                          .wall = in_force.pair().wall_at(last_->monotonic_ns),
                          .took_ns = in_force.took_ns});
    }
    if (stepped || difference(now.monotonic_ns, in_force.monotonic_ns) >= kEvery) triples_.push_back(now);
  }
  last_ = now;
  const std::size_t added = triples_.size() - before;
  if (triples_.size() > kMaxTriples) thin();
  return added;
}

void ClockHistory::restore(std::span<const ClockTriple> earlier) {
  std::vector<ClockTriple> all;
  const EventTime until_ns = known_from_ns();
  for (const ClockTriple& one : earlier) {
    const bool in_order = one.monotonic_ns < until_ns && (all.empty() || one.monotonic_ns > all.back().monotonic_ns);
    if (in_order && is_plausible(one)) all.push_back(one);
  }
  all.insert(all.end(), triples_.begin(), triples_.end());
  triples_ = std::move(all);
  if (triples_.size() > kMaxTriples) thin();
}

// Removes every second triple of the older half: the clock did not change between them. Triples on both sides of a
// change stay. If there are nothing but changes, the oldest ones are dropped and counted.
void ClockHistory::thin() {
  std::vector<ClockTriple> kept;
  kept.reserve(triples_.size());
  bool dropped = false;
  for (std::size_t i = 0; i < triples_.size(); ++i) {
    dropped = !dropped && i != 0 && i < triples_.size() / 2 && !changed(i) && !changed(i + 1);
    if (!dropped) kept.push_back(triples_[i]);
  }
  triples_ = std::move(kept);
  if (triples_.size() + kSpare <= kMaxTriples) return;
  const std::size_t gone = triples_.size() + kSpare - kMaxTriples;
  for (std::size_t i = 1; i <= gone; ++i) forgotten_ += changed(i) ? 1 : 0;
  triples_.erase(triples_.begin(), triples_.begin() + static_cast<std::ptrdiff_t>(gone));
}

// There is one.
const ClockTriple& ClockHistory::in_force_at(EventTime time_ns) const {
  const auto next = std::upper_bound(triples_.begin(), triples_.end(), time_ns,
                                     [](EventTime time, const ClockTriple& one) { return time < one.monotonic_ns; });
  return next == triples_.begin() ? *next : *std::prev(next);
}

ClockPair ClockHistory::pair_at(EventTime time_ns) const {
  if (triples_.empty()) return {};
  return {.wall = in_force_at(time_ns).pair().wall_at(time_ns), .monotonic_ns = time_ns};
}

std::uint64_t ClockHistory::boottime_at(EventTime time_ns) const {
  if (triples_.empty()) return time_ns;
  const ClockTriple& in_force = in_force_at(time_ns);
  return in_force.boottime_ns + (time_ns - in_force.monotonic_ns);
}

EventTime ClockHistory::event_at_boottime(std::uint64_t boottime_ns) const {
  if (triples_.empty()) return boottime_ns;
  const auto next = std::upper_bound(triples_.begin(), triples_.end(), boottime_ns,
                                     [](std::uint64_t time, const ClockTriple& one) { return time < one.boottime_ns; });
  const ClockTriple& after = next == triples_.end() ? triples_.back() : *next;
  // If no suspend was between it and `after`.
  const nanoseconds time = difference(after.monotonic_ns + boottime_ns, after.boottime_ns);
  const nanoseconds earliest = next == triples_.begin() || next == triples_.end()
                                   ? nanoseconds(0)
                                   : difference(std::prev(next)->monotonic_ns, 0);
  if (time >= earliest) return static_cast<EventTime>(time.count());
  if (next == triples_.begin()) return 0;
  // Before the suspend. If that is after the later look, there were several, and it was between two of them.
  const ClockTriple& before = *std::prev(next);
  const EventTime time_before = before.monotonic_ns + (boottime_ns - before.boottime_ns);
  return time_before <= after.monotonic_ns ? time_before : before.monotonic_ns;
}

EventTime ClockHistory::event_at(WallTime time, EventTime latest_ns) const {
  if (triples_.empty()) return 0;
  const EventTime newest_at = triples_.back().pair().event_at(time);
  std::optional<EventTime> skipped;
  // Each triple's pair is in force from its time until the next one's.
  for (std::size_t i = triples_.size(); i-- > 0;) {
    const EventTime begin_ns = i == 0 ? 0 : triples_[i].monotonic_ns;
    const bool newest = i + 1 == triples_.size();
    const EventTime last_ns = newest ? std::max(latest_ns, begin_ns) : triples_[i + 1].monotonic_ns - 1;
    const EventTime at = triples_[i].pair().event_at(time);
    if (at >= begin_ns && at <= last_ns) return at;
    if (!newest && !skipped && at > last_ns && triples_[i + 1].pair().event_at(time) <= last_ns) skipped = last_ns + 1;
  }
  return newest_at > latest_ns ? newest_at : skipped.value_or(newest_at);
}

std::optional<EventTime> ClockHistory::latest_at(WallTime time, const ClockPair& now) const {
  constexpr auto kUnsureNs = static_cast<EventTime>(kMostMoved.count());
  std::optional<EventTime> latest;
  const auto look_between = [&](EventTime begin_ns, EventTime end_ns, const ClockPair& clock) {
    const EventTime at = clock.event_at(time);
    if (at + kUnsureNs < begin_ns || at > end_ns + kUnsureNs) return;
    latest = std::max(latest.value_or(0), std::min(at, now.monotonic_ns));
  };
  for (std::size_t i = 0; i < triples_.size(); ++i) {
    // The newest pair is the most exact one of a clock that did not change.
    const ClockPair clock = triples_[i].pair();
    const bool is_same = !Moved::beyond(clock.wall_at(now.monotonic_ns) - now.wall, kMostMoved);
    look_between(i == 0 ? 0 : triples_[i - 1].monotonic_ns,
                 i + 1 < triples_.size() ? triples_[i + 1].monotonic_ns : now.monotonic_ns, is_same ? now : clock);
  }
  look_between(triples_.empty() ? 0 : triples_.back().monotonic_ns, now.monotonic_ns, now);
  return latest;
}

EventTime ClockHistory::event_before(const ClockTriple& now, nanoseconds span) const {
  const auto back = static_cast<std::uint64_t>(std::max<std::int64_t>(span.count(), 0));
  const std::uint64_t boot_ns = now.boottime_ns - std::min(now.boottime_ns, back);
  const auto next = std::upper_bound(triples_.begin(), triples_.end(), boot_ns,
                                     [](std::uint64_t time, const ClockTriple& one) { return time < one.boottime_ns; });
  if (next == triples_.end()) return now.monotonic_ns - std::min(now.monotonic_ns, now.boottime_ns - boot_ns);
  // No more suspends are known before the first triple.
  const EventTime since_next = next->boottime_ns - boot_ns;
  if (next == triples_.begin()) return next->monotonic_ns - std::min(next->monotonic_ns, since_next);
  const ClockTriple& before = *std::prev(next);
  return std::min(before.monotonic_ns + (boot_ns - before.boottime_ns), next->monotonic_ns);
}

std::vector<ClockStep> ClockHistory::steps(EventTime begin_ns, EventTime end_ns) const {
  std::vector<ClockStep> out;
  for (std::size_t i = 1; i < triples_.size(); ++i) {
    const ClockTriple& old = triples_[i - 1];
    const ClockTriple& now = triples_[i];
    if (now.monotonic_ns <= begin_ns || now.monotonic_ns > end_ns) continue;
    const Moved moved(old, now);
    if (!moved.was_set()) continue;
    out.push_back({.ns = now.monotonic_ns,
                   .looked_ns = old.monotonic_ns,
                   .before = old.pair().wall_at(now.monotonic_ns),
                   .after = now.wall,
                   .slept = moved.was_suspended() ? moved.slept : nanoseconds(0)});
  }
  return out;
}

}  // namespace flight
