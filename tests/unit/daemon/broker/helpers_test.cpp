// SPDX-License-Identifier: Apache-2.0
// Real helper processes that answer, wait, work, end and crash.
#include "daemon/broker/helpers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "libcore/base/files.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using testing::HasSubstr;
using HelperKind = Helpers::Kind;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void work_for(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

// In a helper.
std::vector<std::byte> obey(std::span<const std::byte> request, const Helpers::Notices& notices) {
  const std::string order = text_of(request);
  if (order == "wait") ::pause();
  if (order == "crash") ::raise(SIGKILL);
  if (order == "work") work_for(4 * Helpers::kKillAfter);
  if (order == "work for ever") work_for(1h);
  if (order == "disk") {
    notices.answered();
    std::this_thread::sleep_for(3 * Helpers::kKillAfter);
  }
  if (order == "parts") {
    for (const std::string_view part : {"one", "two"}) {
      notices.answered();
      notices.part(bytes_of(part));
    }
    ::pause();  // a process hangs, behind a disk that answered
  }
  if (order == "large") return std::vector<std::byte>(20'000'000, std::byte{7});
  if (order == "pid") return bytes_of(std::to_string(::getpid()));
  if (order == "descriptors") {
    std::string out;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      if (!gone && !target.string().starts_with("/proc/")) out += target.string() + "\n";
    }
    return bytes_of(out);
  }
  return bytes_of("did " + order);
}

bool runs(pid_t pid) { return ::kill(pid, 0) == 0; }

bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds limit = 5s) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

class HelperProcesses : public testing::Test {
 protected:
  ~HelperProcesses() override { helpers_.end(1s); }
  Result<std::string> call(std::string_view order, HelperKind kind = HelperKind::reader,
                           const Helpers::Notices& notices = {}) {
    const auto reply = helpers_.call(kind, bytes_of(order), notices);
    if (!reply) return propagate(reply.error());
    return text_of(*reply);
  }
  pid_t pid_of(HelperKind kind) {
    const auto pid = call("pid", kind);
    EXPECT_TRUE(pid) << pid.error().what;
    return pid ? std::stoi(*pid) : -1;
  }
  // A call on another thread.
  class Other {
   public:
    Other(HelperProcesses& test, std::string order, HelperKind kind)
        : thread_([this, &test, order = std::move(order), kind] {
            reply_ = test.call(order, kind);
            ended_ = true;
          }) {}
    ~Other() { thread_.join(); }
    Other(const Other&) = delete;
    Other& operator=(const Other&) = delete;
    [[nodiscard]] bool ended() const { return ended_; }
    [[nodiscard]] const Result<std::string>& reply() {
      (void)wait_until([&] { return ended(); });
      return reply_;
    }

   private:
    Result<std::string> reply_;
    std::atomic<bool> ended_ = false;
    std::thread thread_;
  };
  Helpers helpers_ = Helpers::start(obey).value();
};

