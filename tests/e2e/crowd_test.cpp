// SPDX-License-Identifier: Apache-2.0
// A hundred clients at once, and hostile clients: all other clients are still served.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Crowd : public SurvivesTest {
 protected:
  Crowd() : SurvivesTest(stacks_config(199, "64K")) {}
  std::size_t data_files() const { return files(".perf.data").size(); }
  // The resident memory of the process, in KiB.
  std::uint64_t rss_kib() const {
    const std::string status = read_text(fmt::format("/proc/{}/status", daemon_.pid()));
    return std::strtoull(status.c_str() + status.find("RssAnon:") + 8, nullptr, 10);
  }
};

// The first request waits for its --post time. So all others arrive before it ends, and share the second snapshot.
TEST_F(Crowd, AHundredClientsOfRootMakeTwoFiles) {
  constexpr int kClients = 100;
  // Plain connections, not programs: a hundred programs would take too long to start.
  std::vector<RawSocket> askers;
  for (int i = 0; i < kClients; ++i) {
    askers.push_back(RawSocket::connect(daemon_.socket()));
    ASSERT_TRUE(askers.back().call(fmt::format(
        R"({{"method":"io.flightd.Recorder.TakeSnapshot","parameters":{{"reason":"asker {}","post_usec":15000000}}}})",
        i)));
  }
  std::set<std::string> ids;
  for (RawSocket& asker : askers) {
    const auto answer = asker.receive(120s);
    ASSERT_TRUE(answer);
    const Json reply = Json::parse(*answer, nullptr, false);
    ASSERT_TRUE(reply.contains("parameters") && reply["parameters"].contains("snapshot")) << answer->substr(0, 300);
    ids.insert(reply["parameters"]["snapshot"]["id"]);
  }
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(data_files(), 2U);
  std::set<std::string> reasons;
  std::size_t requests = 0;
  for (const std::string& id : ids) {
    const Json sidecar = daemon_.ctl_json({"info", id});
    for (const Json& request : sidecar["requests"]) reasons.insert(request["reason"]);
    requests += sidecar["requests"].size();
  }
  EXPECT_EQ(requests, static_cast<std::size_t>(kClients));
  EXPECT_EQ(reasons.size(), static_cast<std::size_t>(kClients)) << "every asker is in a sidecar, once";
}

TEST_F(Crowd, AHundredClientsThatLeaveCancelNothing) {
  std::vector<Child> askers;
  for (int i = 0; i < 100; ++i)
    askers.push_back(Child::start(daemon_.ctl_command({"snapshot", "--post", "4s", "--reason", "left"})));
  // After two more replies flightd has read all calls so far.
  for (int i = 0; i < 2; ++i) (void)daemon_.status();
  askers.clear();  // killed
  ASSERT_TRUE(wait_until([&] { return data_files() >= 1; }, 60s));
  EXPECT_EQ(daemon_.ctl_json({"info", "latest"})["reason"], "left");
  // Their slots are free again.
  EXPECT_TRUE(wait_until([&] { return daemon_.ctl({"status"}).exit_status == 0; }, 30s));
}

TEST_F(Crowd, AHundredClientsFetchTheSameFile) {
  const Json sidecar = daemon_.snapshot();
  const std::string bytes = read_text(sidecar["path"]);
  std::vector<Child> readers;
  for (int i = 0; i < 100; ++i)
    readers.push_back(
        Child::start(daemon_.ctl_command({"get", sidecar["id"], "-o", folder_ / fmt::format("scratch/copy-{}", i)})));
  for (int i = 0; i < 100; ++i) {
    const Outcome got = readers[static_cast<std::size_t>(i)].finish(120s);
    ASSERT_EQ(got.exit_status, 0) << got.text();
    EXPECT_TRUE(read_text(folder_ / fmt::format("scratch/copy-{}", i)) == bytes) << i;
  }
}

TEST_F(Crowd, AHundredMebibytesWithoutANul) {
  const std::uint64_t before_kib = rss_kib();
  std::thread flood([&] {
    for (int i = 0; i < 20; ++i) {  // each is cut off after 64 KiB; the client connects again
      RawSocket socket = RawSocket::connect(daemon_.socket());
      (void)socket.send(std::string(100U << 20U, 'x'), 2s);
      EXPECT_THAT(socket.receive(5s).value_or("at most 65536 bytes"), HasSubstr("at most 65536 bytes"));
      EXPECT_TRUE(socket.closed(5s));
    }
  });
  EXPECT_EQ(run(own_user_command({"status"})).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"status"}).exit_status, 0);
  flood.join();
  if (!sanitized()) {
    EXPECT_LT(rss_kib(), before_kib + (10U << 10U));
  }
}

