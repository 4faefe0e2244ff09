// SPDX-License-Identifier: Apache-2.0
// Wrong input to a running flightd: the client gets a clear error, and flightd still answers, records and takes
// snapshots.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <regex>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/raw_socket.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

class InputRunning : public SurvivesTest {
 protected:
  InputRunning() : SurvivesTest(stacks_config(199, "256K")) {}

  // flightd refuses the command of flightctl: exit 1, nothing on stdout, `words` on stderr; with --json the error's
  // name.
  std::string refused(const Arguments& arguments, const std::string& error) {
    Outcome plain = daemon_.ctl(arguments);
    EXPECT_EQ(plain.exit_status, 1) << plain.text();
    EXPECT_EQ(plain.out, "") << plain.text();
    Arguments with_json = {"--json"};
    with_json.insert(with_json.end(), arguments.begin(), arguments.end());
    Outcome json = daemon_.ctl(with_json);
    EXPECT_EQ(json.exit_status, 1) << json.text();
    EXPECT_EQ(json.out, "") << json.text();
    Json object = Json::parse(json.err, nullptr, false);
    EXPECT_TRUE(object.is_object()) << json.text();
    if (!object.is_object()) return plain.err;
    EXPECT_THAT(object.value("error", ""), HasSubstr(error)) << json.text();
    EXPECT_FALSE(object.value("message", "").empty()) << json.text();
    return plain.err;
  }
};

// A command whose output cannot be written fails, and does not report success.
TEST_F(InputRunning, OutputThatCannotBeWritten) {
  (void)daemon_.snapshot();
  const auto through = [&](const std::string& script, const Arguments& arguments) {
    Arguments command = {"sh", "-c", script, "sh"};
    for (const std::string& word : daemon_.ctl_command(arguments)) command.push_back(word);
    return run(command, 20s);
  };
  for (const Arguments& arguments : {Arguments{"list"}, {"--json", "list"}, {"get", "latest", "-o", "-"}, {"monitor"}})
    for (const char* script : {R"(exec "$@" >&-)", R"(exec "$@" <&- >&-)", R"(exec "$@" >/dev/full)"}) {
      const Outcome outcome = through(script, arguments);
      EXPECT_FALSE(outcome.timed_out) << script << " " << arguments.back();
      EXPECT_EQ(outcome.exit_status, 1) << script << " " << arguments.back() << outcome.text();
    }
}

// The oldest time that the error message names is a valid time for a request.
TEST_F(InputRunning, TheOldestTimeHeldIsHeld) {
  const std::string why = refused({"snapshot", "--since", "2001-01-01T00:00:00Z"}, "InvalidParameter");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(why, found, std::regex("they reach back to ([^ ]+)"))) << why;
  const Outcome again = daemon_.ctl({"snapshot", "--since", found[1]});
  EXPECT_EQ(again.exit_status, 0) << again.text();
}

TEST_F(InputRunning, UnknownIds) {
  for (const char* command : {"info", "remove"}) {
    EXPECT_THAT(refused({command, "999999"}, "io.flightd.Recorder.NoSuchSnapshot"), HasSubstr("999999"));
  }
  (void)refused({"info", "latest"}, "io.flightd.Recorder.NoSuchSnapshot");
}

TEST_F(InputRunning, UsageErrorsAreTwo) {
  const Arguments cases[] = {{"frobnicate"},
                             {"snapshot", "--last", "10parsecs"},
                             {"snapshot", "--last"},
                             {"snapshot", "--capture", "sometimes"},
                             {"snapshot", "--last", "1s", "--since", "03:10"},
                             {"snapshot", "--until", "03:10"},
                             {"snapshot", "--no-such-option"},
                             {"remove"}};
  for (const Arguments& arguments : cases) {
    Outcome outcome = daemon_.ctl(arguments);
    EXPECT_EQ(outcome.exit_status, 2) << outcome.text();
    EXPECT_EQ(outcome.out, "") << outcome.text();
    EXPECT_NE(outcome.err, "") << outcome.text();
  }
  EXPECT_EQ(daemon_.ctl({"--help"}).exit_status, 0);
}

