// SPDX-License-Identifier: Apache-2.0
// Tests which users may connect, the limits of connections, and which files may be at the socket's path.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <filesystem>

#include "daemon/log/log.hpp"
#include "libcore/base/files.hpp"
#include "tests/unit/base/failing_listings.hpp"
#include "tests/unit/daemon/control/raw_client.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;
constexpr gid_t kSomeGroup = 54321;

// Credentials belong to a thread; the C library's wrappers would change all threads.
template <typename What>
void as_user(uid_t uid, std::vector<gid_t> groups, What what) {
  std::thread thread([&] {
    ASSERT_EQ(::syscall(SYS_setgroups, groups.size(), groups.data()), 0);
    ASSERT_EQ(::syscall(SYS_setresgid, kNobody, kNobody, kNobody), 0);
    ASSERT_EQ(::syscall(SYS_setresuid, uid, uid, uid), 0);
    what();
  });
  thread.join();
}

TEST_F(ControlServerTest, AccessIsDecidedPerMethod) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlAccess access;
  access.own_uid = 12345;
  access.group = kSomeGroup;
  run({}, access);
  as_user(kNobody, {}, [&] {
    EXPECT_EQ(ask(kGetInfo).error, "");
    for (const char* method :
         {"GetStatus", "TakeSnapshot", "ListSnapshots", "DescribeSnapshot", "ReadSnapshot", "RemoveSnapshot",
          "PinSnapshot", "Vacuum", "SetRecording", "ListTriggers", "FireTrigger", "SetTrigger", "Monitor"}) {
      const Reply reply = ask(call_text(fmt::format("io.flightd.Recorder.{}", method)));
      EXPECT_EQ(reply.error, "org.varlink.service.PermissionDenied") << method;
      EXPECT_THAT(error_message(reply), HasSubstr("uid 65534"));
    }
    EXPECT_EQ(ask(call_text("io.flightd.Recorder.Nothing")).error, "org.varlink.service.MethodNotFound");
  });
  as_user(kNobody, {7, kSomeGroup, 9}, [&] { EXPECT_EQ(ask(kGetStatus).error, ""); });
  std::vector<gid_t> many;
  for (gid_t gid = 100'000; gid < 100'500; ++gid) many.push_back(gid);
  as_user(kNobody, many, [&] { EXPECT_EQ(ask(kGetStatus).error, "org.varlink.service.PermissionDenied"); });
  many.push_back(kSomeGroup);
  as_user(kNobody, many, [&] { EXPECT_EQ(ask(kGetStatus).error, ""); });
  as_user(12345, {}, [&] { EXPECT_EQ(ask(kGetStatus).error, ""); });
}

TEST_F(ControlServerTest, TheTriggerGroupMayOnlyFire) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlAccess access;
  access.group = kSomeGroup;
  access.trigger_group = kSomeGroup + 1;
  run({}, access);
  const std::string fire = call_text("io.flightd.Recorder.FireTrigger", R"({"name":"probe","reason":"too slow"})");
  const std::string test = call_text("io.flightd.Recorder.FireTrigger", R"({"name":"probe","test":true})");
  as_user(kNobody, {kSomeGroup + 1}, [&] {
    const Reply fired = ask(fire);
    EXPECT_EQ(fired.error, "");
    EXPECT_EQ(member(fired.parameters, "id"), R"("7")");
    EXPECT_EQ(bench.on_loop([&] { return bench.backend.last_fire.reason; }), "too slow");
    EXPECT_EQ(ask(test).error, "org.varlink.service.PermissionDenied");
    EXPECT_EQ(ask(call_text("io.flightd.Recorder.FireTrigger", R"({"name":"x"})")).error,
              "io.flightd.Recorder.NoSuchTrigger");
    for (const char* method :
         {"GetStatus", "TakeSnapshot", "ListSnapshots", "DescribeSnapshot", "ReadSnapshot", "RemoveSnapshot",
          "PinSnapshot", "SetRecording", "ListTriggers", "SetTrigger", "Monitor"})
      EXPECT_EQ(ask(call_text(fmt::format("io.flightd.Recorder.{}", method))).error,
                "org.varlink.service.PermissionDenied")
          << method;
  });
  as_user(kNobody, {kSomeGroup}, [&] {
    EXPECT_EQ(ask(test).error, "");
    EXPECT_EQ(ask(call_text("io.flightd.Recorder.SetTrigger", R"({"name":"probe","enabled":false})")).error, "");
    EXPECT_THAT(member(ask(call_text("io.flightd.Recorder.ListTriggers")).parameters, "triggers"), HasSubstr("probe"));
  });
  EXPECT_FALSE(bench.on_loop([&] { return bench.backend.probe_enabled; }));
}