TEST_F(Crowd, HalfAMessageAndSilence) {
  std::vector<RawSocket> halves;
  for (int i = 0; i < 100; ++i) {
    halves.push_back(RawSocket::connect(daemon_.socket()));
    ASSERT_TRUE(halves.back().send(R"({"method":"io.flightd.Rec)"));
  }
  EXPECT_EQ(run(own_user_command({"status"})).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"status"}).exit_status, 0) << "a hundred of 128 places are taken";
  for (RawSocket& half : halves) EXPECT_TRUE(half.closed(60s)) << "half a message was waited for for ever";
}

TEST_F(Crowd, AThousandConnections) {
  std::vector<RawSocket> sockets;
  EXPECT_TRUE(wait_until(
      [&] {
        // Connects until the queue before accept(2) is full for a moment.
        for (RawSocket one = RawSocket::connect(daemon_.socket()); one.connected() && sockets.size() < 1000;
             one = RawSocket::connect(daemon_.socket()))
          sockets.push_back(std::move(one));
        return sockets.size() == 1000;
      },
      60s));
  // This test holds all of root's slots with silent connections: flightd closes the oldest.
  const Outcome root = daemon_.ctl({"--json", "status"});
  EXPECT_EQ(root.exit_status, 0) << root.text();
  const Outcome other = run(own_user_command({"--json", "status"}));
  EXPECT_EQ(other.exit_status, 0) << other.text();
  sockets.clear();
  EXPECT_TRUE(wait_until([&] { return daemon_.ctl({"status"}).exit_status == 0; }, 10s));
}

// Values that flightctl would refuse itself, and values that it could not send.
TEST_F(Crowd, IdsAndReasonsThatMeanHarm) {
  (void)daemon_.snapshot();
  write_text(folder_ / "scratch/secret", "secret");
  for (const char* method : {"DescribeSnapshot", "ReadSnapshot", "RemoveSnapshot", "PinSnapshot"}) {
    for (const char* id :
         {"../../scratch/secret", "/etc/passwd", "..", "1/../1", "1\\u0000", "", "-1", "1 ", "latest/"}) {
      RawSocket socket = RawSocket::connect(daemon_.socket());
      const bool pins = std::string_view(method) == "PinSnapshot", reads = std::string_view(method) == "ReadSnapshot";
      ASSERT_TRUE(
          socket.call(fmt::format(R"({{"method":"io.flightd.Recorder.{}","parameters":{{"id":"{}"{}}}{}}})", method, id,
                                  pins ? R"(,"pinned":true)" : "", reads ? R"(,"upgrade":true)" : "")));
      EXPECT_THAT(socket.receive().value_or(""), HasSubstr("InvalidParameter")) << method << " " << id;
    }
  }
  EXPECT_EQ(read_text(folder_ / "scratch/secret"), "secret");
  for (const char* reason : {"\\u001b[2J", "a\\nb", "bell \\u0007", "\\u009b31m", "\\u007f"}) {
    RawSocket socket = RawSocket::connect(daemon_.socket());
    ASSERT_TRUE(socket.call(
        fmt::format(R"({{"method":"io.flightd.Recorder.TakeSnapshot","parameters":{{"reason":"{}"}}}})", reason)));
    EXPECT_THAT(socket.receive().value_or(""), HasSubstr("InvalidParameter")) << reason;
  }
  EXPECT_EQ(daemon_.ctl_json({"list"}).size(), 1U);
  for (const char c : daemon_.log()) ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << daemon_.log();
}

TEST_F(Crowd, NestedAndMistypedParametersOfEveryMethod) {
  const std::string deep = std::string(30'000, '[') + std::string(30'000, ']');
  for (const char* method :
       {"GetStatus", "TakeSnapshot", "ListSnapshots", "DescribeSnapshot", "ReadSnapshot", "RemoveSnapshot",
        "PinSnapshot", "SetRecording", "ListTriggers", "FireTrigger", "SetTrigger", "Monitor"}) {
    for (const std::string& parameters :
         {deep, std::string("7"), std::string(R"({"id":["1"],"pinned":{},"recording":"no","reason":[]})"),
          std::string(R"({"id":{"id":{"id":{}}}})")}) {
      RawSocket socket = RawSocket::connect(daemon_.socket());
      ASSERT_TRUE(
          socket.call(fmt::format(R"({{"method":"io.flightd.Recorder.{}","parameters":{},"more":true,"upgrade":{}}})",
                                  method, parameters, std::string_view(method) == "ReadSnapshot")));
      EXPECT_THAT(socket.receive().value_or(""), HasSubstr("InvalidParameter"))
          << method << " " << parameters.substr(0, 60);
    }
  }
  EXPECT_TRUE(records(daemon_.status()));
}

}  // namespace
}  // namespace flight
