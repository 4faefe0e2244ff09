// SPDX-License-Identifier: Apache-2.0
// Monitor: one reply for each event, and a bounded queue for a slow client.
#include "tests/unit/daemon/control/raw_client.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;

const std::string kMonitorCall = call_text("io.flightd.Recorder.Monitor", "{}", R"(,"more":true)");

class MonitorTest : public ControlServerTest {
 protected:
  void publish(int number, std::string message = "") {
    bench.on_loop([&] {
      bench.backend.events.publish({.event = "test", .id = std::to_string(number), .message = std::move(message)});
      return 0;
    });
  }
  static RecorderEvent next(RawClient& client) {
    const auto reply = client.receive();
    EXPECT_TRUE(reply && reply->continues && reply->error.empty());
    return reply ? parse_event(reply->parameters).value_or(RecorderEvent{}) : RecorderEvent{};
  }
};

TEST_F(MonitorTest, SendsEachEventOnceToEachClient) {
  run();
  RawClient one(bench.socket()), other(bench.socket());
  for (RawClient* client : {&one, &other}) {
    client->send(kMonitorCall);
    const RecorderEvent first = next(*client);
    EXPECT_EQ(first.event, "monitoring");
    EXPECT_EQ(first.recording, true);
    EXPECT_NE(first.time, "");
  }
  for (int number = 0; number < 3; ++number) publish(number);
  for (RawClient* client : {&one, &other})
    for (int number = 0; number < 3; ++number) EXPECT_EQ(next(*client).id, std::to_string(number));
  EXPECT_EQ(ask(call_text("io.flightd.Recorder.SetRecording", R"({"recording":false})")).error, "");
  EXPECT_EQ(next(one).event, "recording_paused");
}

TEST_F(MonitorTest, ASlowClientLosesTheOldestAndGetsTheirNumber) {
  ControlLimits limits;
  limits.session.slow_reader = 100ms;  // does not apply to a client of Monitor
  run(limits);
  RawClient slow(bench.socket());
  slow.send(kMonitorCall);
  EXPECT_EQ(next(slow).event, "monitoring");
  constexpr int kEvents = 5000;
  for (int number = 0; number < kEvents; ++number) publish(number, std::string(1000, 'x'));
  std::this_thread::sleep_for(300ms);
  expect_alive();
  std::uint64_t received = 0, missed = 0;
  int last = -1;
  while (last < kEvents - 1) {
    const RecorderEvent event = next(slow);
    ASSERT_NE(event.event, "");
    if (event.missed) {
      EXPECT_EQ(event.event, "missed");
      missed += *event.missed;
    } else {
      ++received;
      EXPECT_GT(std::stoi(event.id), last);
      last = std::stoi(event.id);
    }
  }
  EXPECT_EQ(received + missed, static_cast<std::uint64_t>(kEvents));
  EXPECT_GT(missed, 0U);
  EXPECT_GE(received, ControlSession::kMaxEvents);
}

TEST_F(MonitorTest, ADisconnectFreesTheSlotWithoutAnEvent) {
  run();
  for (int number = 0; number < 300; ++number) {
    RawClient client(bench.socket());
    client.send(kMonitorCall);
    EXPECT_EQ(next(client).event, "monitoring") << number;
  }
  expect_connections(0);
  publish(1);
}

// A half-closed connection, as `echo CALL | socat` makes it.
TEST_F(MonitorTest, AHalfClosedClientStillReceivesEvents) {
  run();
  RawClient client(bench.socket());
  client.send(kMonitorCall);
  EXPECT_EQ(next(client).event, "monitoring");
  ASSERT_EQ(::shutdown(client.fd(), SHUT_WR), 0);
  std::this_thread::sleep_for(50ms);
  publish(7);
  EXPECT_EQ(next(client).id, "7");
}

TEST_F(MonitorTest, StopDoesNotWaitForListeners) {
  run();
  RawClient client(bench.socket());
  client.send(kMonitorCall);
  EXPECT_EQ(next(client).event, "monitoring");
  EXPECT_TRUE(bench.stop(2s));
  EXPECT_TRUE(client.sees_the_end());
}

}  // namespace
}  // namespace flight::daemon
