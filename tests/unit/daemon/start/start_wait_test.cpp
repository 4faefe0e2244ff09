// SPDX-License-Identifier: Apache-2.0
// The wait between two attempts to start: real calls, signals and notifications. It runs on a thread of its own, whose
// mask it changes, and which the signals are sent to.
#include "daemon/start/start_wait.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/start/start_report.hpp"
#include "daemon/start/start_signals.hpp"
#include "libcore/base/task_thread.hpp"
#include "libcore/base/unix_socket.hpp"
#include "libcore/config/config_reader.hpp"
#include "libcore/control/config_report.hpp"
#include "libcore/control/messages.hpp"
#include "tests/unit/daemon/broker/service_manager.hpp"
#include "tests/unit/daemon/control/raw_client.hpp"
#include "tests/unit/daemon/patience.hpp"

namespace flight::daemon {
namespace {

using testing::HasSubstr;

constexpr const char* kDiskAway = "the disk is away";
constexpr const char* kLockHeld = "the lock is held";

// A signal that comes when the wait is over does not end the program. One that is blocked is received all the same.
class IgnoredSignal {
 public:
  explicit IgnoredSignal(int number) : number_(number), before_(std::signal(number, SIG_IGN)) {}
  IgnoredSignal(const IgnoredSignal&) = delete;
  IgnoredSignal& operator=(const IgnoredSignal&) = delete;
  ~IgnoredSignal() { static_cast<void>(std::signal(number_, before_)); }

