// SPDX-License-Identifier: Apache-2.0
// Real helper processes that answer, wait, work, end and crash.
#include "daemon/broker/helpers/helpers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

#include "daemon/broker/helpers/reading.hpp"
#include "libcore/base/files.hpp"
#include "libcore/sysinfo/processes.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using testing::HasSubstr;

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

constexpr std::string_view kDiskUntil = "disk ";

// In a helper.
std::vector<std::byte> obey(std::span<const std::byte> request, const Helpers::Notices& notices) {
  const std::string order = text_of(request);
  if (order == "wait") ::pause();
  if (order == "crash") ::raise(SIGKILL);
  if (order == "work") work_for(2 * Helpers::kKillAfter);
  if (order == "work for ever") work_for(1h);
  if (order == "disk") {
    notices.answered();
    std::this_thread::sleep_for(3 * Helpers::kKillAfter);
  }
  if (order.starts_with(kDiskUntil)) {
    notices.answered();
    const std::filesystem::path folder = order.substr(kDiskUntil.size());
    std::filesystem::create_directory(folder / std::to_string(::getpid()));
    while (std::filesystem::exists(folder / "hangs")) std::this_thread::sleep_for(1ms);
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

// For the helpers that get its order.
class HungDisk {
 public:
  HungDisk() { std::filesystem::create_directories(folder_ / "hangs"); }
  ~HungDisk() { std::filesystem::remove_all(folder_); }
  HungDisk(const HungDisk&) = delete;
  HungDisk& operator=(const HungDisk&) = delete;
  [[nodiscard]] std::string order() const { return std::string(kDiskUntil) + folder_.string(); }
  // The number of helpers that wait for it.
  [[nodiscard]] std::ptrdiff_t asked_by() const {
    return std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()) - 1;
  }
  void answer() const { std::filesystem::remove(folder_ / "hangs"); }

 private:
  std::filesystem::path folder_ = testing::TempDir() + fmt::format("hung-disk-{}", ::getpid());
};

bool runs(pid_t pid) { return ::kill(pid, 0) == 0; }

// It has the name that it gives itself after its preparations.
bool is_ready(pid_t pid) { return read_file(fmt::format("/proc/{}/comm", pid)).value() == "flightd-reader\n"; }

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
  Result<std::string> call(std::string_view order, const Helpers::Notices& notices = {}) {
    const auto reply = helpers_.call(bytes_of(order), notices);
    if (!reply) return propagate(reply.error());
    return text_of(*reply);
  }
  // The pid of the helper that does the next call.
  pid_t next_pid() {
    const auto pid = call("pid");
    EXPECT_TRUE(pid) << pid.error().what;
    return pid ? std::stoi(*pid) : -1;
  }
  // A call on another thread.
  class Other {
   public:
    Other(HelperProcesses& test, std::string order)
        : thread_([this, &test, order = std::move(order)] {
            reply_ = test.call(order);
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
  EXPECT_EQ(call("y"), "did y");
  EXPECT_EQ(call(std::string(100'000, 'z')), "did " + std::string(100'000, 'z'));
  const auto large = call("large");
  ASSERT_TRUE(large) << large.error().what;
  EXPECT_EQ(large->size(), 20'000'000U);
  EXPECT_EQ(helpers_.pids().size(), Helpers::kAtStart);
  for (const pid_t pid : helpers_.pids()) EXPECT_TRUE(wait_until([&] { return is_ready(pid); }));
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
  const pid_t before = next_pid();
  const auto waits = call("wait");
  ASSERT_FALSE(waits);
  EXPECT_EQ(waits.error().code, std::errc::timed_out);
  EXPECT_THAT(waits.error().what, HasSubstr("read mapped files: a process does not answer"));
  EXPECT_FALSE(runs(before)) << "and no zombie is left";
  EXPECT_EQ(helpers_.pids().size(), Helpers::kAtStart) << "made again before it is needed";
  // Both at once, so that the new one is used.
  Other first(*this, "work");
  Other second(*this, "work");
  EXPECT_EQ(first.reply(), "did work");
  EXPECT_EQ(second.reply(), "did work");
  EXPECT_GE(helpers_.pids().size(), Helpers::kAtStart);
  for (const pid_t pid : helpers_.pids()) EXPECT_TRUE(runs(pid));
}

// A machine without idle CPUs, a process with many mappings.
TEST_F(HelperProcesses, OneThatWorksIsNotKilled) {
  const pid_t before = next_pid();
  EXPECT_EQ(call("work"), "did work");
  EXPECT_TRUE(runs(before));
  const double used = helpers_.cpu_seconds();
  EXPECT_GT(used, 0.02) << "it had " << (2 * Helpers::kKillAfter).count() << " ms";
  ::kill(before, SIGKILL);
  EXPECT_TRUE(wait_until([&] { return call("x") && !runs(before); }));
  EXPECT_GE(helpers_.cpu_seconds(), used * 0.9) << "also when it has ended";
}

// A process can hold the lock of its mappings again and again, so that its reader uses some CPU in between.
TEST_F(HelperProcesses, OneThatWorksForTooLongIsKilled) {
  const auto reply = call("work for ever");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, std::errc::timed_out);
  EXPECT_EQ(call("x"), "did x");
}

// While a helper makes another one it is not busy for long.
TEST_F(HelperProcesses, CallsWaitForOneThatIsMadeAgain) {
  std::atomic<bool> stops = false;
  std::atomic<int> refused = 0;
  const auto read = [&] {
    while (!stops)
      if (call("x").value_or("") != "did x") ++refused;
  };
  std::thread other(read);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(call("wait"));
  stops = true;
  other.join();
  EXPECT_EQ(refused, 0);
  EXPECT_GE(helpers_.pids().size(), Helpers::kAtStart);
}

// A slow disk: its answer counts, and nothing is gained by a kill.
TEST_F(HelperProcesses, OneThatWaitsForADiskIsNotKilled) {
  int answers = 0;
  EXPECT_EQ(call("disk", {.answered = [&] { ++answers; }, .part = {}, .has_helper = {}, .used = {}}), "did disk");
  EXPECT_EQ(answers, 1);
}

TEST_F(HelperProcesses, TheCallerLearnsWhatARequestTookOfACpu) {
  std::chrono::nanoseconds used{0}, cpu{0};
  const Helpers::Notices notices{.answered = {},
                                 .part = {},
                                 .has_helper = {},
                                 .used = [&](std::chrono::nanoseconds time, std::chrono::nanoseconds measured) {
                                   used += time;
                                   cpu += measured;
                                 }};
  EXPECT_EQ(call("disk", notices), "did disk");
  EXPECT_LT(used, Helpers::kKillAfter) << "it waited";
  EXPECT_EQ(cpu, used);
  EXPECT_EQ(call("work", notices), "did work");
  EXPECT_GT(used, 50ms);
  EXPECT_EQ(cpu, used);
  used = cpu = 0ms;
  EXPECT_FALSE(call("wait", notices));
  EXPECT_GE(used, Helpers::kKillAfter) << "it was killed, and another one is made";
  EXPECT_LT(cpu, Helpers::kKillAfter) << "it only waited";
  cpu = 0ms;
  EXPECT_FALSE(call("work for ever", notices));
  EXPECT_GT(cpu, 50ms) << "what it had used when it was killed";
}

// The callers get the whole CPU time of the helpers, however a helper ends.
TEST_F(HelperProcesses, TheCallersLearnAllThatTheHelpersUse) {
  std::chrono::nanoseconds cpu{0};
  const Helpers::Notices notices{
      .answered = {},
      .part = {},
      .has_helper = {},
      .used = [&](std::chrono::nanoseconds, std::chrono::nanoseconds measured) { cpu += measured; }};
  EXPECT_EQ(call("work", notices), "did work");
  EXPECT_FALSE(call("crash", notices));
  EXPECT_FALSE(call("wait", notices));
  EXPECT_EQ(call("work", notices), "did work");
  EXPECT_EQ(call("x", notices), "did x");
  const double all = helpers_.cpu_seconds(), told = std::chrono::duration<double>(cpu).count();
  EXPECT_LE(told, all + 0.01) << "the kernel's count of an ended process is a rounded one";
  EXPECT_GE(told, std::max(all / 2, all - 0.1)) << "but for those that have not worked since they were made";
}

TEST_F(HelperProcesses, PartsComeAsTheyAreReadAndTheNextProcessMayHangAgain) {
  std::vector<std::string> parts;
  const auto reply = call("parts", {.answered = [&] { parts.emplace_back("answered"); },
                                    .part = [&](std::span<const std::byte> part) { parts.push_back(text_of(part)); },
                                    .has_helper = {},
                                    .used = {}});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, std::errc::timed_out);
  EXPECT_THAT(parts, testing::ElementsAre("answered", "one", "answered", "two"));
}

TEST_F(HelperProcesses, WhileOneHangsTheOtherWorksAndAThirdIsRefused) {
  const HungDisk disk;
  Other first(*this, disk.order());
  EXPECT_TRUE(wait_until([&] { return disk.asked_by() == 1; }));
  EXPECT_EQ(call("x"), "did x");
  Other second(*this, disk.order());
  EXPECT_TRUE(wait_until([&] { return disk.asked_by() == 2; }));
  const auto third = call("x");
  disk.answer();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, std::errc::device_or_resource_busy);
  EXPECT_TRUE(first.reply());
  EXPECT_TRUE(second.reply());
  EXPECT_EQ(call("x"), "did x");
}

// One waits for a disk for ever, and the other is killed: one that never reads is there to make it again.
TEST_F(HelperProcesses, WhileOneHangsTheOtherIsKilledAndMadeAgain) {
  const HungDisk disk;
  Other hangs(*this, disk.order());
  EXPECT_TRUE(wait_until([&] { return disk.asked_by() == 1; }));
  for (int i = 0; i < 3; ++i) {
    const auto waits = call("wait");
    ASSERT_FALSE(waits);
    EXPECT_EQ(waits.error().code, std::errc::timed_out);
    EXPECT_EQ(call("x"), "did x");
  }
  EXPECT_FALSE(call("crash"));
  EXPECT_FALSE(call("wait"));
  EXPECT_EQ(call("x"), "did x");
  EXPECT_FALSE(hangs.ended());
  EXPECT_EQ(helpers_.pids().size(), Helpers::kMost);
  disk.answer();
  EXPECT_TRUE(hangs.reply());
}

TEST_F(HelperProcesses, ACrashIsSaidAndTheOthersGoOn) {
  const auto begun = std::chrono::steady_clock::now();
  const auto crash = call("crash");
  ASSERT_FALSE(crash);
  EXPECT_EQ(crash.error().code, std::errc::broken_pipe);
  EXPECT_THAT(crash.error().what, testing::AllOf(HasSubstr("flightd-reader"), HasSubstr("ended (signal 9)")));
  EXPECT_EQ(call("x"), "did x");
  EXPECT_FALSE(call("crash"));
  // A file that ends each helper keeps no CPU busy, and nobody's file or process is lost meanwhile.
  EXPECT_TRUE(wait_until([&] { return call("x") == "did x"; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 900ms) << "the two that crashed are not made again at once";
  EXPECT_TRUE(wait_until([&] { return call("x") && helpers_.pids().size() >= Helpers::kAtStart; }));
}

// By the OOM killer, or by hand.
TEST_F(HelperProcesses, OfOnesThatWereKilledWhileIdleNothingIsMissed) {
  for (int i = 0; i < 3; ++i) {
    for (const pid_t pid : helpers_.pids()) {
      ::kill(pid, SIGKILL);
      EXPECT_TRUE(
          wait_until([&] { return read_file(fmt::format("/proc/{}/stat", pid))->find(") Z ") != std::string::npos; }));
      EXPECT_EQ(call("x"), "did x");
      EXPECT_FALSE(runs(pid)) << "and no zombie is left";
      EXPECT_EQ(helpers_.pids().size(), Helpers::kAtStart) << "one works, and another one could make more";
    }
  }
}

TEST_F(HelperProcesses, WithoutAnyNoneCanBeMade) {
  for (const pid_t pid : helpers_.pids()) ::kill(pid, SIGKILL);
  EXPECT_FALSE(call("x"));
  EXPECT_FALSE(helpers_.any());
  std::this_thread::sleep_for(1100ms);
  const auto reply = call("x");
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().what, HasSubstr("all of them are busy"));
  EXPECT_FALSE(Helpers().call({}));
}

// Ctrl-C, `systemctl stop` and `kill` of the group are for the broker.
TEST_F(HelperProcesses, SignalsAreForTheBroker) {
  for (const pid_t pid : helpers_.pids()) EXPECT_TRUE(wait_until([&] { return is_ready(pid); }));
  for (const pid_t pid : helpers_.pids())
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE}) ::kill(pid, number);
  EXPECT_EQ(call("x"), "did x");
  EXPECT_EQ(helpers_.pids().size(), Helpers::kAtStart);
}

