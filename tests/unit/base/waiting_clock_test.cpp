// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/waiting_clock.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <thread>

#include "libcore/base/unique_fd.hpp"

namespace flight {
namespace {

TEST(WaitingClock, AWaitEndsAtItsLimit) {
  const WaitingClock& clock = WaitingClock::monotonic();
  std::mutex mutex;
  std::condition_variable wake;
  std::unique_lock lock(mutex);
  const EventTime begin_ns = monotonic_now();
  EXPECT_FALSE(clock.wait_for(wake, lock, std::chrono::milliseconds(20), [] { return false; }));
  EXPECT_GE(monotonic_now() - begin_ns, 20'000'000U);
  EXPECT_TRUE(lock.owns_lock());
  clock.wait_until(wake, lock, begin_ns);  // that is over
}

TEST(WaitingClock, AWaitEndsWhenItsConditionHolds) {
  const WaitingClock& clock = WaitingClock::monotonic();
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  std::unique_lock lock(mutex);
  std::thread other([&] {
    const std::lock_guard own_lock(mutex);
    done = true;
    wake.notify_all();
  });
  EXPECT_TRUE(clock.wait_for(wake, lock, std::chrono::hours(1), [&] { return done; }));
  lock.unlock();
  other.join();
}

TEST(WaitingClock, APollEndsAtItsLimitOrWithADescriptor) {
  const WaitingClock& clock = WaitingClock::monotonic();
  const UniqueFd quiet(::eventfd(0, EFD_CLOEXEC)), ready(::eventfd(1, EFD_CLOEXEC));
  pollfd one{.fd = quiet.get(), .events = POLLIN, .revents = 0};
  clock.poll_until({&one, 1}, monotonic_now());
  EXPECT_EQ(one.revents, 0);
  one.fd = ready.get();
  clock.poll_until({&one, 1}, WaitingClock::kNever);
  EXPECT_EQ(one.revents, POLLIN);
}

TEST(WaitingClock, ItsTimesAreThoseOfRecords) {
  const WaitingClock& clock = WaitingClock::monotonic();
  const EventTime before_ns = monotonic_now(), now_ns = clock.now();
  const ClockPair pair = clock.pair();
  EXPECT_LE(before_ns, now_ns);
  EXPECT_LE(now_ns, pair.monotonic_ns);
  EXPECT_LE(pair.monotonic_ns, monotonic_now());
}

}  // namespace
}  // namespace flight
