// SPDX-License-Identifier: Apache-2.0
// Clients that behave badly. After each of them a good client must be served.
#include <gmock/gmock.h>

#include <filesystem>

#include "libcore/base/clock.hpp"
#include "libcore/control/record_messages.hpp"
#include "tests/unit/daemon/control/raw_client.hpp"
#include "tests/unit/daemon/patience.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;

TEST_F(ControlServerTest, HalfAMessageIsNotWaitedForForEver) {
  ControlLimits limits;
  limits.session.half_message = 200ms;
  run(limits);
  RawClient idle(bench.socket()), half(bench.socket()), dribbling(bench.socket());
  half.send(R"({"method":)");
  const EventTime begin = monotonic_now();
  bool cut = false;
  for (int sent = 0; sent < 100 && !cut; ++sent) {
    cut = !dribbling.send("{");  // each byte is progress, but the message stays the same
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_TRUE(cut);
  EXPECT_GE(monotonic_now() - begin, 200'000'000U);
  EXPECT_TRUE(half.sees_the_end());
  // A silent client has sent no incomplete message, so it stays connected.
  ASSERT_TRUE(idle.send(kGetStatus));
  EXPECT_TRUE(idle.receive());
  // After a complete message there is no time limit either.
  std::this_thread::sleep_for(300ms);
  ASSERT_TRUE(idle.send(kGetStatus));
  EXPECT_TRUE(idle.receive());
}

TEST_F(ControlServerTest, AFloodOfCallsIsBackpressureNotMemory) {
  run();
  RawClient client(bench.socket());
  constexpr int kCalls = 20'000;
  std::thread talker([&] {
    for (int number = 0; number < kCalls; ++number)
      client.send(number % 2 == 0 ? kGetInfo : call_text("a.b.C", "{}", R"(,"oneway":true)"));
  });
  expect_alive();
  for (int number = 0; number < kCalls / 2; ++number) ASSERT_TRUE(client.receive()) << number;
  talker.join();
}

TEST_F(ControlServerTest, AClientThatDoesNotReadIsDropped) {
  ControlLimits limits;
  limits.session.slow_reader = 1s;
  bench.backend.rows_to_report = '[' + std::string(4U << 20U, ' ') + ']';
  run(limits);
  RawClient client(bench.socket());
  client.send(call_text("io.flightd.Recorder.ListSnapshots"));
  expect_alive();
  expect_connections(0);
  // A client that reads gets everything.
  EXPECT_EQ(ask(call_text("io.flightd.Recorder.ListSnapshots")).error, "");
}

// A client of Record may be stopped, or lose its terminal: its recording goes on, and steps that it does not read are
// dropped.
TEST_F(ControlServerTest, AClientThatRecordsMayReadSlowly) {
  ControlLimits limits;
  limits.session.slow_reader = 300ms;
  bench.backend.progress_to_report.finished = {std::string(1U << 20U, 'x')};  // more than the socket takes
  run(limits);
  RawClient client(bench.socket());
  client.send(call_text("io.flightd.Recorder.Record", "{}", R"(,"more":true)"));
  ASSERT_TRUE(soon([this] { return bench.backend.record_steps >= 40; })) << "0.8 s";
  expect_connections(1);
  EXPECT_EQ(ask(call_text("io.flightd.Recorder.StopRecording", R"({"id":"7"})")).error, "");
  int steps = 0;
  std::optional<Reply> last;
  while ((last = client.receive()) && last->continues) ++steps;
  ASSERT_TRUE(last);
  EXPECT_EQ(parse_record_result(member(last->parameters, "recording")).value().id, "7");
  EXPECT_LT(steps, 5);
}

TEST_F(ControlServerTest, TheEndOfAConnectionIsKnownToItsRecording) {
  run();
  {
    RawClient client(bench.socket());
    client.send(call_text("io.flightd.Recorder.Record", "{}", R"(,"more":true)"));
    ASSERT_TRUE(soon([this] { return bench.backend.record_steps >= 1; }));
  }
  ASSERT_TRUE(soon([this] { return bench.backend.client_left.load(); }));
  expect_connections(0);
}

TEST_F(ControlServerTest, ARecordingThatNobodyFollowsNeedsAnEnd) {
  run();
  const Reply refused = ask(call_text("io.flightd.Recorder.Record"));
  EXPECT_THAT(refused.error, testing::HasSubstr("InvalidParameter"));
  EXPECT_THAT(refused.parameters, testing::HasSubstr("for_ns"));
  const Reply taken = ask(call_text("io.flightd.Recorder.Record", R"({"for_ns":1000})"));
  EXPECT_EQ(taken.error, "");
  EXPECT_EQ(parse_record_result(member(taken.parameters, "recording")).value().ended, "asked");
}

// The connection stays open however long the snapshot takes.
TEST_F(ControlServerTest, ADisconnectFreesTheSlotAtOnce) {
  bench.backend.snapshot_takes = 3s;
  run();
  for (int number = 0; number < 3; ++number) {
    RawClient client(bench.socket());
    client.send(call_text("io.flightd.Recorder.TakeSnapshot"));
    expect_connections(1);
    wait_for(bench.backend.begun, number + 1);
  }
  expect_connections(0);
  EXPECT_EQ(bench.backend.finished, 0);
  wait_for(bench.backend.finished, 3);
}

TEST_F(ControlServerTest, CallsBeforeADisconnectAreExecuted) {
  bench.backend.snapshot_takes = 200ms;
  run();
  {
    RawClient client(bench.socket());
    for (int number = 0; number < 3; ++number)
      client.send(call_text("io.flightd.Recorder.TakeSnapshot", "{}", R"(,"oneway":true)"));
  }
  wait_for(bench.backend.finished, 3);
  expect_connections(0);
}

TEST_F(ControlServerTest, ProgressThatIsNotReadDoesNotPileUp) {
  bench.backend.snapshot_takes = 100ms;
  run();
  RawClient client(bench.socket());
  const int small = 1;
  ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  for (int number = 0; number < 3; ++number)
    client.send(call_text("io.flightd.Recorder.TakeSnapshot", "{}", R"(,"more":true)"));
  std::this_thread::sleep_for(400ms);
  int last = 0;
  while (last < 3) {
    const auto reply = client.receive();
    ASSERT_TRUE(reply);
    if (!reply->continues) ++last;
  }
}

TEST_F(ControlServerTest, AClientThatLeavesCancelsNothing) {
  bench.backend.snapshot_takes = 200ms;
  run();
  int calls = 0;
  for (const char* flags : {"", R"(,"more":true)", R"(,"oneway":true)"}) {
    RawClient client(bench.socket());
    client.send(call_text("io.flightd.Recorder.TakeSnapshot", "{}", flags));
    ++calls;
    ASSERT_TRUE(test::soon([&] { return bench.backend.begun == calls; }));
  }
  EXPECT_TRUE(test::soon([&] { return bench.backend.finished == calls; }));
  expect_connections(0);
  expect_alive();
}

TEST_F(ControlServerTest, TheServerMayGoAwayInTheMiddleOfASnapshot) {
  bench.backend.snapshot_takes = 200ms;
  run();
  RawClient client(bench.socket());
  client.send(call_text("io.flightd.Recorder.TakeSnapshot", "{}", R"(,"more":true)"));
  ASSERT_TRUE(client.receive());
  bench.destroy_server();
  EXPECT_FALSE(std::filesystem::exists(bench.socket()));
  while (bench.backend.finished == 0) std::this_thread::sleep_for(5ms);  // its client has disconnected
  while (client.receive(100ms)) {
  }
  EXPECT_TRUE(client.sees_the_end());
}

TEST_F(ControlServerTest, StopAnswersTheCallUnderWay) {
  bench.backend.snapshot_takes = 1s;
  run();
  RawClient busy(bench.socket()), idle(bench.socket());
  busy.send(call_text("io.flightd.Recorder.TakeSnapshot") + kGetStatus);
  while (bench.backend.begun == 0) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(bench.stop());
  EXPECT_EQ(bench.backend.finished, 1);
  const auto reply = busy.receive();
  ASSERT_TRUE(reply);
  EXPECT_NE(member(reply->parameters, "snapshot"), "");
  EXPECT_TRUE(busy.sees_the_end());
  EXPECT_TRUE(idle.sees_the_end());
  EXPECT_FALSE(std::filesystem::exists(bench.socket()));
}

}  // namespace
}  // namespace flight::daemon
