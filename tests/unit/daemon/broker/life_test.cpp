// SPDX-License-Identifier: Apache-2.0
// The real flightd-broker: its start, its end, wrong use, and its life after its clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <set>

#include "libcore/base/spare_descriptors.hpp"
#include "tests/unit/daemon/broker/broker_process.hpp"
#include "tests/unit/daemon/broker/service_manager.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/hung_mount.hpp"

namespace flight {
namespace {

using test::call_on;
using test::calls_config;
using test::heads;
using test::map_rings;
using testing::AllOf;
using testing::HasSubstr;

class BrokerLife : public test::BrokerProcess {
 protected:
  [[nodiscard]] std::string status_field(const std::string& name) const {
    const std::string text = read_file("/proc/" + std::to_string(pid_) + "/status").value_or("");
    const std::size_t at = text.find("\n" + name + ":\t");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 3;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  // Receives this many replies; returns the number of memfds in them.
  static std::size_t memfds_in(int socket, int replies, std::set<std::uint64_t>* all = nullptr) {
    std::set<std::uint64_t> own;
    if (all == nullptr) all = &own;
    for (int i = 0; i < replies; ++i)
      for (std::uint32_t part = 0, parts = 1; part < parts; ++part) {
        const auto message = receive_message(socket);
        EXPECT_TRUE(message) << message.error().what;
        if (!message) return all->size();
        EXPECT_EQ(message->header.failed, 0) << message->text;
        parts = std::max(parts, message->header.parts);
        for (const UniqueFd& fd : message->fds) {
          std::error_code none;
          const std::string name = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd.get()), none);
          struct stat status {};
          if (name.starts_with("/memfd:") && ::fstat(fd.get(), &status) == 0) all->insert(status.st_ino);
        }
      }
    return all->size();
  }
  // The test's own socket, below the client's.
  [[nodiscard]] UniqueFd raw_connection() const {
    EXPECT_TRUE(connect());
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return socket;
  }
};

TEST_F(BrokerLife, KeepsOnlyTheCapabilitiesItNeeds) {
  start(calls_config());
  ASSERT_TRUE(client_->attach()) << errors();
  // CHOWN 0, DAC_READ_SEARCH 2, IPC_LOCK 14, SYS_PTRACE 19, SYSLOG 34, PERFMON 38, CHECKPOINT_RESTORE 40;
  // SYS_ADMIN 21 where Debian asks for it.
  const auto permitted = std::stoull(status_field("CapPrm"), nullptr, 16);
  constexpr std::uint64_t kAllowed =
      1ULL << 0 | 1ULL << 2 | 1ULL << 14 | 1ULL << 19 | 1ULL << 34 | 1ULL << 38 | 1ULL << 40;
  constexpr std::uint64_t kSysAdmin = 1ULL << 21;
  const int paranoid = std::stoi(read_line("/proc/sys/kernel/perf_event_paranoid").value());
  EXPECT_EQ(permitted & ~(kAllowed | (paranoid >= 3 ? kSysAdmin : 0)), 0U);
  EXPECT_EQ(permitted & kAllowed, kAllowed);
  EXPECT_EQ(status_field("CapEff"), status_field("CapPrm"));
  EXPECT_EQ(std::stoull(status_field("CapAmb"), nullptr, 16), 0U);
  EXPECT_EQ(status_field("NoNewPrivs"), "1");
  EXPECT_EQ(std::stoi(status_field("Groups")), static_cast<int>(test::kGroup));
}

TEST_F(BrokerLife, EndsWhenItsOneClientLeaves) {
  start(calls_config());
  ASSERT_TRUE(client_->attach()) << errors();
  client_.reset();
  EXPECT_EQ(wait_for_end(), 0) << errors();
  EXPECT_THAT(errors(), HasSubstr("1 channel,"));
}

// A terminal and `timeout` signal flightd's whole group. Its own broker ends only when flightd does.
TEST_F(BrokerLife, LeavesSignalsToItsFlightdAndEndsCleanlyWithItsConnection) {
  start(calls_config());
  ASSERT_TRUE(client_->attach()) << errors();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ::kill(pid_, number);
    ASSERT_TRUE(client_->counts()) << "signal " << number;
  }
  client_.reset();
  EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(BrokerLife, DiesWithItsFlightd) {
  write_config(calls_config());
  std::array<int, 2> report{-1, -1};
  ASSERT_EQ(::pipe2(report.data(), O_CLOEXEC), 0);
  // A separate process as flightd, because the broker must see it die from outside.
  const pid_t flightd = ::fork();
  if (flightd == 0) {
    start(calls_config());
    const bool attached = client_->attach().has_value();
    const pid_t broker = attached ? pid_ : -1;
    (void)!::write(report[1], &broker, sizeof broker);
    for (;;) ::pause();
  }
  pid_t broker = -1;
  ASSERT_EQ(::read(report[0], &broker, sizeof broker), static_cast<ssize_t>(sizeof broker));
  ASSERT_GT(broker, 0) << errors();
  const UniqueFd watched(static_cast<int>(::syscall(SYS_pidfd_open, broker, 0)));
  ASSERT_TRUE(watched);
  ::kill(flightd, SIGKILL);
  ::waitpid(flightd, nullptr, 0);
  pollfd ended{watched.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 5000), 1) << "the broker outlived its flightd";
  ::close(report[0]);
  ::close(report[1]);
}

