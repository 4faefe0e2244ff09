// SPDX-License-Identifier: Apache-2.0
// The control calls of a flightd that cannot start yet.
#include "daemon/control/unstarted.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "libcore/base/version.hpp"
#include "libcore/control/messages.hpp"

namespace flight::daemon {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;

class Unstarted : public testing::Test {
 protected:
  Unstarted() { backend_.set_reason("the disk is away"); }

  const Caller caller_{.uid = 7};
  uid_t reloaded_by_ = 0;
  UnstartedBackend backend_{[this](const Caller& caller, const ControlBackend::Done& done) {
    reloaded_by_ = caller.uid;
    done("{}");
  }};
};

TEST_F(Unstarted, EachCallThatNeedsARecordingFailsWithTheReason) {
  std::vector<std::string> errors;
  const auto done = [&](const CallResult<std::string>& result) {
    ASSERT_FALSE(result) << *result;
    errors.push_back(result.error().parameters);
  };
  backend_.take_snapshot(
      caller_, {}, [](std::string_view, unsigned) {}, done);
  backend_.list_snapshots(done);
  backend_.describe_snapshot("1", done);
  backend_.remove_snapshot("1", done);
  backend_.pin_snapshot("1", true, done);
  backend_.set_recording(caller_, false, done);
  backend_.vacuum(false, {}, done);
  backend_.list_triggers(done);
  backend_.fire_trigger(caller_, {}, done);
  backend_.set_trigger(caller_, {}, done);
  backend_.get_config(done);
  backend_.read_snapshot("1", SnapshotFile::data, [&](const CallResult<OpenSnapshot>& opened) {
    ASSERT_FALSE(opened);
    errors.push_back(opened.error().parameters);
  });
  EXPECT_EQ(errors.size(), 12U);
  EXPECT_THAT(errors, Each(HasSubstr("flightd has not started: the disk is away; trying again")));
}

TEST_F(Unstarted, TheStatusHasTheReasonOfNow) {
  std::string text;
  const auto done = [&](const CallResult<std::string>& result) { text = result.value_or(""); };
  backend_.get_status(done);
  backend_.set_reason("the lock is held");
  backend_.get_status(done);
  const auto status = parse_status(text);
  ASSERT_TRUE(status) << text;
  EXPECT_EQ(status->version, kVersion);
  EXPECT_EQ(status->flightd.pid, ::getpid());
  EXPECT_THAT(status->errors, Contains(HasSubstr("nothing is recorded: flightd has not started: the lock is held")));
}

TEST_F(Unstarted, AReloadIsPassedOnWithItsCaller) {
  std::string answer;
  backend_.reload(caller_, [&](const CallResult<std::string>& result) { answer = result.value_or(""); });
  EXPECT_EQ(answer, "{}");
  EXPECT_EQ(reloaded_by_, 7U);
}

TEST_F(Unstarted, AMonitorSeesOnlyThatNothingIsRecorded) {
  std::vector<std::string> events;
  const auto client = std::make_shared<int>();
  backend_.monitor({.client = client, .send = [&](const std::string& event) { events.push_back(event); }});
  ASSERT_EQ(events.size(), 1U);
  EXPECT_THAT(events[0], HasSubstr(R"("event":"monitoring")"));
  EXPECT_THAT(events[0], HasSubstr(R"("recording":false)"));
  EXPECT_THAT(events[0], HasSubstr("the disk is away"));
}

}  // namespace
}  // namespace flight::daemon
