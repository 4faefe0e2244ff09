// SPDX-License-Identifier: Apache-2.0
// The machine's clock is never set here. That flightd looks at once is tested with a clock of its own
// (tests/e2e/clock_test.cpp).
#include "libcore/base/clock_alarm.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ClockAlarm, TheKernelIsAskedToReportThatTheClockIsSet) {
  auto opened = ClockAlarm::open();
  ASSERT_TRUE(opened) << opened.error().what;
  const auto info = read_file(fmt::format("/proc/self/fdinfo/{}", opened->fd()));
  ASSERT_TRUE(info) << info.error().what;
  // CLOCK_REALTIME; TFD_TIMER_ABSTIME and TFD_TIMER_CANCEL_ON_SET, octal.
  EXPECT_THAT(*info, AllOf(HasSubstr("clockid: 0\n"), HasSubstr("settime flags: 03\n")));
  opened->take();
  pollfd polled{.fd = opened->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0) << "the clock was not set";
}

TEST(ClockAlarm, WithoutOneNothingIsReady) {
  ClockAlarm none;
  none.take();
  pollfd polled{.fd = none.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0);
}

}  // namespace
}  // namespace flight
