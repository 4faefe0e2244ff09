// SPDX-License-Identifier: Apache-2.0
// A clock that stands until the test advances it, for a thread whose limits are tested. It begins an hour ahead of the
// real one: a request that is due now by that one is due by this one, too. It wakes the thread that waits until a time,
// and the test can wait until the thread does so. One thread waits; another one, the test's, calls the rest.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "tests/unit/daemon/patience.hpp"

namespace flight::test {

class VirtualClock : public WaitingClock {
 public:
  VirtualClock() { advance(std::chrono::hours(1)); }

  [[nodiscard]] EventTime now() const override { return pair().monotonic_ns; }
  [[nodiscard]] ClockPair pair() const override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void wait_until(std::condition_variable& wake, std::unique_lock<std::mutex>& lock,
                  EventTime until_ns) const override {
    if (!begin_wait({.wake = &wake, .mutex = lock.mutex(), .until_ns = until_ns})) return;
    wake.wait(lock);
    const std::lock_guard own_lock(mutex_);
    waiting_.reset();
  }
  void poll_until(std::span<pollfd> watched, EventTime until_ns) const override {
    std::vector<pollfd> all(watched.begin(), watched.end());
    all.push_back({.fd = moved_.get(), .events = POLLIN, .revents = 0});
    const int limit = begin_poll(until_ns) ? -1 : 0;
    if (::poll(all.data(), all.size(), limit) < 0)
      for (pollfd& one : all) one.revents = 0;
    std::copy(all.begin(), all.end() - 1, watched.begin());
    const std::lock_guard lock(mutex_);
    polled_until_ns_.reset();
  }

  void advance(std::chrono::nanoseconds by) {
    const auto ended = move(by);
    if (!ended) return;
    const std::lock_guard lock(*ended->mutex);  // the thread holds it until it waits
    ended->wake->notify_all();
  }
  // Whether the thread waits until `until_ns` now.
  [[nodiscard]] bool has_waiter(EventTime until_ns) const {
    const std::lock_guard lock(mutex_);
    return polled_until_ns_ == until_ns || (waiting_ && waiting_->until_ns == until_ns);
  }
  // Waits for the thread to do so.
  [[nodiscard]] bool is_waited_for(EventTime until_ns) const {
    return soon([&] { return has_waiter(until_ns); });
  }

 private:
  struct Waiting {
    std::condition_variable* wake = nullptr;
    std::mutex* mutex = nullptr;
    EventTime until_ns = 0;
  };
  // False: it is that late already.
  bool begin_wait(const Waiting& waiting) const {
    const std::lock_guard lock(mutex_);
    if (now_.monotonic_ns >= waiting.until_ns) return false;
    waiting_ = waiting;
    return true;
  }
  // False: it is that late already. From here on, move() ends the poll.
  bool begin_poll(EventTime until_ns) const {
    const std::lock_guard lock(mutex_);
    std::uint64_t moves = 0;
    static_cast<void>(!::read(moved_.get(), &moves, sizeof moves));
    if (now_.monotonic_ns >= until_ns) return false;
    polled_until_ns_ = until_ns;
    return true;
  }
  // Returns the wait that ends by that.
  std::optional<Waiting> move(std::chrono::nanoseconds by) {
    const std::lock_guard lock(mutex_);
    now_.wall += by;
    now_.monotonic_ns += static_cast<EventTime>(by.count());
    const std::uint64_t one = 1;
    static_cast<void>(!::write(moved_.get(), &one, sizeof one));
    if (polled_until_ns_ && now_.monotonic_ns >= *polled_until_ns_) polled_until_ns_.reset();
    if (!waiting_ || now_.monotonic_ns < waiting_->until_ns) return std::nullopt;
    return std::exchange(waiting_, std::nullopt);
  }

  mutable std::mutex mutex_;
  ClockPair now_ = ClockPair::now();
  mutable std::optional<Waiting> waiting_;
  UniqueFd moved_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // readable after a move, until the next poll begins
  mutable std::optional<EventTime> polled_until_ns_;
};

}  // namespace flight::test