TEST_F(HelperProcesses, EndOnRequest) {
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
    (void)helpers.call(bytes_of("wait"));
    (void)helpers.call(bytes_of("x"));
    std::thread other([&] { (void)helpers.call(bytes_of("work")); });
    (void)helpers.call(bytes_of("work"));
    other.join();
    const std::vector<pid_t> pids = helpers.pids();
    (void)!::write(pipe[1], pids.data(), pids.size() * sizeof(pid_t));
    for (;;) ::pause();
  }
  std::vector<pid_t> pids(Helpers::kMost);
  const ssize_t got = ::read(pipe[0], pids.data(), pids.size() * sizeof(pid_t));
  ASSERT_GE(got, static_cast<ssize_t>(Helpers::kAtStart * sizeof(pid_t)));
  pids.resize(static_cast<std::size_t>(got) / sizeof(pid_t));
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

// flightd that was started by hand takes nice -10 for itself and its broker.
TEST(HelperLife, ItIsNotMoreUrgentThanOthers) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  for (const int nice : {-10, 5}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setpriority(PRIO_PROCESS, 0, nice) != 0) ::_exit(2);
      const Helpers helpers = Helpers::start(obey).value();
      if (!helpers.call(bytes_of("x")) || helpers.call(bytes_of("wait"))) ::_exit(3);  // another one is made
      if (!helpers.call(bytes_of("x"))) ::_exit(4);
      for (const pid_t pid : helpers.pids()) {
        if (!wait_until([&] { return is_ready(pid); })) ::_exit(5);
        if (!wait_until([&] { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid)) == std::max(nice, 0); }))
          ::_exit(6);
      }
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "nice " << nice;
  }
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