TEST_F(BrokerLife, ReportsItsConfigurationErrorUntilTheClientDisconnects) {
  start(R"({"channels": {"x": {"ring": "64K", "events": ["sched:sched_swich"]}}})");
  for (int i = 0; i < 2; ++i) {
    const auto attachment = client_->attach();
    ASSERT_FALSE(attachment);
    EXPECT_EQ(attachment.error().errno_value(), ENOENT);
    EXPECT_THAT(attachment.error().what, HasSubstr("sched:sched_swich"));
    EXPECT_THAT(attachment.error().what, HasSubstr("sched:sched_switch"));
  }
  EXPECT_FALSE(client_->counts());
  client_.reset();
  EXPECT_EQ(wait_for_end(), 1);
  EXPECT_THAT(errors(), HasSubstr("sched:sched_swich"));
}

TEST_F(BrokerLife, AReloadMendsABadStart) {
  start("{ nonsense");
  const auto refused = client_->attach();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("flightd.json:1"));
  write_config(calls_config());
  ASSERT_TRUE(client_->reload());
  EXPECT_TRUE(client_->take_changed().value());
  EXPECT_TRUE(client_->attach());
  client_.reset();
  EXPECT_EQ(wait_for_end(), 0);
}

// Nobody may send it a signal: its flightd has changed its user. A stopped process does not see the end of a
// connection.
TEST_F(BrokerLife, AStoppedOneDiesWithTheOtherEndOfItsPipe) {
  write_config(calls_config());
  std::array<int, 2> sockets{-1, -1}, ends{-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()), 0);
  client_.emplace(UniqueFd(sockets[0]));
  const UniqueFd theirs(sockets[1]);
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd their_end(ends[0]);
  UniqueFd end(ends[1]);
  pid_ = test::spawn(words({"--fd", std::to_string(theirs.get()), "--end-fd", std::to_string(their_end.get())}),
                     folder_ / "stderr", theirs.get(), [&their_end] { ::fcntl(their_end.get(), F_SETFD, 0); });
  ASSERT_TRUE(client_->attach()) << errors();
  ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
  end.reset();
  EXPECT_EQ(wait_for_end(), 128 + SIGKILL);
}

// flightd was killed before the broker could arrange that the kernel tells it. Here the connection stays.
TEST_F(BrokerLife, OneWhoseFlightdHasEndedBeforeDoesNotStart) {
  write_config(calls_config());
  std::array<int, 2> sockets{-1, -1}, ends{-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()), 0);
  client_.emplace(UniqueFd(sockets[0]));
  const UniqueFd theirs(sockets[1]);
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd their_end(ends[0]);
  ::close(ends[1]);
  pid_ = test::spawn(words({"--fd", std::to_string(theirs.get()), "--end-fd", std::to_string(their_end.get())}),
                     folder_ / "stderr", theirs.get(), [&their_end] { ::fcntl(their_end.get(), F_SETFD, 0); });
  EXPECT_EQ(wait_for_end(), 0) << errors();
  EXPECT_EQ(errors(), "");
}