TEST_F(InputRunning, PastThatIsNoLongerHeld) {
  std::string text = refused({"snapshot", "--since", "2020-01-01 00:00"}, "InvalidParameter");
  EXPECT_THAT(text, AllOf(HasSubstr("rings"), ContainsRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]")));
}

TEST_F(InputRunning, NoDaemonThere) {
  for (const Arguments& arguments : {Arguments{"status"}, Arguments{"snapshot"}, Arguments{"list"}}) {
    Arguments command = {required_env("FLIGHTCTL"), "--socket", folder_ / "nobody-listens"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Outcome plain = run(command);
    EXPECT_EQ(plain.exit_status, 1) << plain.text();
    EXPECT_THAT(plain.err, AllOf(HasSubstr(folder_ / "nobody-listens"), HasSubstr("flightd")));
    command.insert(command.begin() + 1, "--json");
    Outcome json = run(command);
    EXPECT_EQ(json.exit_status, 1);
    EXPECT_EQ(json.out, "");
    EXPECT_TRUE(Json::parse(json.err, nullptr, false).contains("error")) << json.text();
  }
}

TEST_F(InputRunning, BrokenVarlinkIsAnErrorReply) {
  const struct {
    const char* call;
    const char* error;  // ends with "." if any error of that interface is accepted
  } cases[] = {
      {"this is no JSON", "org.varlink.service."},
      {"", "org.varlink.service."},
      {"[1, 2, 3]", "org.varlink.service."},
      {"{\"method\": 5}", "org.varlink.service."},
      {"{\"parameters\": {}}", "org.varlink.service."},
      {"{\"method\": \"\xff\xfe\"}", "org.varlink.service."},
      {R"({"method": "GetStatus"})", "org.varlink.service."},
      {R"({"method": "io.flightd.Recorder.MakeCoffee"})", "org.varlink.service.MethodNotFound"},
      {R"({"method": "io.example.Nothing.Do"})", "org.varlink.service.InterfaceNotFound"},
      {R"({"method": "io.flightd.Recorder.TakeSnapshot", "parameters": {"reason": 7}})",
       "org.varlink.service.InvalidParameter"},
      {R"({"method": "io.flightd.Recorder.TakeSnapshot", "parameters": {"reason": "bell \u0007"}})",
       "org.varlink.service.InvalidParameter"},
      {R"({"method": "io.flightd.Recorder.TakeSnapshot", "parameters": {"last_usec": -1}})",
       "org.varlink.service.InvalidParameter"},
      {R"({"method": "io.flightd.Recorder.TakeSnapshot", "parameters": {"capture": "never"}})",
       "org.varlink.service.InvalidParameter"},
      {R"({"method": "io.flightd.Recorder.TakeSnapshot", "parameters": {"surprise": true}})",
       "org.varlink.service.InvalidParameter"},
      {R"({"method": "io.flightd.Recorder.DescribeSnapshot", "parameters": {"id": "../../etc/passwd"}})",
       "org.varlink.service.InvalidParameter"},
      {R"({"method": "io.flightd.Recorder.DescribeSnapshot", "parameters": {"id": "7"}})",
       "io.flightd.Recorder.NoSuchSnapshot"},
  };
  for (const auto& broken : cases) {
    SCOPED_TRACE(broken.call);
    RawSocket socket = RawSocket::connect(daemon_.socket());
    ASSERT_TRUE(socket.connected());
    ASSERT_TRUE(socket.call(broken.call));
    std::string answer = socket.receive().value_or("");
    Json reply = Json::parse(answer, nullptr, false);
    ASSERT_TRUE(reply.is_object()) << answer;
    EXPECT_TRUE(reply.value("error", "").starts_with(broken.error)) << answer;
    EXPECT_EQ(run(daemon_.ctl_command({"status"})).exit_status, 0);
  }
}

TEST_F(InputRunning, TooBigAndTooDeepMessagesEndTheirOwnConnection) {
  RawSocket big = RawSocket::connect(daemon_.socket());
  (void)big.send(std::string(1U << 20U, 'x'));  // flightd may stop reading
  (void)big.receive();
  EXPECT_TRUE(big.closed());
  EXPECT_TRUE(daemon_.goes_on());

  RawSocket deep = RawSocket::connect(daemon_.socket());
  std::string nested = R"({"method":"io.flightd.Recorder.GetStatus","parameters":)" + std::string(20'000, '[') +
                       std::string(20'000, ']') + "}";
  ASSERT_TRUE(deep.call(nested));
  EXPECT_THAT(deep.receive().value_or(""), HasSubstr("error"));
}

TEST_F(InputRunning, HalfAMessageBlocksNoOtherClient) {
  RawSocket half = RawSocket::connect(daemon_.socket());
  ASSERT_TRUE(half.send(R"({"method":"io.flightd.Rec)"));
  EXPECT_TRUE(daemon_.goes_on());
  half.close();
  // A client that disconnects cancels nothing and breaks nothing.
  RawSocket leaver = RawSocket::connect(daemon_.socket());
  ASSERT_TRUE(leaver.call(R"({"method":"io.flightd.Recorder.TakeSnapshot","parameters":{"reason":"left"}})"));
  leaver.close();
  EXPECT_TRUE(wait_until([&] { return daemon_.ctl_json({"list"}).dump().find("\"left\"") != std::string::npos; }, 20s));
}

TEST_F(InputRunning, ManyConnectionsOfOneUidAreBounded) {
  std::vector<RawSocket> sockets;
  sockets.reserve(200);
  for (int i = 0; i < 200; ++i) sockets.push_back(RawSocket::connect(daemon_.socket()));
  // This test holds all slots of its uid. Other users still have theirs.
  Outcome other = run(own_user_command({"--json", "status"}));
  EXPECT_EQ(other.exit_status, 0) << other.text();
  sockets.clear();
  EXPECT_TRUE(wait_until([&] { return daemon_.ctl({"status"}).exit_status == 0; }, 10s));
}

TEST_F(InputRunning, SnapshotsFolderThatWentAway) {
  const std::uint64_t before = std::stoull(daemon_.snapshot()["id"].get<std::string>());
  fs::rename(daemon_.snapshots_dir(), folder_ / "state/elsewhere");
  // It is made again, and the numbers go on.
  EXPECT_EQ(daemon_.snapshot()["id"], std::to_string(before + 1));
  EXPECT_THAT(daemon_.log(), HasSubstr("flightd has made it again"));
  fs::rename(daemon_.snapshots_dir(), folder_ / "state/second");
  write_text(daemon_.snapshots_dir(), "in its place");
  EXPECT_THAT(refused({"snapshot"}, "io.flightd.Recorder."), HasSubstr(daemon_.snapshots_dir()));
  EXPECT_EQ(daemon_.ctl({"status"}).exit_status, 0);
  fs::remove(daemon_.snapshots_dir());
  fs::rename(folder_ / "state/elsewhere", daemon_.snapshots_dir());
  EXPECT_EQ(daemon_.snapshot()["id"], std::to_string(before + 2));
}

// A separate disk that can be made read-only and full.
TEST(InputRunningDisk, ReadOnlyAndFullDisks) {
  TempFolder folder;
  std::string disk = folder / "disk";
  ASSERT_EQ(mkdir(disk.c_str(), 0755), 0);
  ASSERT_TRUE(mount_tmpfs(disk, "size=64m"));
  StartOptions options;
  options.state_dir = disk + "/state";
  TestDaemon daemon(folder);
  ASSERT_TRUE(daemon.start(stacks_config(997, "1M"), options));
  ASSERT_TRUE(daemon.goes_on());

  // The kernel's symbols are written after the first snapshot. If they were to fail, their space would be free again.
  ASSERT_TRUE(wait_until(
      [&] {
        return std::any_of(fs::directory_iterator(daemon.snapshots_dir()), {},
                           [](const auto& file) { return file.path().filename().string().starts_with("kallsyms-"); });
      },
      20s));
  // The disk is full: a snapshot does not fit into the remaining space.
  write_text(disk + "/filler", std::string(100U << 20U, 'x'));
  Outcome full = daemon.ctl({"--json", "snapshot"});
  EXPECT_EQ(full.exit_status, 1) << full.text();
  EXPECT_THAT(full.err, AllOf(HasSubstr("No space left"), HasSubstr("io.flightd.Recorder.StoreFull"))) << full.text();
  EXPECT_TRUE(records(daemon.status()));
  fs::remove(disk + "/filler");
  EXPECT_TRUE(daemon.goes_on());

  // Symbols are written after the reply.
  ASSERT_TRUE(wait_until([&] { return remount_tmpfs(disk, true, "size=64m"); }, 20s))
      << "a file is still open for writing?";
  Outcome read_only = daemon.ctl({"snapshot"});
  EXPECT_EQ(read_only.exit_status, 1) << read_only.text();
  EXPECT_THAT(read_only.err, AllOf(HasSubstr("ead-only"), HasSubstr(disk)));
  ASSERT_TRUE(remount_tmpfs(disk, false, "size=64m"));
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(no_partials(daemon.snapshots_dir()));
  EXPECT_TRUE(daemon.stop());
  unmount(disk);
}

}  // namespace
}  // namespace flight
