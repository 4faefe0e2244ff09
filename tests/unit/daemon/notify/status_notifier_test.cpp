// SPDX-License-Identifier: Apache-2.0
// The line of `systemctl status`, sent to a service manager that reads late.
#include "daemon/notify/status_notifier.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <optional>
#include <string>

#include "tests/unit/daemon/broker/service_manager.hpp"
#include "tests/unit/daemon/patience.hpp"

namespace flight::daemon {
namespace {

class StatusNotifierTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-status-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    manager_.emplace(folder_ + "/notify");
    notifier_.emplace(loop_.io, [this] { return facts_; });
    notifier_->ready();
    ASSERT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording 1 CPU"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  test::Loop loop_;
  StatusFacts facts_{.cpus = 1, .channels = 1, .trouble = {}, .last = {}};
  std::optional<test::ServiceManager> manager_;
  std::optional<StatusNotifier> notifier_;
};

TEST_F(StatusNotifierTest, AFullQueueIsNotWaitedForAndTheLineIsSentLater) {
  test::ServiceManager::block();
  facts_.cpus = 2;
  auto notified = std::async(std::launch::async, [this] { notifier_->notify(); });
  EXPECT_EQ(notified.wait_for(test::kPatience), std::future_status::ready) << "it waits until somebody reads";
  manager_->receive_all();
  notified.get();
  notifier_->notify();
  EXPECT_TRUE(manager_->wait_for("STATUS=recording 2 CPUs"));
}

TEST_F(StatusNotifierTest, ReadyThatWasNotReadIsSentLater) {
  test::ServiceManager::block();
  StatusNotifier late(loop_.io, [this] { return facts_; });
  late.ready();
  EXPECT_TRUE(loop_.until([this] { return manager_->was_sent("READY=1\nSTATUS=recording 1 CPU"); }));
}

}  // namespace
}  // namespace flight::daemon
