// SPDX-License-Identifier: Apache-2.0
// Requests for scans of this machine's real /proc, beside a real recording. The files that are mapped are not read.
#include "daemon/broker/scan/scan_answers.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
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
  void read_first() {
    const auto read = scans_.read_first(recording_->manifest(), {.bytes = kMostScanBytes});
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(*symbols_read_, 1);
  }
  // The time of the list of symbols in an answer; 0: it has none.
  static EventTime listed_ns(const ScanAnswer& answer) {
    std::uint64_t symbols = 0;
    std::span<const std::byte> rest = answer.records.bytes();
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      if (parse_ksymbol(record)) ++symbols;
      const auto trailer = parse_trailer(record);
      if (!trailer || trailer->reserved != kScanSymbolsListed) continue;
      EXPECT_EQ(symbols, 1U);
      EXPECT_EQ(lost_fields(record)->id, symbols);
      return trailer->time_ns;
    }
    return 0;
  }
  // The same for the next request, which no earlier scan answers.
  EventTime next_listed_ns() {
    EXPECT_FALSE(scans_.ask());
    const auto reply = wait_for_next();
    EXPECT_TRUE(reply && reply->scan);
    return reply && reply->scan ? listed_ns(*reply->scan) : 0;
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

TEST_F(ScanReplies, TheListFromBeforeTheRecordingIsSentAgainIfNoSymbolCame) {
  ASSERT_TRUE(recording_->manifest().lost_exact);
  ASSERT_NO_FATAL_FAILURE(read_first());
  scans_.note_opened();
  const auto first = scans_.ask();
  ASSERT_TRUE(first);
  EXPECT_NE(listed_ns(*first), 0U);
  const EventTime asked_ns = monotonic_now();
  const EventTime second_ns = next_listed_ns();
  EXPECT_EQ(*symbols_read_, 1);
  EXPECT_GE(second_ns, asked_ns) << "a gap of the client ends before its request";
  EXPECT_LE(second_ns, monotonic_now());
  EXPECT_EQ(next_listed_ns(), second_ns);
  EXPECT_EQ(*symbols_read_, 1);
}

// As the kernel writes it while the first scan runs, or between that and the first look into the ring.
TEST_F(ScanReplies, TheListIsReadAgainIfASymbolCameSinceTheSidebandIsOn) {
  ASSERT_NO_FATAL_FAILURE(read_first());
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Mapping ring = *Mapping::create(page + (64U << 10U));
  RecordBuffer record;
  append_ksymbol(record, {.address = 8192, .bytes = 64, .name = "bpf_prog_2"}, {});
  std::memcpy(ring.data() + page, record.data(), record.size());
  reinterpret_cast<perf_event_mmap_page*>(ring.data())->data_head = record.size();
  const std::vector<FileWatch::Ring> rings{{.owner_id = 1, .mapping = ring.bytes()}};
  files_.follow(rings, true);
  scans_.note_opened();
  ASSERT_TRUE(scans_.ask());
  EXPECT_NE(next_listed_ns(), 0U);
  EXPECT_EQ(*symbols_read_, 2);
  files_.follow({}, true);
}

TEST_F(ScanReplies, TheListFromBeforeTheRecordingIsNotSentAgainAfterABreak) {
  ASSERT_NO_FATAL_FAILURE(read_first());
  scans_.note_opened();
  ASSERT_TRUE(scans_.ask());
  scans_.note_break();
  EXPECT_NE(next_listed_ns(), 0U);
  EXPECT_EQ(*symbols_read_, 2);
}

// The rings could not be opened after the first scan; the next attempt found those of a predecessor.
TEST_F(ScanReplies, AnAdoptedRecordingHasNoListOfAnEarlierAttempt) {
  ASSERT_NO_FATAL_FAILURE(read_first());
  scans_.note_adopted();
  const auto reply = wait_for_next();
  ASSERT_TRUE(reply && reply->scan);
  EXPECT_NE(listed_ns(*reply->scan), 0U);
  EXPECT_EQ(*symbols_read_, 2);
}

}  // namespace
}  // namespace flight::broker
