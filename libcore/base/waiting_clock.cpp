// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/waiting_clock.hpp"

#include <algorithm>

#include "libcore/base/poll.hpp"

namespace flight {

const WaitingClock& WaitingClock::monotonic() {
  static const WaitingClock clock{};
  return clock;
}

EventTime WaitingClock::now() const { return monotonic_now(); }

ClockPair WaitingClock::pair() const { return ClockPair::now(); }

void WaitingClock::wait_until(std::condition_variable& wake, std::unique_lock<std::mutex>& lock,
                              EventTime until_ns) const {
  const EventTime now_ns = monotonic_now();
  wake.wait_for(lock, std::chrono::nanoseconds(until_ns - std::min(until_ns, now_ns)));
}

void WaitingClock::poll_until(std::span<pollfd> watched, EventTime until_ns) const {
  if (until_ns == kNever) return wait_for_any(watched, std::chrono::nanoseconds(-1));
  const EventTime now_ns = monotonic_now();
  wait_for_any(watched, std::chrono::nanoseconds(until_ns - std::min(until_ns, now_ns)));
}

}  // namespace flight