// The real work of the broker's helpers.
class HelpersRead : public test::RootTest {
 protected:
  ~HelpersRead() override { helpers_.end(1s); }
  Result<MappedFileFacts> read_one(const MappedAt& at, const std::function<void()>& answered) {
    Result<MappedFileFacts> out = fail(std::errc::bad_message, "no result");
    files_reader(helpers_)(std::span(&at, 1), {.has_helper = {},
                                               .answered = answered,
                                               .done = [&](Result<MappedFileFacts> facts) { out = std::move(facts); }});
    return out;
  }
  Helpers helpers_ = Helpers::start(read_for_broker).value();
};

TEST_F(HelpersRead, FilesAsThisProcessWould) {
  ProcessInfo here;
  ASSERT_TRUE(read_process(static_cast<std::uint32_t>(::getpid()), here));
  read_mappings(here);
  std::size_t files = 0;
  MappedAt last;
  for (const ProcessMapping& one : here.mappings) {
    if (!one.name.starts_with('/')) continue;
    const MappedAt at{.pid = here.pid,
                      .address = one.address,
                      .file = {.major = one.major, .minor = one.minor, .inode = one.inode},
                      .name = one.name,
                      .seen_ns = 5};
    last = at;
    bool answered = false;
    const auto by_helper = read_one(at, [&] { answered = true; });
    const auto by_this = read_mapped_file(at);
    ASSERT_EQ(by_helper.has_value(), by_this.has_value()) << at.name;
    if (!by_this) {
      EXPECT_EQ(by_helper.error().what, by_this.error().what);
      EXPECT_EQ(by_helper.error().code, by_this.error().code);
      continue;
    }
    ++files;
    EXPECT_TRUE(answered);
    EXPECT_EQ(by_helper->build_id, by_this->build_id);
    EXPECT_EQ(by_helper->host_path, by_this->host_path);
    EXPECT_EQ(by_helper->served_by, by_this->served_by);
    EXPECT_EQ(by_helper->stamp, by_this->stamp);
    EXPECT_EQ(by_helper->stamp_proves, by_this->stamp_proves);
    EXPECT_EQ(by_helper->unlinked, by_this->unlinked);
    EXPECT_EQ(by_helper->generation, by_this->generation);
    EXPECT_TRUE(by_helper->was_read);
    // The same file again: only its stamp is looked at.
    MappedAt again = at;
    again.known = by_helper->stamp;
    const auto second = read_one(again, [] {});
    ASSERT_TRUE(second) << second.error().what;
    EXPECT_TRUE(second->unchanged);
    EXPECT_GE(second->looked.monotonic_ns, by_helper->looked.monotonic_ns);
  }
  EXPECT_GE(files, 2U);
  MappedAt none = last;
  none.pid = 0x7fffffff;
  none.name = "/no/such/file (deleted)";
  const auto by_helper = read_one(none, [] {});
  const auto by_this = read_mapped_file(none);
  ASSERT_FALSE(by_this);
  ASSERT_FALSE(by_helper);
  EXPECT_EQ(by_helper.error().what, by_this.error().what);
}

