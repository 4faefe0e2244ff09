// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/clock_alarm.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <limits>

namespace flight {

Result<ClockAlarm> ClockAlarm::open() {
  UniqueFd timer(::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return sys_error(errno, "timerfd for changes of the wall clock");
  itimerspec never{};
  never.it_value.tv_sec = std::numeric_limits<std::time_t>::max();
  // ECANCELED: the clock was set meanwhile, and the timer is armed.
  if (::timerfd_settime(timer.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr) != 0 &&
      errno != ECANCELED)
    return sys_error(errno, "arming the timerfd for changes of the wall clock");
  return ClockAlarm(std::move(timer));
}

// The kernel keeps the timer armed after ECANCELED.
void ClockAlarm::take() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(timer_.get(), &count, sizeof count));
}

}  // namespace flight
