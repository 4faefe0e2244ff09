// SPDX-License-Identifier: Apache-2.0
// Wakes a polling thread when the wall clock was set, and after a suspend: timerfd_create(2) on CLOCK_REALTIME, with
// TFD_TIMER_CANCEL_ON_SET. So the thread can look at the clocks then, and not at its next tick. While nothing changes
// it costs nothing. One thread.
#pragma once

#include <utility>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class ClockAlarm {
 public:
  [[nodiscard]] static Result<ClockAlarm> open();
  // There is no alarm: fd() is -1, which poll(2) ignores.
  ClockAlarm() = default;

  // Readable after a change, until take().
  [[nodiscard]] int fd() const { return timer_.get(); }
  void take();

 private:
  explicit ClockAlarm(UniqueFd timer) : timer_(std::move(timer)) {}
  UniqueFd timer_;
};

}  // namespace flight