// The main thread made its directory without a look, and could not be ended.
TEST_F(BrokerLife, ARuntimeDirectoryThatHangsIsAnErrorAtTheStart) {
  ASSERT_EQ(::mkdir((folder_ / "run").c_str(), 0700), 0);
  test::in_own_mounts([this] {
    const test::HungMount hung(folder_ / "run");
    start_listening(calls_config(), {"--client-uid", "root"});
    int status = -1;
    for (int i = 0; i < 6 && status < 0; ++i) status = wait_for_end();
    EXPECT_EQ(status, 1) << errors();
    EXPECT_THAT(errors(), HasSubstr(folder_ / "run" + " does not answer: its file system waits for a server"));
  });
}

TEST_F(BrokerLife, OneThatLooksAtSuchADirectoryEndsAtOnce) {
  ASSERT_EQ(::mkdir((folder_ / "run").c_str(), 0700), 0);
  test::in_own_mounts([this] {
    const test::HungMount hung(folder_ / "run");
    start_listening(calls_config(), {"--client-uid", "root"});
    // Its signals are blocked before it looks.
    constexpr std::uint64_t kTerm = 1U << (SIGTERM - 1);
    for (int i = 0; i < 400; ++i) {
      const std::string blocked = status_field("SigBlk");
      if (!blocked.empty() && (std::stoull(blocked, nullptr, 16) & kTerm) != 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(pid_, SIGTERM);
    EXPECT_EQ(wait_for_end(), 0) << errors();
    EXPECT_EQ(errors(), "");
  });
}

// UndefinedBehaviorSanitizer needs descriptors, see below.
#if !defined(__SANITIZE_ADDRESS__)
TEST_F(BrokerLife, OneThatHasNoDescriptorsNamesItsOwnLimit) {
  start(calls_config());
  ASSERT_TRUE(client_->attach()) << errors();
  // As many as it polls; most of them are in use, and a file takes three.
  constexpr rlimit kFew{.rlim_cur = 6, .rlim_max = 6};
  ASSERT_EQ(::prlimit(pid_, RLIMIT_NOFILE, &kFew, nullptr), 0);
  const auto file = client_->file();
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().what,
              HasSubstr("Too many open files; RLIMIT_NOFILE of flightd-broker is 6: raise LimitNOFILE= of its unit"));
  EXPECT_EQ(descriptor_advice(file.error()), "") << "nothing of this process's limit";
}
#endif

TEST_F(BrokerLife, UsageErrorsAre2) {
  write_config(calls_config());
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{},
                                             {"--fd", "1", "--socket", "/x"},
                                             {"--fd", "x"},
                                             {"--fd", "999"},
                                             {"--fd", "0"},
                                             {"--end-fd", "0"},
                                             {"--nonsense"},
                                             {"--socket", "/x", "--client-uid", "no-such-user"},
                                             {"--socket", "/x", "--client-uid", "4294967295"}}) {
    pid_ = test::spawn(words(more), folder_ / "stderr", -1);
    EXPECT_EQ(wait_for_end(), 2) << testing::PrintToString(more);
  }
  pid_ = test::spawn({test::flightd_broker(), "--socket", "/x", "--group", "no-such-group"}, folder_ / "stderr", -1);
  EXPECT_EQ(wait_for_end(), 2);
  EXPECT_THAT(errors(), AllOf(HasSubstr("the user no-such-user does not exist: create it"),
                              HasSubstr("the group no-such-group does not exist: create it")));
  pid_ = test::spawn({test::flightd_broker(), "--version"}, folder_ / "version", -1);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_THAT(read_file(folder_ / "version").value(), testing::StartsWith("flightd-broker "));
}

TEST_F(BrokerLife, ARelativeSocketInAFolderThatIsGoneIsAnError) {
  write_config(calls_config());
  const std::string gone = folder_ / "gone";
  pid_ = test::spawn(words({"--socket", "broker"}), folder_ / "stderr", -1, [&gone] {
    if (::mkdir(gone.c_str(), 0700) != 0 || ::chdir(gone.c_str()) != 0 || ::rmdir(gone.c_str()) != 0) ::_exit(99);
  });
  EXPECT_EQ(wait_for_end(), 2);
  EXPECT_THAT(errors(), HasSubstr("--socket broker: the current directory is not known"));
}

