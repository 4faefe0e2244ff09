// SPDX-License-Identifier: Apache-2.0
// Calls on the control socket: valid ones, invalid ones, and messages that are no call.
#include <gmock/gmock.h>
#include <unistd.h>

#include "libcore/base/version.hpp"
#include "libcore/control/client.hpp"
#include "tests/unit/daemon/control/raw_client.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::HasSubstr;

TEST_F(ControlServerTest, DescribesItself) {
  run();
  const Reply info = ask(kGetInfo);
  EXPECT_EQ(info.error, "");
  EXPECT_EQ(member(info.parameters, "interfaces"), R"(["org.varlink.service","io.flightd.Recorder"])");
  EXPECT_EQ(member(info.parameters, "version"), '"' + std::string(kVersion) + '"');
  for (const auto& [name, idl] :
       {std::pair("io.flightd.Recorder", recorder_idl()), {"org.varlink.service", service_idl()}}) {
    const Reply reply =
        ask(call_text("org.varlink.service.GetInterfaceDescription", fmt::format(R"({{"interface":"{}"}})", name)));
    EXPECT_EQ(reply.parameters, description_reply(idl));
  }
  EXPECT_EQ(ask(call_text("org.varlink.service.GetInterfaceDescription", R"({"interface":"a.b"})")).error,
            "org.varlink.service.InterfaceNotFound");
  EXPECT_EQ(ask(call_text("org.varlink.service.GetInterfaceDescription")).error,
            "org.varlink.service.InvalidParameter");
}

TEST_F(ControlServerTest, TakesDescribesListsAndRemoves) {
  bench.backend.snapshot_takes = 20ms;
  run();
  RawClient client(bench.socket());
  client.send(call_text("io.flightd.Recorder.TakeSnapshot", R"({"reason":"why"})"));
  auto taken = client.receive();
  ASSERT_TRUE(taken);
  EXPECT_FALSE(taken->continues) << "progress without `more`";
  EXPECT_THAT(member(taken->parameters, "snapshot"), HasSubstr(R"("reason":"why")"));
  EXPECT_EQ(bench.on_loop([&] { return bench.backend.last_caller.pid; }), ::getpid());
  EXPECT_EQ(bench.on_loop([&] { return bench.backend.last_caller.uid; }), ::getuid());
  EXPECT_NE(bench.on_loop([&] { return bench.backend.last_caller.comm; }), "");

  EXPECT_EQ(ask(call_text("io.flightd.Recorder.DescribeSnapshot", R"({"id":"latest"})")).parameters, taken->parameters);
  EXPECT_EQ(ask(call_text("io.flightd.Recorder.ListSnapshots")).parameters, R"({"snapshots":[]})");
  EXPECT_EQ(ask(call_text("io.flightd.Recorder.RemoveSnapshot", R"({"id":"1"})")).parameters, "{}");
  const Reply gone = ask(call_text("io.flightd.Recorder.RemoveSnapshot", R"({"id":"1"})"));
  EXPECT_EQ(gone.error, "io.flightd.Recorder.NoSuchSnapshot");
  EXPECT_EQ(member(gone.parameters, "id"), R"("1")");
}

TEST_F(ControlServerTest, ReloadsAndReportsItsConfiguration) {
  run();
  const Reply reloaded = ask(call_text("io.flightd.Recorder.Reload"));
  EXPECT_EQ(reloaded.error, "");
  EXPECT_EQ(reloaded.parameters, R"({"digest":"0123456789abcdef","changed":true,"warnings":["careful"]})");
  EXPECT_EQ(bench.on_loop([&] { return bench.backend.last_caller.pid; }), ::getpid());
  const Reply config = ask(call_text("io.flightd.Recorder.GetConfig"));
  EXPECT_EQ(config.error, "");
  EXPECT_EQ(member(config.parameters, "config"),
            R"([{"path":"store.max_files","value":"7","file":"/etc/flightd/flightd.json","line":3}])");
  EXPECT_EQ(member(config.parameters, "digest"), R"("d")");
  for (const char* method : {"io.flightd.Recorder.Reload", "io.flightd.Recorder.GetConfig"})
    EXPECT_EQ(ask(call_text(method, R"({"x":1})")).error, "org.varlink.service.InvalidParameter");
}

TEST_F(ControlServerTest, ARefusedReloadNamesTheLine) {
  bench.backend.refuse_reload = bad_config("/etc/flightd/flightd.json", 7, "channels.a", "no");
  run();
  const Reply refused = ask(call_text("io.flightd.Recorder.Reload"));
  EXPECT_EQ(refused.error, "io.flightd.Recorder.BadConfig");
  EXPECT_EQ(member(refused.parameters, "line"), "7");
}

