// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/not_started.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(NotStarted, OnlyALimitOfTasksIsToBeRaised) {
  const Error limit = not_started(EAGAIN, "the process that reads").value();
  EXPECT_EQ(limit.errno_value(), EAGAIN);
  EXPECT_THAT(limit.what, AllOf(StartsWith("start the process that reads: Resource temporarily unavailable"),
                                HasSubstr("TasksMax="), HasSubstr("pids.max"), HasSubstr("ulimit -u")));
  EXPECT_THAT(not_started(ENOENT, "the process /x").value().what,
              AllOf(StartsWith("start the process /x: No such file or directory"), Not(HasSubstr("TasksMax="))));
}

}  // namespace
}  // namespace flight