TEST_F(BrokerLife, ListensToOneUidInAFolderOfItsOwn) {
  start_listening(calls_config(), {"--client-uid", "65534"});
  auto client = connect();
  ASSERT_TRUE(client) << errors();
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "run").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, S_IFDIR | 0700U);
  EXPECT_EQ(status.st_uid, 65534U);
  ASSERT_EQ(::stat(socket_path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, S_IFSOCK | 0600U);
  EXPECT_EQ(status.st_uid, 65534U);
  // Root can connect despite the file's mode, but root's uid is not the client's.
  const auto attachment = client->attach();
  ASSERT_FALSE(attachment);
  for (int i = 0; i < 500 && errors().find("uid") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(errors(), HasSubstr("only uid 65534"));
}

// systemd's side of sd_notify(3): the messages of a service that starts and ends.
TEST_F(BrokerLife, NotifiesReadyClientAndStopping) {
  test::ServiceManager notify(folder_ / "notify");
  start_listening(calls_config(), {"--client-uid", "root"});
  EXPECT_TRUE(notify.wait_for("READY=1")) << errors();
  auto client = BrokerClient::connect(socket_path());
  ASSERT_TRUE(client) << "ready, and does not listen: " << client.error().what;
  EXPECT_TRUE(notify.wait_for("STATUS=recording")) << "who is served";
  EXPECT_TRUE(notify.wait_for("serving flightd, process " + std::to_string(::getpid())));
  *client = BrokerClient(UniqueFd());
  EXPECT_TRUE(notify.wait_for("flightd is not attached"));
  ::kill(pid_, SIGHUP);
  ::kill(pid_, SIGTERM);
  EXPECT_TRUE(notify.wait_for("STOPPING=1"));
  EXPECT_EQ(wait_for_end(), 0);
}

// It records, and flightd may attach: systemd needs no answer for that.
TEST_F(BrokerLife, AServiceManagerThatDoesNotReadHoldsUpNobody) {
  test::ServiceManager notify(folder_ / "notify");
  test::ServiceManager::block();
  start_listening(calls_config(), {"--client-uid", "root"});
  auto client = connect();
  ASSERT_TRUE(client) << client.error().what;
  client->answer_within(std::chrono::seconds(20));
  const auto attachment = client->attach();
  EXPECT_TRUE(attachment) << attachment.error().what << errors();
  EXPECT_TRUE(notify.wait_for("READY=1")) << errors();
  test::ServiceManager::block();
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0) << errors();
}

// UndefinedBehaviorSanitizer opens a pipe to look at an object's type, and calls it invalid where it has no descriptor.
#if !defined(__SANITIZE_ADDRESS__)
// LimitNOFILE= that leaves one descriptor, as the loader needs one: systemd would restart it for ever.
TEST_F(BrokerLife, OneWithoutDescriptorsStaysAndSaysSoOnce) {
  test::ServiceManager notify(folder_ / "notify");
  write_config(calls_config());
  pid_ = test::spawn(words({"--socket", socket_path()}), folder_ / "stderr", -1, [] {
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    constexpr rlimit kFew{.rlim_cur = STDERR_FILENO + 2, .rlim_max = STDERR_FILENO + 2};
    ::setrlimit(RLIMIT_NOFILE, &kFew);
  });
  constexpr std::string_view kSaid = "raise LimitNOFILE= of the unit";
  for (int i = 0; i < 500 && errors().find(kSaid) == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const std::string said = errors();
  EXPECT_THAT(said, HasSubstr(kSaid));
  EXPECT_EQ(said.find(kSaid), said.rfind(kSaid)) << said;
  EXPECT_EQ(::kill(pid_, 0), 0);
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0) << errors();
}
#endif