TEST_F(ControlServerTest, ARefusalNamesGroupsThatFlightdDoesNotKnow) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlAccess access;
  access.group = kSomeGroup;
  run({}, access);
  as_user(kNobody, {}, [&] {
    const std::string status = error_message(ask(kGetStatus));
    EXPECT_THAT(status, testing::EndsWith("be root or a member of flightd's group"));
    const std::string fire = error_message(ask(call_text("io.flightd.Recorder.FireTrigger", R"({"name":"probe"})")));
    EXPECT_THAT(fire, HasSubstr("or of flightd-trigger; flightd knows no group flightd-trigger: if there is none"));
    EXPECT_THAT(fire, HasSubstr("groupadd --system"));
  });
}

TEST_F(ControlServerTest, TriggersParametersAreChecked) {
  run();
  const auto refused = [&](std::string_view method, std::string_view parameters) {
    const Reply reply = ask(call_text(fmt::format("io.flightd.Recorder.{}", method), std::string(parameters)));
    EXPECT_EQ(reply.error, "org.varlink.service.InvalidParameter") << method << parameters;
    return error_message(reply);
  };
  EXPECT_THAT(refused("FireTrigger", "{}"), HasSubstr("'name' is missing"));
  EXPECT_THAT(refused("FireTrigger", R"({"name":""})"), HasSubstr("'name' is missing"));
  EXPECT_THAT(refused("FireTrigger", R"({"name":7})"), HasSubstr("'name' must be a string"));
  EXPECT_THAT(refused("FireTrigger", R"({"name":"probe","test":1})"), HasSubstr("true or false"));
  EXPECT_THAT(refused("FireTrigger", R"({"name":"probe","reason":"a\nb"})"), HasSubstr("one line"));
  EXPECT_THAT(refused("FireTrigger", fmt::format(R"({{"name":"probe","reason":"{}"}})", std::string(1025, 'x'))),
              HasSubstr("at most 1024"));
  EXPECT_THAT(refused("FireTrigger", R"({"name":"probe","now":true})"), HasSubstr("there are: name, reason, test"));
  EXPECT_THAT(refused("SetTrigger", R"({"name":"probe"})"), HasSubstr("'enabled' is missing"));
  EXPECT_THAT(refused("SetTrigger", R"({"name":"probe","enabled":"no"})"), HasSubstr("true or false"));
  EXPECT_THAT(refused("ListTriggers", R"({"name":"probe"})"), HasSubstr("no parameters"));
}

class Crowd {
 public:
  explicit Crowd(const std::string& socket) : socket_(socket) {}
  // Opens `count` more connections; returns how many of them are served. They stay open.
  int connect(int count) {
    int served = 0;
    for (int number = 0; number < count; ++number) {
      clients_.push_back(std::make_unique<RawClient>(socket_));
      clients_.back()->send(kGetInfo);
      const auto reply = clients_.back()->receive();
      if (!reply) continue;
      if (reply->error.empty()) {
        ++served;
      } else {
        EXPECT_EQ(reply->error, "org.varlink.service.PermissionDenied");
        last_refusal = error_message(*reply);
        EXPECT_TRUE(clients_.back()->sees_the_end());
      }
    }
    return served;
  }
  void leave() { clients_.clear(); }
  std::string last_refusal;

 private:
  std::string socket_;
  std::vector<std::unique_ptr<RawClient>> clients_;
};

TEST_F(ControlServerTest, AHundredOfAStrangersConnections) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  run();
  Crowd crowd(bench.socket());
  as_user(kNobody, {}, [&] { EXPECT_EQ(crowd.connect(100), 100); });
  expect_connections(16);  // each new one replaced the oldest idle one
  crowd.leave();
  expect_connections(0);
  expect_alive();
}

