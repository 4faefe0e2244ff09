// SPDX-License-Identifier: Apache-2.0
// The error replies when a snapshot fails.
#include "daemon/snapshots/call_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace flight::daemon {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

CallError error_of(int error_number, bool broker_gone = false) {
  return snapshot_call_error({std::error_code(error_number, std::generic_category()), "write /s/x: went wrong"},
                             broker_gone);
}

TEST(SnapshotCallError, AFullDiskIsAKindOfItsOwn) {
  for (const int full : {ENOSPC, EDQUOT}) {
    EXPECT_THAT(error_of(full).name, EndsWith(".StoreFull"));
    EXPECT_THAT(error_of(full).parameters,
                AllOf(HasSubstr("went wrong"), HasSubstr("recording continues"), HasSubstr("flightctl remove")));
  }
}

TEST(SnapshotCallError, OtherErrorsKeepTheirNumber) {
  EXPECT_THAT(error_of(EIO).name, EndsWith(".WriteFailed"));
  EXPECT_THAT(error_of(EIO).parameters,
              AllOf(HasSubstr(fmt::format(":{}", EIO)), HasSubstr("recording continues"), Not(HasSubstr("belong"))));
  EXPECT_THAT(error_of(EACCES).parameters, HasSubstr("belong")) << "what to do about it";
}

// The loss of the broker may be the cause of any error, and the recording does not continue.
TEST(SnapshotCallError, TheLossOfTheBrokerComesFirst) {
  for (const int number : {EIO, ENOSPC}) {
    EXPECT_THAT(error_of(number, true).name, EndsWith(".WriteFailed"));
    EXPECT_THAT(error_of(number, true).parameters,
                AllOf(HasSubstr("went wrong"), HasSubstr("broker-lost"), Not(HasSubstr("recording continues"))));
  }
}

TEST(SnapshotCallError, AnEndIsNoFailure) {
  EXPECT_THAT(error_of(ECANCELED).name, EndsWith(".Stopping"));
  EXPECT_THAT(error_of(ECANCELED, true).name, EndsWith(".Stopping"));
}

}  // namespace
}  // namespace flight::daemon