// A restart would change nothing: it stays, answers with the reason, and tries again.
TEST_F(BrokerLife, OneThatCannotRecordStaysUntilItCan) {
  test::ServiceManager notify(folder_ / "notify");
  start_listening(R"({"chanels": {}})", {"--client-uid", "root"});
  EXPECT_TRUE(notify.wait_for("READY=1")) << errors();
  EXPECT_TRUE(notify.wait_for("STATUS=recording: no (")) << errors();
  auto client = BrokerClient::connect(socket_path());
  ASSERT_TRUE(client) << client.error().what;
  for (int i = 0; i < 3; ++i) {
    const auto attachment = client->attach();
    ASSERT_FALSE(attachment);
    EXPECT_THAT(attachment.error().what, AllOf(HasSubstr("flightd.json:1"), HasSubstr("chanels")));
  }
  // A thread writes the log.
  for (int i = 0; i < 500 && errors().find("chanels") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::string log = errors();
  const std::size_t first = log.find("chanels");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("flightd.json:1", first), std::string::npos) << "said once: " << log;
  write_config(calls_config());
  bool attached = false;
  for (int i = 0; i < 150 && !attached; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    attached = client->attach().has_value();
  }
  EXPECT_TRUE(attached) << errors();
  EXPECT_TRUE(notify.wait_for("STATUS=recording ")) << errors();
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(BrokerLife, ASecondBrokerOnTheSocketIsRefused) {
  start_listening(calls_config());
  ASSERT_TRUE(connect()) << errors();
  const pid_t first = pid_;
  pid_ = test::spawn(words({"--socket", socket_path()}), folder_ / "second", -1);
  EXPECT_EQ(wait_for_end(), 1);
  EXPECT_THAT(read_file(folder_ / "second").value(), HasSubstr("another flightd-broker listens"));
  pid_ = first;
  EXPECT_TRUE(connect()->attach());
}

TEST_F(BrokerLife, ReplacesTheSocketOfADeadBroker) {
  start_listening(calls_config());
  ASSERT_TRUE(connect()) << errors();
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(wait_for_end(), 128 + SIGKILL);
  start_listening(calls_config());
  EXPECT_TRUE(connect()->attach()) << errors();
}

// If flightd is killed between pause and resume, no ring stays paused for its successor, even before the successor
// attaches.
TEST_F(BrokerLife, ResumesWhatAKilledClientLeftPaused) {
  start_listening(calls_config());
  std::vector<Ring> rings;
  {
    auto client = connect();
    ASSERT_TRUE(client) << errors();
    auto attachment = client->attach();
    ASSERT_TRUE(attachment) << attachment.error().what;
    rings = map_rings(*attachment, "calls");
  }
  ASSERT_FALSE(rings.empty());
  std::array<int, 2> report{-1, -1};
  ASSERT_EQ(::pipe2(report.data(), O_CLOEXEC), 0);
  const pid_t victim = ::fork();
  if (victim == 0) {
    auto client = connect();
    auto attachment = client ? client->attach() : Result<Attachment>(propagate(client.error()));
    char paused = attachment ? 'y' : 'n';
    if (attachment)
      for (const Ring& ring : map_rings(*attachment, "calls"))
        if (ring.pause() != 0) paused = 'n';
    (void)!::write(report[1], &paused, 1);
    for (;;) ::pause();
  }
  char paused = 0;
  ASSERT_EQ(::read(report[0], &paused, 1), 1);
  ASSERT_EQ(paused, 'y');
  const auto stuck = heads(rings);
  for (const Ring& ring : rings) call_on(ring.info().cpu, 10);
  EXPECT_EQ(heads(rings), stuck) << "they are paused indeed";
  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
  for (std::size_t i = 0; i < rings.size(); ++i) {
    for (int n = 0; n < 500 && rings[i].head() == stuck[i]; ++n) {
      call_on(rings[i].info().cpu, 10);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_NE(rings[i].head(), stuck[i]) << "ring " << i << " is still paused";
  }
  auto successor = connect();
  ASSERT_TRUE(successor);
  EXPECT_TRUE(successor->attach());
  ::close(report[0]);
  ::close(report[1]);
}

TEST_F(BrokerLife, ResumesBeforeEachAttach) {
  start(calls_config());
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << errors();
  const auto rings = map_rings(*attachment, "calls");
  ASSERT_EQ(rings[0].pause(), 0);
  ASSERT_TRUE(client_->attach());
  const auto old = rings[0].head();
  call_on(rings[0].info().cpu, 10);
  EXPECT_NE(rings[0].head(), old);
}

// The client may be a flightd that is stopped, for example. In an earlier version the signal waited with the reply, for
// 5 s.
TEST_F(BrokerLife, EndsWhileItsRepliesAreNotRead) {
  start_listening(calls_config());
  const UniqueFd deaf = raw_connection();
  ASSERT_TRUE(send_request(deaf.get(), Request::attach));
  ASSERT_EQ(memfds_in(deaf.get(), 1), 1U) << errors();
  // Until it takes no request for a while: it waits in a reply.
  constexpr auto kAttach = static_cast<std::uint8_t>(Request::attach);
  for (int refused = 0; refused < 30;) {
    const bool sent = ::send(deaf.get(), &kAttach, sizeof kAttach, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    refused = sent ? 0 : refused + 1;
    if (!sent) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0) << errors();
  EXPECT_THAT(errors(), testing::Not(HasSubstr("does not read its messages"))) << "it was waited for";
}

TEST_F(BrokerLife, SurvivesAHostileClient) {
  start_listening(calls_config());
  {
    const UniqueFd hostile = raw_connection();
    // Every byte except the real requests, long messages, and unexpected descriptors.
    for (int byte = 0; byte < 256; ++byte) {
      if (std::string_view("apbkcfsrde").find(static_cast<char>(byte)) != std::string_view::npos) continue;
      const auto request = static_cast<Request>(byte);
      ASSERT_TRUE(send_request(hostile.get(), request));
      const auto answer = receive_message(hostile.get());
      ASSERT_TRUE(answer) << answer.error().what;
      EXPECT_EQ(answer->header.failed, 1);
      EXPECT_EQ(answer->header.error_number, EINVAL);
    }
    const std::string longer(100'000, 'a');
    ASSERT_GT(::send(hostile.get(), longer.data(), longer.size(), 0), 0);
    EXPECT_EQ(receive_message(hostile.get())->header.error_number, EBADMSG);
    const std::array fds{0, 1, 2};
    ASSERT_TRUE(send_message(hostile.get(), {}, "a text", fds));
    EXPECT_EQ(receive_message(hostile.get())->header.error_number, EBADMSG);
    const auto count = [this] {
      return std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd"), {});
    };
    const auto before = count();
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(send_message(hostile.get(), {}, "a text", fds));
      EXPECT_EQ(receive_message(hostile.get())->header.error_number, EBADMSG);
    }
    EXPECT_LT(count(), before + 20) << "each time three; other threads open files meanwhile";
  }
  {
    // A client that requests again and again and keeps every reply: its memfds would take the broker's memory.
    const UniqueFd greedy = raw_connection();
    constexpr int kTimes = 40;
    for (const Request request : {Request::counts, Request::kernel, Request::build_ids, Request::processes}) {
      for (int i = 0; i < kTimes; ++i) ASSERT_TRUE(send_request(greedy.get(), request));
      EXPECT_LE(memfds_in(greedy.get(), kTimes), 4U) << static_cast<char>(request);
    }
    std::set<std::uint64_t> manifests;
    for (int i = 0; i < kTimes; ++i) {
      ASSERT_TRUE(send_request(greedy.get(), Request::attach));
      memfds_in(greedy.get(), 1, &manifests);
    }
    EXPECT_EQ(manifests.size(), 1U);
    // Each of these replies is new, so they take time.
    for (const Request request : {Request::counts, Request::kernel}) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(send_request(greedy.get(), request));
        memfds_in(greedy.get(), 1);
      }
      EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(9 * 20))
          << static_cast<char>(request);
    }
  }
  {
    // A client that requests again and again and never reads is disconnected. The broker does not wait for it.
    const UniqueFd deaf = raw_connection();
    Result<void> sent;
    while (sent) sent = send_request(deaf.get(), Request::attach);
    EXPECT_THAT(sent.error().errno_value(), testing::AnyOf(EPIPE, ECONNRESET));
  }
  {
    const UniqueFd empty = raw_connection();
    ::send(empty.get(), "", 0, MSG_NOSIGNAL);
  }
  auto next = connect();
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->attach()) << errors();
}

}  // namespace
}  // namespace flight