// One request for all: a busy machine delays each message.
std::vector<MappedAt> own_files() {
  ProcessInfo own;
  EXPECT_TRUE(read_process(static_cast<std::uint32_t>(::getpid()), own));
  read_mappings(own);
  std::vector<MappedAt> files;
  for (const ProcessMapping& one : own.mappings)
    if (one.name.starts_with('/'))
      files.push_back({.pid = own.pid,
                       .address = one.address,
                       .file = {.major = one.major, .minor = one.minor, .inode = one.inode},
                       .name = one.name});
  return files;
}

struct ReadFacts {
  std::vector<Result<MappedFileFacts>> all;
  std::size_t begun = 0, answers = 0;
};
ReadFacts read_by(const Helpers& helpers, const std::vector<MappedAt>& files) {
  ReadFacts out;
  files_reader(helpers)(files, {.has_helper = [&](bool has) { out.begun += has ? 1 : 0; },
                                .answered = [&] { ++out.answers; },
                                .done = [&](Result<MappedFileFacts> one) { out.all.push_back(std::move(one)); }});
  return out;
}

// One request for all: a busy machine delays each message.
TEST_F(HelpersRead, ManyFilesInTheirOrder) {
  std::vector<MappedAt> files = own_files();
  ASSERT_GE(files.size(), 3U);
  files[1].file.inode += 1'000'000'007;  // no such file, in the middle
  const ReadFacts facts = read_by(helpers_, files);
  ASSERT_EQ(facts.all.size(), files.size());
  EXPECT_EQ(facts.begun, 1U);
  EXPECT_EQ(facts.answers, files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto here = read_mapped_file(files[i]);
    ASSERT_EQ(facts.all[i].has_value(), here.has_value()) << files[i].name;
    if (here) {
      EXPECT_EQ(facts.all[i]->build_id, here->build_id) << files[i].name;
    }
  }
}