TEST_F(ControlServerTest, AThousandConnectionsOfATrustedUser) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlAccess access;
  access.group = kSomeGroup;
  run({}, access);
  Crowd crowd(bench.socket());
  as_user(30'000, {kSomeGroup}, [&] { EXPECT_EQ(crowd.connect(1000), 1000); });
  expect_connections(128);
  expect_alive();  // root
  as_user(30'001, {kSomeGroup}, [&] { EXPECT_EQ(ask(kGetStatus).error, ""); });
  as_user(kNobody, {}, [&] { EXPECT_EQ(ask(kGetInfo).error, ""); });
  crowd.leave();
  expect_connections(0);
}

TEST_F(ControlServerTest, RootAndTheGroupHaveSeparateLimits) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlAccess access;
  access.group = kSomeGroup;
  run({}, access);
  Crowd crowd(bench.socket());
  int strangers = 0, members = 0;
  for (uid_t uid = 20'000; uid < 20'010; ++uid) as_user(uid, {}, [&] { strangers += crowd.connect(10); });
  EXPECT_THAT(crowd.last_refusal, HasSubstr("has 64 connections"));
  for (uid_t uid = 30'000; uid < 30'003; ++uid) as_user(uid, {kSomeGroup}, [&] { members += crowd.connect(100); });
  EXPECT_EQ(strangers, 70) << "of 64 places; the seventh user takes those of its own, and the others have none";
  EXPECT_EQ(members, 200) << "of 192";
  EXPECT_EQ(crowd.connect(130), 130);  // root
  expect_connections(64 + 192 + 128);
}

TEST_F(ControlServerTest, HalfOpenConnectionsOfAUserAreReplaced) {
  ControlLimits limits;
  limits.root = limits.trusted = limits.per_trusted_uid = 4;  // of whoever runs this test
  run(limits);
  std::vector<std::unique_ptr<RawClient>> halves;
  for (int i = 0; i < 10; ++i) {
    halves.push_back(std::make_unique<RawClient>(bench.socket()));
    halves.back()->send(i % 2 == 0 ? "{\"method\":\"io.fli" : "");
  }
  EXPECT_EQ(ask(kGetStatus).error, "");
  EXPECT_TRUE(halves[0]->receive()) << "it receives the reason";
  EXPECT_TRUE(halves[0]->sees_the_end()) << "the oldest goes first";
}

TEST_F(ControlServerTest, AConnectionWithoutACallIsDroppedFirst) {
  ControlLimits limits;
  limits.root = limits.trusted = limits.per_trusted_uid = 4;  // of whoever runs this test
  run(limits);
  RawClient regular(bench.socket());
  regular.send(kGetInfo);
  ASSERT_TRUE(regular.receive());
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 9; ++i) silent.push_back(std::make_unique<RawClient>(bench.socket()));
  EXPECT_EQ(ask(kGetStatus).error, "");
  regular.send(kGetInfo);
  const auto reply = regular.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, "");
}

