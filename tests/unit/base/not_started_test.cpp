// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/not_started.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace flight {
namespace {

TEST(NotStarted, OnlyALimitOfTasksIsToBeRaised) {
  const Error limit = not_started(EAGAIN, "the process that reads").value();
  EXPECT_EQ(limit.errno_value(), EAGAIN);
  EXPECT_EQ(limit.what,
            "start the process that reads: Resource temporarily unavailable; no task is left: raise TasksMax= of the "
            "unit, pids.max of the cgroup, or ulimit -u");
  EXPECT_EQ(not_started(ENOENT, "the process /x").value().what, "start the process /x: No such file or directory");
}

}  // namespace
}  // namespace flight
