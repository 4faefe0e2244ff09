// SPDX-License-Identifier: Apache-2.0
// What a service that cannot start reports: sent to a real socket, whose receiver may read late.
#include "daemon/start/start_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/daemon/broker/service_manager.hpp"

namespace flight::daemon {
namespace {

class StartReportTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-report-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    manager_.emplace(folder_ + "/notify");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The whole status line, with the newline that the receiver puts after each message.
  static std::string status(const std::string& why) { return "STATUS=recording: no (" + why + "); trying again\n"; }
  // Whether anything was sent since the last successful wait_for().
  [[nodiscard]] bool is_silent() { return !manager_->was_sent("="); }
  // The receiver's queue is full during the report, and is read after it.
  void refuse(const std::string& why) {
    ASSERT_NO_FATAL_FAILURE(test::ServiceManager::block());
    report_.report(why);
    manager_->receive_all();
    ASSERT_FALSE(manager_->was_sent("STATUS="));
  }

  std::string folder_;
  std::optional<test::ServiceManager> manager_;
  StartReport report_;
};

TEST_F(StartReportTest, ReadyIsSentOnceAndAReasonOncePerChange) {
  report_.report("the disk is away");
  ASSERT_TRUE(manager_->wait_for("READY=1\n" + status("the disk is away")));
  report_.report("the disk is away");
  EXPECT_TRUE(is_silent());
  report_.report("the lock is held");
  EXPECT_FALSE(manager_->was_sent("READY=1"));
  ASSERT_TRUE(manager_->wait_for(status("the lock is held")));
  report_.report("the disk is away");
  EXPECT_FALSE(manager_->was_sent("READY=1"));
  ASSERT_TRUE(manager_->wait_for(status("the disk is away"))) << "it was another one in between";
  EXPECT_TRUE(is_silent());
  EXPECT_EQ(report_.why(), "the disk is away");
}

TEST_F(StartReportTest, WhatWasRefusedIsSentWithTheNextReport) {
  ASSERT_NO_FATAL_FAILURE(refuse("the disk is away"));
  report_.report("the disk is away");
  ASSERT_TRUE(manager_->wait_for("READY=1\n" + status("the disk is away")));
  report_.report("the disk is away");
  EXPECT_TRUE(is_silent()) << "it was received";
  ASSERT_NO_FATAL_FAILURE(refuse("the lock is held"));
  report_.report("the lock is held");
  EXPECT_FALSE(manager_->was_sent("READY=1")) << "that was received before";
  EXPECT_TRUE(manager_->wait_for(status("the lock is held")));
}

TEST_F(StartReportTest, AReasonThatWasRefusedIsReplacedByTheNextOne) {
  ASSERT_NO_FATAL_FAILURE(refuse("the disk is away"));
  report_.report("the lock is held");
  EXPECT_FALSE(manager_->was_sent("the disk is away"));
  EXPECT_TRUE(manager_->wait_for("READY=1\n" + status("the lock is held")));
}

TEST_F(StartReportTest, ARepetitionSendsWhatWasRefusedAndIsASignOfLife) {
  ASSERT_NO_FATAL_FAILURE(refuse("the disk is away"));
  report_.repeat();
  ASSERT_TRUE(manager_->wait_for("READY=1\n" + status("the disk is away") + "WATCHDOG=1\n"));
  report_.repeat();
  EXPECT_FALSE(manager_->was_sent("STATUS="));
  EXPECT_TRUE(manager_->wait_for("WATCHDOG=1\n"));
}

// Otherwise a name in the configuration could contain an assignment of sd_notify(3).
TEST_F(StartReportTest, AReasonIsOneShortLineInTheStatus) {
  const std::string why = "a\nSTOPPING=1\n" + std::string(1000, 'x');
  report_.report(why);
  ASSERT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (a?STOPPING=1?xxx"));
  EXPECT_FALSE(manager_->was_sent(std::string(300, 'x')));
  EXPECT_TRUE(manager_->wait_for("…"));
  EXPECT_TRUE(manager_->wait_for("xxx); trying again\n"));
  EXPECT_EQ(report_.why(), why) << "calls are answered with all of it";
}

TEST_F(StartReportTest, AttemptsComeSoonAtFirstAndThenEveryTenSeconds) {
  std::vector<std::chrono::seconds::rep> waits;
  for (int i = 0; i < 6; ++i) waits.push_back(report_.next_wait().count());
  EXPECT_THAT(waits, testing::ElementsAre(1, 2, 5, 10, 10, 10));
  report_.report("another reason");
  EXPECT_EQ(report_.next_wait().count(), 10) << "a new reason changes nothing";
}

}  // namespace
}  // namespace flight::daemon