 private:
  const int number_;
  void (*const before_)(int);
};

class StartWaitTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-wait-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    write_config("{}\n");
    manager_.emplace(folder_ + "/notify");
    auto listening = listen_on(socket(), {.type = SOCK_STREAM, .backlog = 8, .mode = 0666, .listener = "a test"});
    ASSERT_TRUE(listening) << listening.error().what;
    listening_ = std::move(*listening);
    auto thread = TaskThread::start("start");
    ASSERT_TRUE(thread) << thread.error().what;
    thread_ = std::move(*thread);
    on_thread([this] { waits_ = ::pthread_self(); });
    config_.emplace(folder_ + "/flightd.json");
    for (int i = 0; i < 3; ++i) static_cast<void>(report_.next_wait());  // from now on, each wait takes 10 s
    use_socket(listening_.get());
  }
  void TearDown() override {
    if (thread_) thread_->post([this] { wait_.reset(); });
    thread_.reset();
    ::unsetenv("WATCHDOG_USEC");
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string socket() const { return folder_ + "/control"; }
  void write_config(const std::string& text) const { std::ofstream(folder_ + "/flightd.json") << text; }
  // A new StartWait; -1: it has no socket.
  void use_socket(int fd) {
    on_thread([this, fd] { wait_.emplace(*config_, fd, report_); });
  }
  template <typename What>
  void on_thread(What what) {
    auto done = std::make_shared<std::promise<void>>();
    auto is_done = done->get_future();
    thread_->post([what, done] {
      what();
      done->set_value();
    });
    is_done.wait();
  }

  std::future<bool> begin(const std::string& why) {
    auto result = std::make_shared<std::promise<bool>>();
    auto out = result->get_future();
    thread_->post([this, why, result] { result->set_value(wait_->wait(why)); });
    return out;
  }
  // As wait(): true if an attempt follows. Nullopt: it waits for ever.
  static std::optional<bool> result_of(std::future<bool>& waiting) {
    if (waiting.wait_for(test::kPatience) != std::future_status::ready) return std::nullopt;
    return waiting.get();
  }
  // Only during a wait, which blocks its signals: since READY=1, or an answer to a call.
  void send(int number) const { EXPECT_EQ(::pthread_kill(waits_, number), 0); }
  // The wait is of no more interest.
  void finish(std::future<bool>& waiting) const {
    send(SIGHUP);
    EXPECT_EQ(result_of(waiting), true);
  }

  static std::string text_of(const std::string& method) {
    return test::call_text(std::string(kInterface) + "." + method);
  }
  // On a connection of its own. It is answered during a wait only.
  [[nodiscard]] Reply ask(const std::string& method) const {
    test::RawClient client(socket());
    client.send(text_of(method));
    return client.receive(test::kPatience).value_or(Reply{"{}", "no reply", false});
  }
  void expect_refused(const Reply& reply, const std::string& why) const {
    EXPECT_EQ(reply.error, std::string(kInterface) + ".WriteFailed");
    EXPECT_THAT(error_message(reply), HasSubstr("flightd has not started: " + why));
  }
  void expect_end_by(int number) {
    auto waiting = begin(kDiskAway);
    ASSERT_TRUE(manager_->wait_for("READY=1\n"));
    send(number);
    EXPECT_EQ(result_of(waiting), false) << "an attempt follows";
    EXPECT_TRUE(manager_->wait_for("STOPPING=1"));
  }

  const IgnoredSignal no_end_by_sigterm_{SIGTERM}, no_end_by_sigint_{SIGINT};
  std::string folder_;
  std::optional<test::ServiceManager> manager_;
  UniqueFd listening_;
  std::optional<ConfigReader> config_;
  StartReport report_;
  std::optional<StartWait> wait_;  // made, used and destroyed on thread_
  pthread_t waits_{};
  std::unique_ptr<TaskThread> thread_;
};

TEST_F(StartWaitTest, ACallIsRefusedWithTheReasonWhileItWaits) {
  auto waiting = begin(kDiskAway);
  for (const char* method : {"ListSnapshots", "TakeSnapshot", "GetConfig"}) expect_refused(ask(method), kDiskAway);
  const auto status = parse_status(member(ask("GetStatus").parameters, "status"));
  ASSERT_TRUE(status) << status.error().what;
  EXPECT_EQ(status->flightd.pid, ::getpid());
  EXPECT_THAT(status->errors, testing::Contains(HasSubstr(kDiskAway)));
  finish(waiting);
}

TEST_F(StartWaitTest, AConnectionStaysOverAllWaitsAndHearsTheReasonOfEach) {
  test::RawClient client(socket());
  for (const char* why : {kDiskAway, kLockHeld}) {
    auto waiting = begin(why);
    ASSERT_TRUE(client.send(text_of("ListSnapshots")));
    const auto reply = client.receive(test::kPatience);
    ASSERT_TRUE(reply);
    expect_refused(*reply, why);
    finish(waiting);
  }
}

TEST_F(StartWaitTest, TheServiceManagerGetsEachReason) {
  auto waiting = begin(kDiskAway);
  ASSERT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (the disk is away); trying again\n"));
  finish(waiting);
  waiting = begin(kLockHeld);
  ASSERT_TRUE(manager_->wait_for("STATUS=recording: no (the lock is held); trying again\n"));
  finish(waiting);
  EXPECT_FALSE(manager_->was_sent("STOPPING=1"));
}

TEST_F(StartWaitTest, TheWatchdogIsNotifiedWhileItWaits) {
  ::setenv("WATCHDOG_USEC", "400000", 1);
  ::unsetenv("WATCHDOG_PID");
  auto waiting = begin(kDiskAway);
  EXPECT_TRUE(manager_->wait_for("WATCHDOG=1\nWATCHDOG=1\n"));
  finish(waiting);
}

TEST_F(StartWaitTest, SigtermEndsIt) { expect_end_by(SIGTERM); }

TEST_F(StartWaitTest, SigintEndsIt) { expect_end_by(SIGINT); }

TEST_F(StartWaitTest, Sigusr2DoesNotEndItAndSighupIsAnAttempt) {
  auto waiting = begin(kDiskAway);
  ASSERT_TRUE(manager_->wait_for("READY=1\n"));
  send(SIGUSR2);
  expect_refused(ask("ListSnapshots"), kDiskAway);
  send(SIGHUP);
  EXPECT_EQ(result_of(waiting), true);
}

TEST_F(StartWaitTest, DuringTheAttemptSigtermIsNotBlocked) {
  auto waiting = begin(kDiskAway);
  ASSERT_TRUE(manager_->wait_for("READY=1\n"));
  finish(waiting);
  on_thread([] {
    sigset_t mask{};
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
    for (const int number : {SIGTERM, SIGINT}) EXPECT_EQ(::sigismember(&mask, number), 0) << number;
    for (const int number : {SIGHUP, SIGUSR2}) EXPECT_EQ(::sigismember(&mask, number), 1) << number;
  });
}

TEST_F(StartWaitTest, WithoutAnEventTheNextAttemptComesInTime) {
  report_ = StartReport();
  const auto begun = std::chrono::steady_clock::now();
  auto waiting = begin(kDiskAway);
  EXPECT_EQ(result_of(waiting), true);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
}

TEST_F(StartWaitTest, AReloadEndsItAndFailsWithTheNextReason) {
  auto waiting = begin(kDiskAway);
  test::RawClient client(socket());
  client.send(text_of("Reload"));
  ASSERT_EQ(result_of(waiting), true);
  EXPECT_FALSE(client.receive(std::chrono::milliseconds(50))) << "the attempt has not ended";
  waiting = begin(kLockHeld);
  const auto reply = client.receive(test::kPatience);
  ASSERT_TRUE(reply);
  expect_refused(*reply, kLockHeld);
  finish(waiting);
}

TEST_F(StartWaitTest, AReloadOfAWrongConfigurationIsRefusedAndNoAttempt) {
  write_config("{\n  \"snapshot\": { \"capture\": \"sometimes\" }\n}\n");
  auto waiting = begin(kDiskAway);
  const Reply refused = ask("Reload");
  EXPECT_EQ(refused.error, std::string(kInterface) + ".BadConfig");
  EXPECT_EQ(member(refused.parameters, "file"), '"' + folder_ + "/flightd.json\"");
  EXPECT_EQ(member(refused.parameters, "line"), "2");
  EXPECT_EQ(member(refused.parameters, "path"), R"("snapshot.capture")");
  expect_refused(ask("ListSnapshots"), kDiskAway);
  finish(waiting);
}

TEST_F(StartWaitTest, AReloadThatLedToAStartIsAnsweredAndAllConnectionsEnd) {
  auto waiting = begin(kDiskAway);
  test::RawClient other(socket()), client(socket());
  other.send(text_of("ListSnapshots"));
  ASSERT_TRUE(other.receive(test::kPatience));
  client.send(text_of("Reload"));
  ASSERT_EQ(result_of(waiting), true);
  on_thread([this] { wait_->end("0123456789abcdef"); });
  const auto reply = client.receive(test::kPatience);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, "");
  const auto report = parse_reload_report(reply->parameters);
  ASSERT_TRUE(report) << reply->parameters;
  EXPECT_EQ(report->digest, "0123456789abcdef");
  EXPECT_TRUE(report->changed);
  EXPECT_TRUE(client.sees_the_end(test::kPatience));
  EXPECT_TRUE(other.sees_the_end(test::kPatience));
  EXPECT_TRUE(test::RawClient(socket()).connected()) << "the socket is the caller's";
}

// Its own event loop reads it later.
TEST_F(StartWaitTest, ASignalDuringASuccessfulAttemptIsLeftToTheStartedFlightd) {
  auto waiting = begin(kDiskAway);
  test::RawClient client(socket());
  client.send(text_of("Reload"));
  ASSERT_EQ(result_of(waiting), true);
  on_thread([this] {
    const auto signals = block_signals();
    ASSERT_TRUE(signals) << signals.error().what;
    ASSERT_EQ(::raise(SIGTERM), 0);
    wait_->end("0123456789abcdef");
    signalfd_siginfo info{};
    EXPECT_EQ(::read(signals->get(), &info, sizeof info), static_cast<ssize_t>(sizeof info));
    EXPECT_EQ(info.ssi_signo, static_cast<unsigned>(SIGTERM));
  });
  EXPECT_FALSE(manager_->was_sent("STOPPING=1"));
}

TEST_F(StartWaitTest, WithoutASocketItWaitsAsWell) {
  use_socket(-1);
  auto waiting = begin(kDiskAway);
  ASSERT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (the disk is away); trying again\n"));
  finish(waiting);
  on_thread([this] { wait_->end("0123456789abcdef"); });
}

}  // namespace
}  // namespace flight::daemon
