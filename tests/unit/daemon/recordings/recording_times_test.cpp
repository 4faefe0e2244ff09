// SPDX-License-Identifier: Apache-2.0
// When a recording ends and reports its progress, by a clock that the test advances.
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/daemon/recordings/recordings_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;

TEST_F(RecordingsTest, ItEndsAfterItsTime) {
  RecordCall call;
  record(call, {.for_ns = 1});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  EXPECT_EQ(call.result().paths.size(), 1U);
}

TEST_F(RecordingTimesTest, ItDoesNotEndBeforeItsTime) {
  const EventTime begun_ns = clock_->now();
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.for_ns = 3600 * kSecondNs}));
  clock_->advance(std::chrono::hours(1) - std::chrono::nanoseconds(1));
  ASSERT_TRUE(clock_->is_waited_for(begun_ns + 3600 * kSecondNs)) << "its next progress would be later";
  loop_.poll();
  ASSERT_FALSE(call.answer) << call.error();
  clock_->advance(std::chrono::nanoseconds(1));
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  EXPECT_DOUBLE_EQ(call.result().progress.seconds, 3600);
}

TEST_F(RecordingTimesTest, ItReportsItsProgressOnceASecond) {
  const EventTime begun_ns = clock_->now();
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  // The last one: for a while the recording's thread did not run.
  const std::vector<EventTime> seconds{1, 2, 12};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const EventTime now_ns = clock_->now();
    ASSERT_TRUE(clock_->is_waited_for(now_ns + kSecondNs));
    loop_.poll();
    EXPECT_EQ(call.steps.size(), 1 + i);
    clock_->advance(std::chrono::nanoseconds(begun_ns + seconds[i] * kSecondNs - now_ns));
    ASSERT_TRUE(loop_.until([&] { return call.steps.size() >= 2 + i || call.answer; }));
    ASSERT_FALSE(call.answer) << call.error();
    ASSERT_TRUE(call.steps.back().progress);
    EXPECT_DOUBLE_EQ(call.steps.back().progress->seconds, static_cast<double>(seconds[i]));
  }
  static_cast<void>(stop(call));
}

// The time until the workers run does not count: here the recording waits for the recorder's thread.
TEST_F(RecordingTimesTest, ItsTimeBeginsWithItsWorkers) {
  const EventTime asked_ns = clock_->now();
  hold_.close();
  bench_.recorder->set_recording(true, "a test", [this](const Result<void>&) { hold_.pass(); });
  ASSERT_TRUE(hold_.wait_for_one());
  const auto asked = bench_.broker->asked(Request::kernel);
  RecordCall call;
  record(call, {.for_ns = kSecondNs});
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::kernel) > asked; })) << "for its first part";
  clock_->advance(std::chrono::seconds(1));
  hold_.open();
  ASSERT_TRUE(clock_->is_waited_for(asked_ns + 2 * kSecondNs));
  loop_.poll();
  ASSERT_FALSE(call.answer) << call.error();
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
}

TEST_F(RecordingTimesTest, ItGoesOnAfterItsTimeIfItIsAskedTo) {
  std::atomic<bool> goes_on = false, ended = false;
  bench_.broker->leave(Request::file);
  RecordingOrder order;
  order.for_ns = 1;
  order.max_bytes = order.part_bytes = 64U << 20U;
  order.workers = "1";
  auto running =
      RunningRecording::start({.recorder = *bench_.recorder, .store = *store_, .host = host_}, std::move(order),
                              {.begun = [](const std::string&) {},
                               .progress = [&](const std::string&, const RecordProgress&) { goes_on = true; },
                               .ended = [&](const RecordingOutcome&) { ended = true; },
                               .warn = [](const Error&) {}},
                              *clock_);
  ASSERT_TRUE(running) << running.error().what;
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) == 1; }));
  const EventTime begun_ns = clock_->now();
  EXPECT_TRUE((*running)->go_on_until(begun_ns + 3600 * kSecondNs));
  EXPECT_TRUE((*running)->go_on_until(1)) << "the later time counts";
  bench_.broker->obey(Request::file);
  bench_.broker->say(Request::file);
  ASSERT_TRUE(clock_->is_waited_for(begun_ns + kSecondNs));
  clock_->advance(std::chrono::seconds(1));
  EXPECT_TRUE(soon([&] { return goes_on || ended; }));
  EXPECT_TRUE(goes_on.load()) << "a second after it began";
  EXPECT_FALSE(ended.load());
  clock_->advance(std::chrono::hours(1));
  EXPECT_TRUE(soon([&] { return ended.load(); }));
  EXPECT_FALSE((*running)->go_on_until(UINT64_MAX));
}

}  // namespace
}  // namespace flight::daemon