TEST_F(ControlServerTest, MoreBringsProgress) {
  bench.backend.snapshot_takes = 50ms;
  run();
  Patience patience{std::chrono::steady_clock::time_point::max(), {}};
  auto client = ControlClient::connect(bench.socket(), patience);
  ASSERT_TRUE(client);
  std::vector<unsigned> percents;
  auto reply = client->call({"io.flightd.Recorder.TakeSnapshot", "{}", true, false, false}, [&](const Reply& progress) {
    const auto step = parse_progress(progress.parameters);
    ASSERT_TRUE(step) << progress.parameters;
    EXPECT_EQ(step->step, "writing");
    percents.push_back(step->percent);
  });
  ASSERT_TRUE(reply) << reply.error().what;
  EXPECT_FALSE(reply->continues);
  EXPECT_THAT(percents, testing::ElementsAre(0, 20, 40, 60, 80));
}

TEST_F(ControlServerTest, MoreBringsTheProgressOfAVacuum) {
  run();
  Patience patience{std::chrono::steady_clock::time_point::max(), {}};
  auto client = ControlClient::connect(bench.socket(), patience);
  ASSERT_TRUE(client);
  std::vector<std::string> steps;
  const auto note = [&](const Reply& reply) {
    EXPECT_EQ(member(reply.parameters, "removed"), "[]") << "nothing is known yet";
    const auto step = parse_progress(reply.parameters);
    steps.push_back(step ? fmt::format("{} {}", step->step, step->percent) : reply.parameters);
  };
  auto reply = client->call({"io.flightd.Recorder.Vacuum", "{}", true, false, false}, note);
  ASSERT_TRUE(reply) << reply.error().what;
  EXPECT_EQ(member(reply->parameters, "freed_bytes"), "4096");
  EXPECT_THAT(steps, testing::ElementsAre("deleting 50"));
  steps.clear();
  ASSERT_TRUE(client->call({"io.flightd.Recorder.Vacuum", "{}", false, false, false}, note));
  EXPECT_THAT(steps, testing::IsEmpty());
}

TEST_F(ControlServerTest, BrokenMessagesAreAnsweredAndTheConnectionIsClosed) {
  run();
  std::string deep;
  for (int level = 0; level < 10'000; ++level) deep += '[';
  const std::vector<std::string> broken{
      "",
      "hello",
      "[]",
      "42",
      "null",
      "{",
      R"({"parameters":{}})",
      R"({"method":7})",
      R"({"method":"a.b.C","parameters":[]})",
      R"({"method":"a.b.C","more":"yes"})",
      R"({"method":"a.b.C","oneway":1})",
      "{\"method\":\"io.flightd.Recorder.\xff\xfe\"}",
      "{\"method\":\"a\nb\"}",
      R"({"method":"org.varlink.service.GetInfo","method":"io.flightd.Recorder.GetStatus"})",
      R"({"method":"io.flightd.Recorder.RemoveSnapshot","parameters":{"id":"1","id":"latest"}})",
      deep,
      R"({"method":"a.b.C","parameters":{"x":)" + deep,
  };
  for (const std::string& text : broken) {
    SCOPED_TRACE(text.substr(0, 60));
    RawClient client(bench.socket());
    ASSERT_TRUE(client.send(framed(text)));
    const auto reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->error, "org.varlink.service.InvalidParameter");
    EXPECT_THAT(error_message(*reply), HasSubstr("broken Varlink message"));
    EXPECT_TRUE(client.sees_the_end());
  }
  expect_alive();
  expect_connections(0);
}

TEST_F(ControlServerTest, WrongCallsGetAnErrorAndTheConnectionStays) {
  run();
  struct Case {
    std::string text, error, parameter;
  };
  const std::string take = "io.flightd.Recorder.TakeSnapshot";
  const std::vector<Case> cases{
      {call_text("io.flightd.Recorder.Explode"), "MethodNotFound", ""},
      {call_text("org.varlink.service.Explode"), "MethodNotFound", ""},
      {call_text("org.example.Other.GetStatus"), "InterfaceNotFound", ""},
      {call_text("GetStatus"), "InvalidParameter", "method"},
      {call_text("io.flightd.Recorder."), "InvalidParameter", "method"},
      {call_text(""), "InvalidParameter", "method"},
      {call_text("io.flightd.Recorder.GetStatus", R"({"x":1})"), "InvalidParameter", "x"},
      {call_text("io.flightd.Recorder.GetStatus", "{}", R"(,"upgrade":true)"), "InvalidParameter", "upgrade"},
      {call_text(take, R"({"reason":7})"), "InvalidParameter", "reason"},
      {call_text(take, R"({"reason":"a\nb"})"), "InvalidParameter", "reason"},
      {call_text(take, R"({"last_usec":-1})"), "InvalidParameter", "last_usec"},
      {call_text(take, R"({"last_usec":"10s"})"), "InvalidParameter", "last_usec"},
      {call_text(take, R"({"since":"yesterday"})"), "InvalidParameter", "since"},
      {call_text(take, R"({"capture":"fast"})"), "InvalidParameter", "capture"},
      {call_text("io.flightd.Recorder.DescribeSnapshot"), "InvalidParameter", "id"},
      {call_text("io.flightd.Recorder.DescribeSnapshot", R"({"id":"../../etc/passwd"})"), "InvalidParameter", "id"},
      {call_text("io.flightd.Recorder.RemoveSnapshot", R"({"id":1})"), "InvalidParameter", "id"},
      {call_text("io.flightd.Recorder.ReadSnapshot", R"({"id":"1"})"), "InvalidParameter", "upgrade"},
      {call_text("io.flightd.Recorder.ReadSnapshot", R"({"id":"../x"})", R"(,"upgrade":true)"), "InvalidParameter",
       "id"},
      {call_text("io.flightd.Recorder.PinSnapshot", R"({"id":"../x","pinned":true})"), "InvalidParameter", "id"},
      {call_text("io.flightd.Recorder.PinSnapshot", R"({"id":"1"})"), "InvalidParameter", "pinned"},
      {call_text("io.flightd.Recorder.PinSnapshot", R"({"id":"1","pinned":"yes"})"), "InvalidParameter", "pinned"},
      {call_text("io.flightd.Recorder.ReadSnapshot", R"({"id":"1","what":"passwd"})", R"(,"upgrade":true)"),
       "InvalidParameter", "what"},
      {call_text("io.flightd.Recorder.Vacuum", R"({"dry_run":"yes"})"), "InvalidParameter", "dry_run"},
      {call_text("io.flightd.Recorder.Vacuum", R"({"dry":true})"), "InvalidParameter", "dry"},
      {call_text("io.flightd.Recorder.SetRecording"), "InvalidParameter", "recording"},
      {call_text("io.flightd.Recorder.SetRecording", R"({"recording":0})"), "InvalidParameter", "recording"},
      {call_text("io.flightd.Recorder.Monitor"), "ExpectedMore", ""},
      {call_text("io.flightd.Recorder.Nothing", R"({"name":"x"})"), "MethodNotFound", ""},
  };
  RawClient client(bench.socket());  // one connection for all calls
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    ASSERT_TRUE(client.send(one.text));
    const auto reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->error, "org.varlink.service." + one.error);
    EXPECT_NE(error_message(*reply), reply->error) << "no message for people";
    if (one.parameter.empty()) continue;
    EXPECT_EQ(member(reply->parameters, "parameter"), '"' + one.parameter + '"');
  }
  EXPECT_EQ(bench.backend.begun, 0);
  client.send(kGetStatus);
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, "");
}

