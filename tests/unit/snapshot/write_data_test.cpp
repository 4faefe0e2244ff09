// SPDX-License-Identifier: Apache-2.0
// The records of rings in a data directory: each of them once, in one of its files, also where it is written again.
#include "libcore/snapshot/write_data.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perfdata/reader.hpp"
#include "tests/unit/snapshot/made_recording.hpp"

namespace flight {
namespace {

constexpr std::size_t kBareFiles = 2;

class WriteDataTest : public testing::Test {
 protected:
  using Numbers = std::vector<std::pair<std::uint32_t, std::uint64_t>>;  // the CPU and the number of each sample

  void SetUp() override {
    std::string name = "/tmp/flight-write-data-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    output_.data = file(std::string(kMainDataFile));
    for (std::size_t i = 0; i < kBareFiles; ++i) output_.more.push_back(file(bare_data_file(i)));
    append_comm(sideband_.prologue, {.pid = 1000, .tid = 1000, .name = "made"}, {});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] UniqueFd file(const std::string& name) const {
    return open_file(folder_ + "/" + name, O_RDWR | O_CREAT | O_EXCL, 0640).value();
  }
  [[nodiscard]] std::uint64_t bytes_of(const std::string& name) const {
    return std::filesystem::file_size(folder_ + "/" + name);
  }
  [[nodiscard]] std::uint64_t bytes_of_all() const {
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) sum += entry.file_size();
    return sum;
  }
  Result<void> write(const Selection& selection) {
    const auto staging = Staging::create({}).value();
    const BlackoutLog no_blackouts;
    const RecordingFacts recording{.manifest = made_.manifest,
                                   .channel_rings = made_.channel_rings,
                                   .events = made_.events,
                                   .host = host_,
                                   .kernel = kernel_,
                                   .kallsyms = {}};
    const CaptureFacts capture{
        .staging = staging, .frozen_ns = MadeRecording::kEnd, .blackouts = no_blackouts, .lost = {}};
    const DataToWrite what{.selection = selection,
                           .sideband = sideband_,
                           .kernel_maps = no_maps_,
                           .recording = recording,
                           .capture = capture};
    return write_data(written_, what, order_, output_, *workers_, memory_, [](std::string_view, unsigned) {});
  }
  // Ascending.
  static Numbers numbers_in(const std::string& path) {
    Numbers out;
    const auto reader = FileReader::open(path);
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return out;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          if (load<std::uint32_t>(record.data()) == PERF_RECORD_SAMPLE)
            out.emplace_back(load<std::uint32_t>(record.data() + offsetof(MadeRecording::Sample, cpu)),
                             load<std::uint64_t>(record.data() + offsetof(MadeRecording::Sample, period)));
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    std::sort(out.begin(), out.end());
    return out;
  }
  void expect_each_once(const Selection& selection) const {
    const Numbers numbers = numbers_in(folder_);
    EXPECT_EQ(numbers.size(), selection.samples);
    EXPECT_TRUE(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end()) << "one is there twice";
    EXPECT_EQ(written_.file_bytes, bytes_of_all());
  }

  const std::unique_ptr<WorkerPool> workers_ = WorkerPool::start(2).value();
  StreamMemory memory_ = StreamMemory::create(2, 1).value();
  const MadeRecording made_{2, 4U << 20U};
  const std::vector<KernelMap> no_maps_;
  TrackerExport sideband_;
  HostFacts host_;
  KernelNames kernel_;
  SnapshotOrder order_;
  SnapshotOutput output_;
  WrittenData written_;
  std::string folder_;
};

TEST_F(WriteDataTest, EachSampleIsInOneOfTheFiles) {
  const Selection selection = made_.selection(*workers_);
  ASSERT_GT(selection.samples, 10'000U);
  const auto done = write(selection);
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_TRUE(written_.compressed);
  expect_each_once(selection);
  EXPECT_TRUE(numbers_in(folder_ + "/data").empty());
  const std::uint64_t first = bytes_of("data.0"), second = bytes_of("data.1");
  EXPECT_GT(std::min(first, second), std::max(first, second) / 4) << "a chunk to each in turn";
}

// Another window is tried, and another one: store.max_snapshot.
TEST_F(WriteDataTest, WhatIsTooLargeForAllFilesIsWrittenAgain) {
  const Selection selection = made_.selection(*workers_);
  ASSERT_TRUE(write(selection));
  order_.max_bytes = written_.file_bytes / 2;
  ASSERT_TRUE(empty_data(output_));
  EXPECT_EQ(bytes_of_all(), 0U);
  const auto too_large = write(selection);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().errno_value(), EFBIG) << too_large.error().what;
  EXPECT_LE(bytes_of_all(), order_.max_bytes);
  EXPECT_GT(bytes_of_all(), order_.max_bytes / 2);
  EXPECT_GT(written_.raw_bytes, 0U) << "for the choice of the next window";
  ASSERT_TRUE(empty_data(output_));
  const Selection newest = made_.selection(*workers_, {.begin_ns = MadeRecording::kEnd - 20'000'000});
  ASSERT_GT(newest.samples, 0U);
  const auto done = write(newest);
  ASSERT_TRUE(done) << done.error().what;
  expect_each_once(newest);
}

}  // namespace
}  // namespace flight