TEST(HelpersReadNot, WithoutAHelperEachFileHasTheReason) {
  const std::vector<MappedAt> files = own_files();
  const ReadFacts facts = read_by(Helpers(), files);
  EXPECT_EQ(facts.begun, 0U);
  ASSERT_EQ(facts.all.size(), files.size());
  for (const auto& one : facts.all) EXPECT_EQ(one.error().code, std::errc::device_or_resource_busy);
}

// By the OOM killer, which takes them first.
TEST(HelpersReadAgain, WhatAHelperReadWhenItWasKilledAnotherOneReads) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const std::string mark = testing::TempDir() + fmt::format("killed-{}", ::getpid());
  const Helpers helpers =
      Helpers::start([mark](std::span<const std::byte> request, const Helpers::Notices& notices) {
        std::size_t parts = 0;
        return read_for_broker(request, {.answered = notices.answered, .part = [&](std::span<const std::byte> part) {
                                           notices.part(part);
                                           if (++parts == 2 && std::filesystem::create_directory(mark))
                                             ::raise(SIGKILL);
                                         }});
      }).value();
  const std::vector<MappedAt> files = own_files();
  ASSERT_GE(files.size(), 3U);
  const ReadFacts facts = read_by(helpers, files);
  EXPECT_EQ(facts.begun, 2U);
  ASSERT_EQ(facts.all.size(), files.size());
  for (const auto& one : facts.all) EXPECT_TRUE(one) << one.error().what;
  EXPECT_TRUE(std::filesystem::remove(mark));
  helpers.end(1s);
}

// Not even std::bad_alloc leads a helper into the broker's own code.
TEST(HelperLife, AnExceptionEndsIt) {
  const Helpers helpers =
      Helpers::start([](std::span<const std::byte>, const Helpers::Notices&) -> std::vector<std::byte> {
        throw std::bad_alloc();
      }).value();
  const auto reply = helpers.call({});
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().what, HasSubstr("ended (exit status 1)"));
  helpers.end(1s);
}

}  // namespace
}  // namespace flight::broker