TEST_F(ControlServerTest, ConnectionsWithACallUnderWayAndThoseOfOthersStay) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlAccess access;
  access.group = kSomeGroup;
  ControlLimits limits;
  limits.trusted = limits.per_trusted_uid = 3;
  run(limits, access);
  std::vector<std::unique_ptr<RawClient>> listeners;
  as_user(30'000, {kSomeGroup}, [&] {
    for (int i = 0; i < 3; ++i) {
      listeners.push_back(std::make_unique<RawClient>(bench.socket()));
      listeners.back()->send(call_text("io.flightd.Recorder.Monitor", "{}", R"(,"more":true)"));
      ASSERT_TRUE(listeners.back()->receive());
    }
    EXPECT_EQ(ask(kGetStatus).error, "org.varlink.service.PermissionDenied");
  });
  listeners.pop_back();
  expect_connections(2);
  std::unique_ptr<RawClient> idle;
  as_user(30'001, {kSomeGroup}, [&] { idle = std::make_unique<RawClient>(bench.socket()); });
  expect_connections(3);
  as_user(30'000, {kSomeGroup}, [&] { EXPECT_EQ(ask(kGetStatus).error, "org.varlink.service.PermissionDenied"); });
  as_user(30'001, {kSomeGroup}, [&] { EXPECT_EQ(ask(kGetStatus).error, ""); });
}

const std::string kMonitor = call_text("io.flightd.Recorder.Monitor", "{}", R"(,"more":true)");
const std::string kTakeSnapshot = call_text("io.flightd.Recorder.TakeSnapshot");
const std::string kListSnapshots = call_text("io.flightd.Recorder.ListSnapshots");

// The connections of one user, each with a call that does not end.
class Waiting {
 public:
  Waiting(const std::string& socket, std::string call) : socket_(socket), call_(std::move(call)) {}
  // Begins `count` more calls, and returns how many were not refused.
  int begin(int count) {
    int begun = 0;
    for (int number = 0; number < count; ++number) {
      clients_.push_back(std::make_unique<RawClient>(socket_));
      clients_.back()->send(call_);
      const auto reply = clients_.back()->receive();
      if (reply && reply->error.empty()) {
        ++begun;
        continue;
      }
      EXPECT_TRUE(reply && reply->error == "org.varlink.service.PermissionDenied");
      if (reply) last_refusal = error_message(*reply);
      clients_.pop_back();
    }
    return begun;
  }
  std::string last_refusal;

 private:
  std::string socket_, call_;
  std::vector<std::unique_ptr<RawClient>> clients_;
};

// In an earlier version 128 of root's refused everybody of root's a status.
TEST_F(ControlServerTest, ListenersLeavePlacesForShorterCalls) {
  ControlLimits limits;
  limits.root = limits.trusted = limits.per_trusted_uid = 16;  // of whoever runs this test
  run(limits);
  Waiting listeners(bench.socket(), kMonitor);
  EXPECT_EQ(listeners.begin(20), 12);
  EXPECT_THAT(listeners.last_refusal, HasSubstr("already has 12 long calls at flightd"));
  for (const std::string& call : {kGetStatus, kTakeSnapshot, kListSnapshots}) EXPECT_EQ(ask(call).error, "") << call;
}

// A disk that hangs, or clients that read nothing.
TEST_F(ControlServerTest, CallsThatWaitForADiskLeavePlacesForAStatusAndASnapshot) {
  const UniqueFd hung = bench.hang_reads();
  ControlLimits limits;
  limits.root = limits.trusted = limits.per_trusted_uid = 16;  // of whoever runs this test
  run(limits);
  Waiting readers(bench.socket(), call_text("io.flightd.Recorder.ReadSnapshot", R"({"id":"1"})", R"(,"upgrade":true)"));
  EXPECT_EQ(readers.begin(20), 14);
  EXPECT_EQ(ask(kListSnapshots).error, "org.varlink.service.PermissionDenied");
  EXPECT_EQ(ask(kMonitor).error, "org.varlink.service.PermissionDenied");
  for (const std::string& call : {kGetStatus, kTakeSnapshot}) EXPECT_EQ(ask(call).error, "") << call;
}

TEST_F(ControlServerTest, ListenersOfSeveralUsersLeavePlacesToo) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlAccess access;
  access.group = kSomeGroup;
  ControlLimits limits;
  limits.trusted = 16;
  limits.per_trusted_uid = 8;
  run(limits, access);
  Waiting listeners(bench.socket(), kMonitor);
  for (const uid_t uid : {30'000U, 30'001U})
    as_user(uid, {kSomeGroup}, [&] { EXPECT_EQ(listeners.begin(8), 6) << "of 8 places"; });
  expect_connections(12);
  as_user(30'002, {kSomeGroup}, [&] {
    EXPECT_EQ(listeners.begin(1), 0) << "of 16 places, 12 are for them";
    EXPECT_THAT(listeners.last_refusal, HasSubstr("users with the same access already have 12 long calls"));
    EXPECT_EQ(ask(kGetStatus).error, "");
  });
  EXPECT_EQ(listeners.begin(1), 1) << "root";
}