TEST_F(HelperProcesses, AnswerAndHaveNamesOfTheirOwn) {
  EXPECT_EQ(call("x"), "did x");
  EXPECT_EQ(call("y", HelperKind::scanner), "did y");
  EXPECT_EQ(call(std::string(100'000, 'z')), "did " + std::string(100'000, 'z'));
  const auto large = call("large");
  ASSERT_TRUE(large) << large.error().what;
  EXPECT_EQ(large->size(), 20'000'000U);
  EXPECT_EQ(helpers_.pids().size(), 2 * Helpers::kOfEach);
  const auto comm_of = [](pid_t pid) { return read_file(fmt::format("/proc/{}/comm", pid)).value(); };
  EXPECT_EQ(comm_of(pid_of(HelperKind::reader)), "flightd-reader\n");
  EXPECT_EQ(comm_of(pid_of(HelperKind::scanner)), "flightd-scanner\n");
}

// One that is left behind must not keep the broker's events, sockets and pipes.
TEST_F(HelperProcesses, HaveNoDescriptorOfTheProgram) {
  const std::string before = *call("descriptors");
  EXPECT_THAT(before, HasSubstr("/dev/null\n/dev/null\n/dev/null\nsocket:"));
  EXPECT_EQ(std::count(before.begin(), before.end(), '\n'), 4) << before;
  EXPECT_FALSE(call("crash"));
  std::this_thread::sleep_for(1100ms);
  (void)call("x");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(std::ranges::count(*call("descriptors"), '\n'), 4) << "also one made again";
}

TEST_F(HelperProcesses, OneThatWaitsIsKilledAndMadeAgain) {
  const pid_t before = pid_of(HelperKind::scanner);
  const auto waits = call("wait", HelperKind::scanner);
  ASSERT_FALSE(waits);
  EXPECT_EQ(waits.error().code, std::errc::timed_out);
  EXPECT_THAT(waits.error().what, HasSubstr("read the maps of processes: a process does not answer"));
  EXPECT_FALSE(runs(before)) << "and no zombie is left";
  EXPECT_EQ(helpers_.pids().size(), 4U) << "made again before it is needed";
  // Both at once, so that the new one is used.
  Other first(*this, "work", HelperKind::scanner);
  Other second(*this, "work", HelperKind::scanner);
  EXPECT_EQ(first.reply(), "did work");
  EXPECT_EQ(second.reply(), "did work");
  EXPECT_EQ(helpers_.pids().size(), 4U);
  for (const pid_t pid : helpers_.pids()) EXPECT_TRUE(runs(pid));
}

// A machine without idle CPUs, a process with many mappings.
TEST_F(HelperProcesses, OneThatWorksIsNotKilled) {
  const pid_t before = pid_of(HelperKind::scanner);
  EXPECT_EQ(call("work", HelperKind::scanner), "did work");
  EXPECT_TRUE(runs(before));
  const double used = helpers_.cpu_seconds();
  EXPECT_GT(used, 0.1) << "it had " << (4 * Helpers::kKillAfter).count() << " ms";
  ::kill(before, SIGKILL);
  EXPECT_TRUE(wait_until([&] { return call("x", HelperKind::scanner) && !runs(before); }));
  EXPECT_GE(helpers_.cpu_seconds(), used * 0.9) << "also when it has ended";
}

// A process can hold the lock of its mappings again and again, so that its reader uses some CPU in between.
TEST_F(HelperProcesses, OneThatWorksForTooLongIsKilled) {
  const auto reply = call("work for ever", HelperKind::scanner);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, std::errc::timed_out);
  EXPECT_EQ(call("x", HelperKind::scanner), "did x");
}

// While a helper makes another one it is not busy for long.
TEST_F(HelperProcesses, CallsWaitForOneThatIsMadeAgain) {
  std::atomic<bool> stops = false;
  std::atomic<int> refused = 0;
  const auto read = [&] {
    while (!stops)
      if (call("x").value_or("") != "did x") ++refused;
  };
  std::thread one(read), other(read);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(call("wait", HelperKind::scanner));
  stops = true;
  one.join();
  other.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(helpers_.pids().size(), 4U);
}

// A slow disk: its answer counts, and nothing is gained by a kill.
TEST_F(HelperProcesses, OneThatWaitsForADiskIsNotKilled) {
  int answers = 0;
  EXPECT_EQ(call("disk", HelperKind::reader, {.answered = [&] { ++answers; }, .part = {}}), "did disk");
  EXPECT_EQ(answers, 1);
}

TEST_F(HelperProcesses, PartsComeAsTheyAreReadAndTheNextProcessMayHangAgain) {
  std::vector<std::string> parts;
  const auto reply = call("parts", HelperKind::reader,
                          {.answered = [&] { parts.emplace_back("answered"); },
                           .part = [&](std::span<const std::byte> part) { parts.push_back(text_of(part)); }});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, std::errc::timed_out);
  EXPECT_THAT(parts, testing::ElementsAre("answered", "one", "answered", "two"));
}

TEST_F(HelperProcesses, WhileOneHangsTheOtherWorksAndAThirdIsRefused) {
  Other first(*this, "disk", HelperKind::reader);
  Other second(*this, "disk", HelperKind::reader);
  std::this_thread::sleep_for(Helpers::kKillAfter);
  EXPECT_EQ(call("x", HelperKind::scanner), "did x");
  const auto third = call("x");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, std::errc::device_or_resource_busy);
  EXPECT_EQ(first.reply(), "did disk");
  EXPECT_EQ(second.reply(), "did disk");
  EXPECT_EQ(call("x"), "did x");
}

TEST_F(HelperProcesses, ACrashIsSaidAndTheOthersGoOn) {
  const auto crash = call("crash");
  ASSERT_FALSE(crash);
  EXPECT_EQ(crash.error().code, std::errc::broken_pipe);
  EXPECT_THAT(crash.error().what, HasSubstr("(flightd-reader), which does it, ended (signal 9)"));
  EXPECT_EQ(call("x"), "did x");
  EXPECT_FALSE(call("crash"));
  // A file that ends each helper keeps no CPU busy, and nobody's file or process is lost meanwhile.
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(call("x"), "did x");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 500ms);
  EXPECT_TRUE(wait_until([&] { return call("x") && helpers_.pids().size() == 4; }));
}