TEST_F(ControlServerTest, TooBigIsRefusedWhetherItEndsOrNot) {
  run();
  for (const std::size_t bytes : {kMaxCallBytes + 1, std::size_t{1} << 20U}) {
    for (const bool ends : {true, false}) {
      SCOPED_TRACE(bytes);
      RawClient client(bench.socket());
      std::string text = R"({"method":"org.varlink.service.GetInfo","parameters":{"x":")";
      text.resize(bytes - 3, 'x');
      text += R"("}})";
      client.send(ends ? framed(text) : text);  // the server may close it
      const auto reply = client.receive();
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->error, "org.varlink.service.InvalidParameter");
      EXPECT_THAT(error_message(*reply), HasSubstr("at most 65536 bytes"));
      EXPECT_TRUE(client.sees_the_end());
    }
  }
  // The maximum number.
  RawClient client(bench.socket());
  std::string text = R"({"method":"org.varlink.service.GetInfo","x":")";
  text.resize(kMaxCallBytes - 2, 'x');
  text += "\"}";
  client.send(framed(text));
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, "");
  expect_alive();
}

TEST_F(ControlServerTest, BytesMayDribbleIn) {
  run();
  RawClient client(bench.socket());
  for (const char c : kGetInfo + kGetStatus) {
    ASSERT_TRUE(client.send(std::string_view(&c, 1)));
    std::this_thread::sleep_for(500us);
  }
  for (const char* key : {"interfaces", "status"}) {
    const auto reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_NE(member(reply->parameters, key), "");
  }
}

TEST_F(ControlServerTest, PipelinedCallsAreAnsweredInOrder) {
  bench.backend.snapshot_takes = 50ms;
  run();
  RawClient client(bench.socket());
  std::string text;
  for (int number = 0; number < 5; ++number) {
    text +=
        call_text("io.flightd.Recorder.TakeSnapshot", fmt::format(R"({{"reason":"{}"}})", number), R"(,"more":true)");
    text += kGetInfo;
    text += call_text("io.flightd.Recorder.GetStatus", "{}", R"(,"oneway":true)");
  }
  client.send(text);
  for (int number = 0; number < 5; ++number) {
    auto reply = client.receive();
    while (reply && reply->continues) reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_THAT(member(reply->parameters, "snapshot"), HasSubstr(fmt::format(R"("reason":"{}")", number)));
    reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_NE(member(reply->parameters, "interfaces"), "");
  }
  EXPECT_FALSE(client.receive(50ms)) << "a oneway call was answered";
}

TEST_F(ControlServerTest, ABrokenSidecarIsAnErrorNotABrokenReply) {
  bench.backend.sidecar_of = [](const std::string&, const SnapshotParameters&) {
    return std::string("{\"id\": \"1\", \0 oops", 17);
  };
  run();
  const Reply reply = ask(call_text("io.flightd.Recorder.TakeSnapshot"));
  EXPECT_EQ(reply.error, "io.flightd.Recorder.WriteFailed");
  expect_alive();
}

}  // namespace
}  // namespace flight::daemon
