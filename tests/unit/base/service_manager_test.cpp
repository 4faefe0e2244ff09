// SPDX-License-Identifier: Apache-2.0
// sd_notify(3) to a real socket whose receiver reads nothing.
#include "libcore/base/service_manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <optional>
#include <string>

#include "tests/unit/daemon/broker/service_manager.hpp"
#include "tests/unit/full_table.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class NotifyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-notify-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    manager_.emplace(path());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ + "/notify"; }

  // A call that waits without a limit is a failure, and ends when the receiver reads.
  Result<void> notify(const std::string& text) {
    constexpr std::chrono::seconds kHangs(60);
    auto sent =
        std::async(std::launch::async, [&text] { return notify_service_manager(text, std::chrono::milliseconds(1)); });
    if (sent.wait_for(kHangs) != std::future_status::ready) {
      ADD_FAILURE() << "it waits until the receiver reads";
      manager_->receive_all();
    }
    return sent.get();
  }

  // The exit status of a child that cannot get a descriptor and runs `talk`.
  template <typename Talk>
  static int in_child(Talk talk) {
    const pid_t child = ::fork();
    if (child == 0) {
      const test::FullTable full;
      ::_exit(talk());
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The same for a child whose main thread has no socket yet, because it is a thread of its own here. It starts no
  // thread itself: ThreadSanitizer ends the children of a process with threads that do.
  template <typename Talk>
  static int in_new_child(Talk talk) {
    return std::async(std::launch::async, [&talk] { return in_child(talk); }).get();
  }

  std::string folder_;
  std::optional<test::ServiceManager> manager_;
};

TEST_F(NotifyTest, AFullQueueIsAnErrorAndNotWaitedFor) {
  test::ServiceManager::block();
  const auto sent = notify("STATUS=first");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().errno_value(), EAGAIN);
  EXPECT_THAT(sent.error().what, HasSubstr(path()));
  manager_->receive_all();
  ASSERT_TRUE(notify("STATUS=second"));
  EXPECT_TRUE(manager_->wait_for("STATUS=second"));
}

// WATCHDOG=1 must arrive as long as the process works.
TEST_F(NotifyTest, NeedsNoDescriptorLater) {
  ASSERT_TRUE(notify_service_manager("READY=1", kNotifySoon));
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit few = old;
  few.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto sent = notify_service_manager("WATCHDOG=1", kNotifySoon);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  ASSERT_TRUE(sent) << sent.error().what;
  EXPECT_TRUE(manager_->wait_for("WATCHDOG=1"));
}

// Without READY=1, systemd ends a service that waits for descriptors.
TEST_F(NotifyTest, TakesThePlaceOfStdinIfNoDescriptorIsLeft) {
  EXPECT_EQ(in_new_child([] {
              if (!notify_service_manager("READY=1", kNotifySurely)) return 1;
              if (!notify_service_manager("WATCHDOG=1", kNotifySurely)) return 2;
              struct stat now {};
              return ::fstat(STDIN_FILENO, &now) == 0 && S_ISSOCK(now.st_mode) ? 0 : 3;
            }),
            0);
  EXPECT_TRUE(manager_->wait_for("READY=1"));
  EXPECT_TRUE(manager_->wait_for("WATCHDOG=1"));
}

TEST_F(NotifyTest, AnotherThreadDoesNotTouchStdin) {
  EXPECT_EQ(in_child([] {
              return std::async(std::launch::async,
                                [] {
                                  const auto sent = notify_service_manager("READY=1", kNotifySurely);
                                  return sent || sent.error().errno_value() != EMFILE ? 1 : 0;
                                })
                  .get();
            }),
            0);
  EXPECT_FALSE(manager_->was_sent("READY=1"));
}

TEST_F(NotifyTest, OneThatHasEndedIsAnError) {
  manager_.reset();
  EXPECT_TRUE(notify_service_manager("READY=1", kNotifySoon)) << "without the variable there is no service manager";
  ::setenv("NOTIFY_SOCKET", path().c_str(), 1);
  EXPECT_EQ(notify_service_manager("READY=1", kNotifySoon).error().errno_value(), ECONNREFUSED);
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace flight
