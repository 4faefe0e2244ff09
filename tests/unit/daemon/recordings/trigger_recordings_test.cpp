// SPDX-License-Identifier: Apache-2.0
// Recordings that are the action of a trigger.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "tests/unit/daemon/recordings/recordings_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(LargeRingsTest, ATriggersHasThePastSinceThen) {
  fault(100);
  const EventTime since_ns = monotonic_now();
  fault(100);
  TriggersCall call;
  record_for("hot", call, since_ns);
  ASSERT_TRUE(loop_.until([&] { return !call.begun.empty() || call.answer; }));
  ASSERT_THAT(call.begun, ElementsAre(recordings_->running_id()));
  const std::string id = call.begun.front();
  EXPECT_THAT(recordings_->notes(), ElementsAre(AllOf(HasSubstr("of trigger hot is running"),
                                                      HasSubstr("`flightctl record --stop " + id + "` ends it"))));
  fault(100);
  recordings_->stop(id, [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  ASSERT_TRUE(*call.answer) << call.answer->error().parameters;
  const auto result = parse_record_result(**call.answer);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->ended, "asked");
  ASSERT_EQ(result->paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result->paths[0]);
  EXPECT_EQ(sidecar.reason, "trigger hot: cpu.busy 99 %");
  ASSERT_EQ(sidecar.requests.size(), 1U);
  EXPECT_EQ(sidecar.requests[0].comm, "flightd");
  EXPECT_GE(sidecar.window.begin_ns, since_ns) << "the snapshot has what was before";
  EXPECT_GE(own_samples_in(result->paths[0]), 200U) << "also those before it began";
}

// The ring turns before the recording begins.
TEST_F(RecordingsTest, ATriggersSaysWhatTheRingsDidNotHoldAnyMore) {
  const EventTime since_ns = monotonic_now();
  fault(4096);
  TriggersCall call;
  record_for("hot", call, since_ns);
  ASSERT_TRUE(loop_.until([&] { return !call.begun.empty() || call.answer; }));
  ASSERT_EQ(call.begun.size(), 1U);
  recordings_->stop(call.begun.front(), [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  ASSERT_TRUE(*call.answer) << call.answer->error().parameters;
  const auto result = parse_record_result(**call.answer);
  ASSERT_TRUE(result && result->paths.size() == 1) << **call.answer;
  const Sidecar sidecar = sidecar_of(result->paths[0]);
  const auto is_said = [&](const SidecarHole& hole) {
    return hole.cause == "overwritten" && hole.begin_ns >= since_ns && hole.end_ns > hole.begin_ns && hole.lost > 0;
  };
  EXPECT_TRUE(std::any_of(sidecar.holes.begin(), sidecar.holes.end(), is_said)) << **call.answer;
  EXPECT_THAT(sidecar.warnings, Contains(HasSubstr("of the rings' events are not in this part")));
}

// Otherwise one trigger would use both slots.
TEST_F(RecordingsTest, ATriggerThatFiresAgainHasOneRecording) {
  TriggersCall first, again, other, third;
  record_for("hot", first);
  ASSERT_TRUE(loop_.until([&] { return !first.begun.empty() || first.answer; }));
  record_for("hot", again);
  record_for("other", other);
  ASSERT_TRUE(loop_.until([&] { return !other.begun.empty() || other.answer; }));
  EXPECT_FALSE(again.answer) << "it waits for the end of the first one";
  EXPECT_THAT(again.begun, IsEmpty());
  EXPECT_EQ(recordings_->notes().size(), 2U);
  record_for("third", third);
  ASSERT_TRUE(third.answer && !*third.answer) << "two run already";
  EXPECT_THAT(error_message(third.answer->error()),
              HasSubstr("2 recordings run already (" + first.begun.front() + ", " + other.begun.front() + ")"));
  EXPECT_THAT(third.begun, IsEmpty());
  for (const std::string& id : {first.begun.front(), other.begun.front()})
    recordings_->stop(id, [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return first.answer && again.answer && other.answer; }));
  ASSERT_TRUE(*first.answer && *again.answer && *other.answer);
  EXPECT_EQ(**first.answer, **again.answer);
  // That one has ended: the next firing begins another one.
  TriggersCall next;
  record_for("hot", next);
  ASSERT_TRUE(loop_.until([&] { return !next.begun.empty() || next.answer; }));
  ASSERT_EQ(next.begun.size(), 1U);
  EXPECT_NE(next.begun.front(), first.begun.front());
  recordings_->stop(next.begun.front(), [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return next.answer.has_value(); }));
}

TEST_F(RecordingTimesTest, ATriggerThatFiresAgainHasItsWholeTimeFromThen) {
  const EventTime begun_ns = clock_->now();
  TriggersCall first, again;
  record_for("hot", first);
  ASSERT_TRUE(loop_.until([&] { return !first.begun.empty() || first.answer; }));
  ASSERT_FALSE(first.answer);
  clock_->advance(std::chrono::minutes(30));
  record_for("hot", again);
  clock_->advance(std::chrono::minutes(45));
  ASSERT_TRUE(clock_->is_waited_for(begun_ns + 75 * 60 * kSecondNs + kSecondNs)) << "for its next progress";
  loop_.poll();
  EXPECT_FALSE(first.answer || again.answer);
  clock_->advance(std::chrono::minutes(15));
  ASSERT_TRUE(loop_.until([&] { return first.answer && again.answer; }));
  ASSERT_TRUE(*first.answer && *again.answer);
  EXPECT_EQ(**first.answer, **again.answer);
}

}  // namespace
}  // namespace flight::daemon
