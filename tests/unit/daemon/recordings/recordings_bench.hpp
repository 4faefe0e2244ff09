// SPDX-License-Identifier: Apache-2.0
// Recordings with everything that they need: a recorder with real rings, a fake broker that makes their files, and a
// store. A test can hold the recorder's thread and move the clock.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/recordings/recordings.hpp"
#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/store/names.hpp"
#include "tests/unit/daemon/recorder/recorder_bench.hpp"

namespace flight::test {

using namespace daemon;

constexpr EventTime kSecondNs = 1'000'000'000;

// A client of Record.
struct RecordCall {
  std::shared_ptr<int> client = std::make_shared<int>(0);
  std::vector<RecordStep> steps;
  std::optional<CallResult<std::string>> answer;

  [[nodiscard]] std::string error() const {
    if (!answer) return "not answered";
    return *answer ? "no error" : answer->error().name + " " + answer->error().parameters;
  }
  [[nodiscard]] RecordResult result() const {
    if (!answer || !*answer) return {};
    auto parsed = parse_record_result(**answer);
    EXPECT_TRUE(parsed) << **answer;
    return parsed ? std::move(*parsed) : RecordResult();
  }
};

// A trigger whose action is a recording.
struct TriggersCall {
  std::vector<std::string> begun;
  std::optional<CallResult<std::string>> answer;
};

class RecordingsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    rings_ = rings();
    ASSERT_TRUE(rings_);
    ASSERT_NO_FATAL_FAILURE(bench_.start(
        {.rings = rings_, .folder = bench_.snapshots(), .processes = scan_with(kUnknownPid, "first")}, followed_));
    StoreConfig store;
    store.keep_free = SizeOrShare{.bytes = 0};
    store_ = std::make_unique<StoreService>(
        loop_.io, TaskThread::start("store").value(),
        StoreService::Setup{
            .folder = bench_.snapshots(), .state_dir = bench_.folder, .boot_id = "boot", .config = store},
        [] {});
    config_.record.workers = "1";
    const WaitingClock& used = clock_ ? static_cast<const WaitingClock&>(*clock_) : WaitingClock::monotonic();
    recordings_ = std::make_unique<Recordings>(loop_.io, TaskThread::start("recordings").value(), *bench_.recorder,
                                               *store_, host_, config_, used);
  }
  void TearDown() override {
    hold_.open();
    recordings_.reset();
    store_.reset();
  }
  [[nodiscard]] std::shared_ptr<Recording> rings() const { return small_recording(kBusy, {}, {}, ring_bytes_); }

  void record(RecordCall& call, RecordParameters parameters = {}) {
    recordings_->record(caller_, std::move(parameters),
                        {.client = call.client,
                         .step =
                             [&call](const std::string& id, const std::optional<RecordProgress>& progress) {
                               call.steps.push_back({.id = id, .progress = progress});
                             }},
                        [&call](CallResult<std::string> got) {
                          EXPECT_FALSE(call.answer) << "answered twice";
                          call.answer = std::move(got);
                        });
  }
  // For an hour.
  void record_for(const std::string& trigger, TriggersCall& call, EventTime since_ns = monotonic_now()) {
    recordings_->record(
        {.trigger = trigger, .reason = "cpu.busy 99 %", .since_ns = since_ns, .for_ns = 3600 * kSecondNs},
        [&call](const std::string& id) { call.begun.push_back(id); },
        [&call](CallResult<std::string> got) {
          EXPECT_FALSE(call.answer) << "answered twice";
          call.answer = std::move(got);
        });
  }
  void begin(RecordCall& call, RecordParameters parameters = {}) {
    record(call, std::move(parameters));
    ASSERT_TRUE(loop_.until([&] { return !call.steps.empty() || call.answer; }));
    ASSERT_FALSE(call.answer) << call.error();
    EXPECT_FALSE(call.steps.front().progress) << "first the id";
  }
  RecordResult stop(RecordCall& call) {
    std::optional<CallResult<std::string>> stopped;
    recordings_->stop(call.steps.front().id, [&](CallResult<std::string> got) { stopped = std::move(got); });
    EXPECT_TRUE(loop_.until([&] { return call.answer && stopped; }));
    EXPECT_TRUE(stopped && *stopped && call.answer && *call.answer && **stopped == **call.answer)
        << "both get the same result";
    return call.result();
  }
  [[nodiscard]] std::vector<std::string> files(std::string_view suffix) const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(bench_.snapshots()))
      if (const std::string name = entry.path().filename(); name.ends_with(suffix)) out.push_back(name);
    return out;
  }
  // The size of the data that is not in the store yet.
  [[nodiscard]] std::uint64_t open_bytes() const {
    std::uint64_t bytes = 0;
    for (const std::string& name : files("")) {
      const auto part = parse_part_file(name);
      if (!part || part->kind != PartFileKind::data) continue;
      std::error_code gone;
      if (const auto size = std::filesystem::file_size(bench_.snapshots() + "/" + name, gone); !gone) bytes += size;
    }
    return bytes;
  }
  // Causes page faults until so much more of them is written.
  void fill(const RecordCall& call, std::uint64_t bytes) {
    const std::uint64_t before = open_bytes();
    ASSERT_TRUE(loop_.until([&] {
      fault(400);
      return call.answer || open_bytes() >= before + bytes;
    }));
    ASSERT_FALSE(call.answer) << call.error();
  }
  static Sidecar sidecar_of(const std::string& data_path) {
    const std::string path = data_path.substr(0, data_path.size() - kDataSuffix.size()) + std::string(kSidecarSuffix);
    const auto text = read_file(path);
    auto sidecar = text ? parse_sidecar(*text) : Result<Sidecar>(propagate(text.error()));
    EXPECT_TRUE(sidecar) << sidecar.error().what;
    return sidecar ? std::move(*sidecar) : Sidecar();
  }
  static std::uint64_t samples_in(const std::string& path) {
    std::uint64_t samples = 0;
    const auto reader = FileReader::open(path);
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return 0;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          samples += load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE ? 1 : 0;
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    return samples;
  }

  // Those of this process, or only of its first thread, which runs the tests.
  static std::uint64_t own_samples_in(const std::string& path, bool first_thread = false) {
    const auto reader = FileReader::open(path);
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return 0;
    const auto is_faults = [](const auto& event) { return event.name.find(kBusy) != std::string::npos; };
    const auto faults = std::find_if(reader->events().begin(), reader->events().end(), is_faults);
    EXPECT_NE(faults, reader->events().end());
    if (faults == reader->events().end()) return 0;
    // header, then what perf_event_open(2) says: id, ip, pid, tid.
    const std::uint64_t type = faults->attr.sample_type;
    EXPECT_NE(type & PERF_SAMPLE_TID, 0U);
    const std::size_t at = sizeof(perf_event_header) + ((type & PERF_SAMPLE_IDENTIFIER) != 0 ? 8U : 0U) +
                           ((type & PERF_SAMPLE_IP) != 0 ? 8U : 0U);
    const auto self = static_cast<std::uint32_t>(::getpid());
    std::uint64_t samples = 0;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          if (load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return {};
          if (load<std::uint32_t>(record.data() + at) != self) return {};
          if (!first_thread || load<std::uint32_t>(record.data() + at + 4) == self) ++samples;
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    return samples;
  }

  std::uint64_t ring_bytes_ = 64U << 10U;
  bool followed_ = false;  // as RecorderBench::start
  Loop loop_;
  Gate hold_;  // for the threads of bench_
  RecorderBench bench_;
  std::shared_ptr<Recording> rings_;
  HostFacts host_ = HostFacts::read({"test"});
  Config config_;
  const Caller caller_{.uid = 0, .gid = 0, .pid = ::getpid(), .comm = "unit-daemon", .groups = {}};
  std::unique_ptr<StoreService> store_;
  std::optional<VirtualClock> clock_;  // of the one recording, if the test makes it before SetUp()
  std::unique_ptr<Recordings> recordings_;
};

// Its clock stands until the test advances it: what a recording does once a second, or after its time.
class RecordingTimesTest : public RecordingsTest {
 protected:
  RecordingTimesTest() { clock_.emplace(); }
};

// In rings of this size nothing is overwritten, however many page faults flightd and a sanitizer cause.
class LargeRingsTest : public RecordingsTest {
 protected:
  LargeRingsTest() { ring_bytes_ = 4U << 20U; }
};

}  // namespace flight::test
