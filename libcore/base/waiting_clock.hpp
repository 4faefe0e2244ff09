// SPDX-License-Identifier: Apache-2.0
// The clock of a thread that waits: what time it is, and a wait that ends at a time. A test of such a thread passes a
// clock that it moves itself (tests/unit/daemon/virtual_clock.hpp), so that it need not wait for the thread's limits.
// The times of records are always monotonic_now(). Any thread.
#pragma once

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>

#include "libcore/base/clock.hpp"

namespace flight {

class WaitingClock {
 public:
  static constexpr EventTime kNever = UINT64_MAX;
  // CLOCK_MONOTONIC.
  [[nodiscard]] static const WaitingClock& monotonic();

  WaitingClock() = default;
  WaitingClock(const WaitingClock&) = delete;
  WaitingClock& operator=(const WaitingClock&) = delete;
  virtual ~WaitingClock() = default;

  [[nodiscard]] virtual EventTime now() const;
  // The same moment on the wall clock, too.
  [[nodiscard]] virtual ClockPair pair() const;
  // Until `wake` is notified, at most until `until_ns`. It may return early.
  virtual void wait_until(std::condition_variable& wake, std::unique_lock<std::mutex>& lock, EventTime until_ns) const;
  // As wait_for_any() (poll.hpp), at most until `until_ns`; kNever: without a limit. It may return early.
  virtual void poll_until(std::span<pollfd> watched, EventTime until_ns) const;

  // Until `done()` holds, at most for `limit`. Returns whether it holds.
  template <typename Done>
  bool wait_for(std::condition_variable& wake, std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds limit,
                Done done) const {
    const EventTime until_ns = now() + static_cast<EventTime>(limit.count());
    while (!done()) {
      if (now() >= until_ns) return false;
      wait_until(wake, lock, until_ns);
    }
    return true;
  }
};

}  // namespace flight
