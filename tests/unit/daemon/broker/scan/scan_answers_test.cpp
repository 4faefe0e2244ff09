// SPDX-License-Identifier: Apache-2.0
// Requests for scans of this machine's real /proc, beside a real recording. The files that are mapped are not read.
#include "daemon/broker/scan/scan_answers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tests/unit/daemon/patience.hpp"
#include "tests/unit/recorder/on_this_machine.hpp"

namespace flight::broker {
namespace {

constexpr std::size_t kMostScanBytes = 6U << 20U;

class ScanReplies : public test::OnThisMachine {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(test::OnThisMachine::SetUp());
    config_.channels.push_back({.name = "stacks", .ring_bytes = 64U << 10U, .events = {{.event = "cpu-clock"}}});
    config_.sideband_ring_bytes = 4U << 20U;  // nobody drains it: what it loses would be a reason to read the symbols
    auto opened = open_recording();
    ASSERT_TRUE(opened) << opened.error().what;
    recording_.emplace(std::move(*opened));
  }
  std::optional<ScanAnswers::Reply> next() { return scans_.next(*recording_, kMostScanBytes); }
  std::optional<ScanAnswers::Reply> wait_for_next() {
    std::optional<ScanAnswers::Reply> reply;
    EXPECT_TRUE(test::soon([&] {
      reply = next();
      return reply.has_value();
    }));
    return reply;
  }
  bool is_a_file_read() {
    return test::soon([&] {
      files_.look();
      return *files_read_ > 0;
    });
  }

  using Count = std::shared_ptr<std::atomic<int>>;  // a thread may outlive the test
  const Count files_read_ = std::make_shared<std::atomic<int>>(0);
  const Count symbols_read_ = std::make_shared<std::atomic<int>>(0);
  std::optional<Recording> recording_;
  BlockingThreads readers_ = BlockingThreads::start("read", 2).value();
  FileWatch files_{readers_, [read = files_read_](std::span<const MappedAt> files, const FileWatch::Steps& steps) {
                     steps.has_helper(true);
                     for (std::size_t i = 0; i < files.size(); ++i) {
                       ++*read;
                       steps.done(MappedFileFacts{.build_id = {}, .host_path = {}});
                     }
                     steps.has_helper(false);
                   }};
  ScanAnswers scans_{BlockingThreads::start("scan", 8).value(), [] {}, files_, {.symbols = [read = symbols_read_] {
                       ++*read;
                       GeneratedCode code{.has_addresses = true};
                       code.symbols.push_back({.address = 4096, .bytes = 64, .bpf = true, .name = "bpf_prog_1"});
                       return Result<GeneratedCode>(std::move(code));
                     }}};
};

TEST_F(ScanReplies, TheFirstRequestGetsTheScanFromBeforeTheRecording) {
  const auto read = scans_.read_first(recording_->manifest(), {.bytes = kMostScanBytes});
  ASSERT_TRUE(read) << read.error().what;
  files_.look();
  EXPECT_EQ(*files_read_, 0) << "nothing is recorded yet";
  scans_.note_opened();
  EXPECT_TRUE(is_a_file_read());
  const auto first = scans_.ask();
  ASSERT_TRUE(first);
  EXPECT_GT(first->records.size(), 0U);
  EXPECT_EQ(first->warning, "");
  EXPECT_FALSE(scans_.is_awaited());
  EXPECT_FALSE(scans_.ask()) << "it was sent";
  EXPECT_TRUE(scans_.is_awaited());
  const auto second = wait_for_next();
  ASSERT_TRUE(second && second->scan);
  EXPECT_EQ(second->times, 1);
  EXPECT_FALSE(scans_.is_awaited());
}

TEST_F(ScanReplies, RequestsThatComeDuringAScanShareTheNextOne) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(scans_.ask());
  EXPECT_FALSE(next()) << "it begins";
  EXPECT_FALSE(scans_.ask());
  EXPECT_FALSE(scans_.ask());
  const auto first = wait_for_next();
  ASSERT_TRUE(first && first->scan);
  EXPECT_EQ(first->times, 1);
  const auto second = wait_for_next();
  ASSERT_TRUE(second && second->scan);
  EXPECT_EQ(second->times, 2);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, ScanAnswers::kEvery);
  EXPECT_FALSE(scans_.is_awaited());
}

TEST_F(ScanReplies, AScanGoesOnWithoutItsClient) {
  EXPECT_FALSE(scans_.ask());
  EXPECT_FALSE(next()) << "it begins";
  EXPECT_FALSE(scans_.ask());
  scans_.forget();
  EXPECT_TRUE(scans_.is_awaited());
  const auto reply = wait_for_next();
  ASSERT_TRUE(reply && reply->scan);
  EXPECT_EQ(reply->times, 0);
  EXPECT_FALSE(scans_.is_awaited()) << "the second request is forgotten, too";
}

TEST_F(ScanReplies, AnAdoptedRecordingIsScannedWithoutARequest) {
  scans_.note_adopted();
  EXPECT_TRUE(scans_.is_awaited());
  const auto reply = wait_for_next();
  ASSERT_TRUE(reply && reply->scan);
  EXPECT_EQ(reply->times, 0);
  EXPECT_TRUE(is_a_file_read());
}

TEST_F(ScanReplies, SymbolsAreReadAgainAfterABreakOnly) {
  ASSERT_TRUE(recording_->manifest().lost_exact);
  const auto symbols_read_after_a_scan = [&] {
    EXPECT_FALSE(scans_.ask());
    const auto reply = wait_for_next();
    EXPECT_TRUE(reply && reply->scan);
    return symbols_read_->load();
  };
  EXPECT_EQ(symbols_read_after_a_scan(), 1);
  EXPECT_EQ(symbols_read_after_a_scan(), 1);
  scans_.note_break();
  EXPECT_EQ(symbols_read_after_a_scan(), 2);
}

}  // namespace
}  // namespace flight::broker
