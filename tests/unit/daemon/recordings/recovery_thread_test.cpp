// SPDX-License-Identifier: Apache-2.0
// The thread that finishes parts of recordings: what did not succeed is tried again, and for how long. A test says how
// long it waits between two attempts.
#include "daemon/recordings/recovery_thread.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/store/store_service.hpp"
#include "tests/unit/daemon/recordings/unfinished_part.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::IsEmpty;

class PartsTriedAgain : public UnfinishedPartTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(UnfinishedPartTest::SetUp());
    StoreConfig config;
    config.keep_free = SizeOrShare{.bytes = 0};
    service_ = std::make_unique<StoreService>(
        loop_.io, TaskThread::start("store").value(),
        StoreService::Setup{
            .folder = bench_.snapshots(), .state_dir = bench_.folder, .boot_id = "boot", .config = config},
        [] {});
    const auto again_after = [this](const Error& error) {
      error_number_ = error.errno_value();
      ++failures_;
      return std::chrono::milliseconds(0);
    };
    thread_ = std::make_unique<RecoveryThread>(loop_.io, TaskThread::start("recordings").value(), *bench_.recorder,
                                               *service_, "box", again_after);
    ASSERT_NO_FATAL_FAILURE(kill_part(2));
    describe();
  }
  void TearDown() override {
    thread_.reset();
    service_.reset();
    UnfinishedPartTest::TearDown();
  }
  // Until nothing is under way any more, however often the loop runs.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(thread_->wait_until(std::chrono::steady_clock::now() + kPatience));
      loop_.poll();
    }
  }
  [[nodiscard]] bool is_finished() const { return std::filesystem::exists(at(kStem + ".perf.data")); }
  [[nodiscard]] std::vector<std::string> unfinished() const {
    std::vector<std::string> out = names();
    std::erase_if(out, [](const std::string& name) { return !name.ends_with(kPartialSuffix); });
    return out;
  }

  Loop loop_;
  std::atomic<int> failures_ = 0, error_number_ = 0;
  std::unique_ptr<StoreService> service_;
  std::unique_ptr<RecoveryThread> thread_;
};

TEST_F(PartsTriedAgain, UntilTheBrokerMakesTheFile) {
  bench_.broker->refuse(Request::file, std::errc::timed_out, "the disk does not answer");
  thread_->recover({kSeq}, RecordingEnd::killed);
  ASSERT_TRUE(loop_.until([&] { return failures_ >= 3; }));
  EXPECT_EQ(error_number_, ETIMEDOUT);
  EXPECT_FALSE(is_finished());
  bench_.broker->obey(Request::file);
  EXPECT_TRUE(loop_.until([&] { return is_finished(); }));
  settle();
  EXPECT_EQ(stored().record->ended, "killed");
  EXPECT_THAT(unfinished(), IsEmpty()) << "nothing is left of an attempt";
}

TEST_F(PartsTriedAgain, ABoundedNumberOfTimes) {
  bench_.broker->refuse(Request::file, std::errc::timed_out, "the disk does not answer");
  thread_->recover({kSeq}, RecordingEnd::killed);
  const int most = static_cast<int>(RecoveryThread::kMostTries);
  ASSERT_TRUE(loop_.until([&] { return failures_ >= most; }));
  settle();
  EXPECT_EQ(failures_, most);
  EXPECT_FALSE(is_finished());
}

TEST_F(PartsTriedAgain, AsLongAsFlightdRunsIfTheDiskIsFull) {
  bench_.broker->refuse(Request::file, std::errc::no_space_on_device, "the disk is full");
  thread_->recover({kSeq}, RecordingEnd::disk);
  const int most = static_cast<int>(RecoveryThread::kMostTries);
  ASSERT_TRUE(loop_.until([&] { return failures_ > most; }));
  EXPECT_EQ(error_number_, ENOSPC);
  bench_.broker->obey(Request::file);
  EXPECT_TRUE(loop_.until([&] { return is_finished(); }));
}

TEST_F(PartsTriedAgain, NotWhenFlightdEnds) {
  bench_.broker->refuse(Request::file, std::errc::timed_out, "the disk does not answer");
  const auto before = unfinished();
  thread_->recover({kSeq}, RecordingEnd::killed);
  ASSERT_TRUE(loop_.until([&] { return failures_ >= 1; }));
  thread_->stop();
  settle();
  const int last = failures_;
  thread_->recover({kSeq}, RecordingEnd::killed);
  settle();
  EXPECT_EQ(failures_, last);
  EXPECT_EQ(unfinished(), before) << "the next flightd finds it as it was";
}

}  // namespace
}  // namespace flight::daemon
