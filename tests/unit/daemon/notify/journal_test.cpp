// SPDX-License-Identifier: Apache-2.0
// A journald that does not read. The tests run in a process of their own (a death test's), which may have its own mount
// namespace.
#include "daemon/notify/journal.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "daemon/log/log.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {
namespace {

constexpr int kReported = 100;

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "failed: %s: %s\n", what, std::strerror(errno));
  std::_Exit(1);
}

// A socket with space for two entries.
UniqueFd hanging_journald() {
  check(::unshare(CLONE_NEWNS | CLONE_NEWNET) == 0, "unshare");
  check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  ::mkdir("/run/systemd", 0755);
  check(::mount("journal", "/run/systemd", "tmpfs", 0, nullptr) == 0, "mount");
  check(::mkdir("/run/systemd/journal", 0755) == 0, "mkdir");
  std::ofstream("/proc/sys/net/unix/max_dgram_qlen") << 1;
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket"};
  check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "bind");
  return fd;
}

// Whether an entry came within a minute.
bool take_one(const UniqueFd& journald) {
  pollfd ready{journald.get(), POLLIN, 0};
  char text[4096];
  return ::poll(&ready, 1, 60'000) == 1 && ::recv(journald.get(), text, sizeof text, 0) > 0;
}

void report_much(Journal& journal) {
  for (int number = 0; number < kReported; ++number) journal.report(degraded_entry("disk", fmt::format("{}", number)));
}

void what_is_not_taken_is_dropped() {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("journal"));
  ::unsetenv("JOURNAL_STREAM");
  const UniqueFd journald = hanging_journald();
  const auto journal = Journal::start();
  check(journal.has_value(), "a thread");
  report_much(**journal);  // returns without waiting
  // The queued entries; some more may have been on their way.
  for (std::size_t taken = 0; taken < Journal::kMostQueued; ++taken) check(take_one(journald), "an entry");
}

void its_end_does_not_wait() {
  spdlog::set_level(spdlog::level::off);
  const UniqueFd journald = hanging_journald();
  auto journal = Journal::start().value();
  report_much(*journal);
  journal.reset();
  std::fprintf(stderr, "ended\n");
}

class JournalDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: a mount namespace";
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(JournalDeathTest, EntriesDroppedByAHangingJournaldAreReported) {
  EXPECT_EXIT((what_is_not_taken_is_dropped(), std::exit(0)), testing::ExitedWithCode(0),
              "[1-9][0-9]* of flightd's were dropped");
}

TEST_F(JournalDeathTest, ItsEndDoesNotWaitForIt) {
  EXPECT_EXIT((its_end_does_not_wait(), std::_Exit(0)), testing::ExitedWithCode(0), "ended");
}

TEST(Journal, KnowsWhereStderrGoes) {
  struct stat info {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &info), 0);
  ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", info.st_dev, info.st_ino).c_str(), 1);
  EXPECT_TRUE(log::stderr_is_journal());
  ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", info.st_dev, info.st_ino + 1).c_str(), 1);
  EXPECT_FALSE(log::stderr_is_journal());
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(log::stderr_is_journal());
}

}  // namespace
}  // namespace flight::daemon