// By the OOM killer, or by hand.
TEST_F(HelperProcesses, OfOnesThatWereKilledWhileIdleNothingIsMissed) {
  for (int i = 0; i < 3; ++i) {
    for (const HelperKind kind : {HelperKind::reader, HelperKind::scanner}) {
      const pid_t pid = pid_of(kind);
      ::kill(pid, SIGKILL);
      EXPECT_TRUE(
          wait_until([&] { return read_file(fmt::format("/proc/{}/stat", pid))->find(") Z ") != std::string::npos; }));
      EXPECT_EQ(call("x", kind), "did x");
    }
    std::this_thread::sleep_for(1100ms);
    (void)call("x");
    EXPECT_EQ(helpers_.pids().size(), 4U);
  }
}

TEST_F(HelperProcesses, WithoutAnyNoneCanBeMade) {
  for (const HelperKind kind : {HelperKind::reader, HelperKind::scanner})
    for (std::size_t i = 0; i < Helpers::kOfEach; ++i) EXPECT_FALSE(call("crash", kind));
  EXPECT_FALSE(helpers_.any());
  std::this_thread::sleep_for(1100ms);
  const auto reply = call("x");
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().what, HasSubstr("no helper is idle"));
  EXPECT_FALSE(Helpers().call(HelperKind::reader, {}));
}

// Ctrl-C, `systemctl stop` and `kill` of the group are for the broker.
TEST_F(HelperProcesses, SignalsAreForTheBroker) {
  for (const pid_t pid : helpers_.pids())
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE}) ::kill(pid, number);
  EXPECT_EQ(call("x"), "did x");
  EXPECT_EQ(helpers_.pids().size(), 4U);
}

TEST_F(HelperProcesses, EndWhenTheyAreTold) {
  const std::vector<pid_t> pids = helpers_.pids();
  helpers_.end(5s);
  for (const pid_t pid : pids) EXPECT_FALSE(runs(pid));
  EXPECT_FALSE(call("x"));
}

// Also those that were made again.
TEST(HelperLife, TheyDieWithTheBroker) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t broker = ::fork();
  if (broker == 0) {
    const Helpers helpers = Helpers::start(obey).value();
    (void)helpers.call(HelperKind::scanner, bytes_of("wait"));
    (void)helpers.call(HelperKind::scanner, bytes_of("x"));
    std::thread other([&] { (void)helpers.call(HelperKind::scanner, bytes_of("work")); });
    (void)helpers.call(HelperKind::scanner, bytes_of("work"));
    other.join();
    const std::vector<pid_t> pids = helpers.pids();
    (void)!::write(pipe[1], pids.data(), pids.size() * sizeof(pid_t));
    for (;;) ::pause();
  }
  std::array<pid_t, 4> pids{};
  ASSERT_EQ(::read(pipe[0], pids.data(), sizeof pids), static_cast<ssize_t>(sizeof pids));
  for (const pid_t pid : pids) EXPECT_TRUE(runs(pid)) << pid;
  ::kill(broker, SIGKILL);
  ::waitpid(broker, nullptr, 0);
  // They are another process's children now, which may leave zombies.
  const auto is_gone = [](pid_t pid) {
    const auto stat = read_file(fmt::format("/proc/{}/stat", pid));
    return !stat || stat->find(") Z ") != std::string::npos;
  };
  for (const pid_t pid : pids) EXPECT_TRUE(wait_until([&] { return is_gone(pid); })) << pid;
  for (const int end : pipe) ::close(end);
}

TEST(HelperTitle, IsWhatPsShows) {
  const pid_t child = ::fork();
  if (child == 0) {
    // The test's own arguments, as main() passes them.
    const auto stat = read_file("/proc/self/stat").value();
    unsigned long begin = 0, end = 0;
    // Fields 48 and 49 of proc_pid_stat(5) are behind 45 blanks after the name.
    std::size_t at = stat.rfind(") ") + 2;
    for (int i = 0; i < 45; ++i) at = stat.find(' ', at) + 1;
    if (std::sscanf(stat.c_str() + at, "%lu %lu", &begin, &end) != 2) ::_exit(2);  // NOLINT(cert-err34-c)
    const Helpers helpers =
        Helpers::start(obey, {reinterpret_cast<char*>(begin), reinterpret_cast<char*>(end)}).value();
    for (const pid_t pid : helpers.pids()) {
      // One answer of each kind: it has its title.
      const auto title = [&] { return read_file(fmt::format("/proc/{}/cmdline", pid)).value(); };
      if (!wait_until([&] { return title().starts_with(std::string_view("flightd-", 8)); })) ::_exit(3);
      if (title().find_first_not_of('\0', title().find('\0')) != std::string::npos) ::_exit(4);
    }
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace flight::broker