TEST_F(ControlServerTest, OutOfDescriptorsIsWaitedOut) {
  run();
  RawClient before(bench.socket());
  before.send(kGetInfo);
  ASSERT_TRUE(before.receive());
  RawClient late(bench.socket());
  late.send(kGetInfo);  // it is accepted to read its credentials, then closed
  ASSERT_TRUE(late.receive());
  // Takes every free descriptor of the process, which the server shares.
  std::vector<UniqueFd> taken;
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  rlimit low = old_limit;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  UniqueFd waiting(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.emplace_back(fd);
  const sockaddr_un address = address_of(bench.socket());
  ASSERT_EQ(::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  before.send(kGetInfo);
  EXPECT_TRUE(before.receive()) << "a connected client is still served";
  ::send(waiting.get(), kGetInfo.data(), kGetInfo.size(), MSG_NOSIGNAL);
  pollfd ready{waiting.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 250), 0);
  taken.clear();
  EXPECT_EQ(::poll(&ready, 1, 5000), 1) << "who waited is served when there is room again";
  ::setrlimit(RLIMIT_NOFILE, &old_limit);
}

// As if fs.epoll.max_user_watches were reached.
TEST_F(ControlServerTest, AConnectionThatCannotBeWatchedIsRefusedWithTheReason) {
  run();
  RawClient earlier(bench.socket());
  ASSERT_TRUE(earlier.send(kGetStatus));
  ASSERT_TRUE(earlier.receive());
  testing::internal::CaptureStderr();
  const auto logger = bench.on_loop([] {
    auto before = spdlog::default_logger();
    log::start("control-server-test", "%v");
    fail_watches();
    return before;
  });
  for (int i = 0; i < 3; ++i) {
    RawClient client(bench.socket());
    const Reply reply = client.receive().value_or(Reply{"{}", "no reply", false});
    EXPECT_EQ(reply.error, "org.varlink.service.PermissionDenied");
    EXPECT_THAT(error_message(reply), HasSubstr("`sysctl -w fs.epoll.max_user_watches=NUMBER`"));
    EXPECT_TRUE(client.sees_the_end());
  }
  bench.on_loop([&logger] {
    log::flush();
    spdlog::set_default_logger(logger);
    return 0;
  });
  const std::string said = testing::internal::GetCapturedStderr();
  constexpr const char* kLine = "a connection is refused: flightd cannot watch one more connection";
  EXPECT_THAT(said, HasSubstr(kLine));
  EXPECT_EQ(said.find(kLine), said.rfind(kLine)) << "it is logged once: " << said;
  EXPECT_EQ(bench.refused_connections(), 3U);
  ASSERT_TRUE(earlier.send(kGetStatus));
  EXPECT_TRUE(earlier.receive()) << "an open connection is served";
}

TEST_F(ControlServerTest, ASecondServerOnTheSamePathIsRefused) {
  run();
  ControlBench other;
  boost::asio::io_context io;
  auto second = ControlServer::open(io, bench.socket(), other.backend, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().errno_value(), EADDRINUSE);
  EXPECT_THAT(second.error().what, HasSubstr("another flightd"));
  expect_alive();
}

TEST_F(ControlServerTest, ADeadSocketIsReplacedAndAFileIsNot) {
  {
    const sockaddr_un address = address_of(bench.socket());
    UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(bench.socket()));
  run();
  struct stat found {};
  ASSERT_EQ(::stat(bench.socket().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0666U);
  expect_alive();

  ControlBench other;
  ASSERT_TRUE(open_file(other.socket(), O_CREAT | O_WRONLY, 0600));
  auto refused = other.run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EEXIST);
  EXPECT_TRUE(std::filesystem::exists(other.socket()));
}

TEST_F(ControlServerTest, AFolderThatIsNotThereAndAPathThatIsTooLong) {
  boost::asio::io_context io;
  auto nowhere = ControlServer::open(io, bench.folder() + "/none/socket", bench.backend, {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().errno_value(), ENOENT);
  auto too_long = ControlServer::open(io, bench.folder() + '/' + std::string(120, 'x'), bench.backend, {});
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().errno_value(), ENAMETOOLONG);
}

}  // namespace
}  // namespace flight::daemon
