// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/data_stream.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

std::vector<FileEvent> one_event() {
  FileEvent event;
  event.attr.type = PERF_TYPE_SOFTWARE;
  event.attr.size = kStoredAttrBytes;
  event.attr.config = PERF_COUNT_SW_DUMMY;
  event.attr.sample_type = kSidebandSampleType;
  event.name = "dummy";
  event.ids = {1};
  return {event};
}

// Writes `records` through a stream into a memfd and reads them back from the file.
struct RoundTrip {
  std::vector<std::byte> read;
  std::uint64_t rounds = 0, compressed = 0, file_bytes = 0, plain_chunks = 0, raw_bytes = 0;
  bool compresses = false;
  std::string refused;
};

RoundTrip round_trip(std::span<const std::byte> records, int level, std::size_t worker_count,
                     const std::function<void()>& before = {}, const std::function<void()>& after = {}) {
  RoundTrip out;
  const UniqueFd file(::memfd_create("stream", MFD_CLOEXEC));
  auto writer = FileWriter::create(file.get(), one_event());
  EXPECT_TRUE(writer) << writer.error().what;
  const auto workers_made = WorkerPool::start(worker_count).value();
  WorkerPool& workers = *workers_made;
  auto memory = StreamMemory::create(worker_count, 1).value();
  if (before) before();
  {
    DataStream stream(*writer, workers, memory, level);
    for (auto rest = records; !rest.empty();) {
      const auto record = next_record(rest);
      EXPECT_TRUE(stream.append(record));
      rest = rest.subspan(record.size());
    }
    EXPECT_TRUE(stream.round());
    EXPECT_TRUE(stream.close());
    out.raw_bytes = stream.raw_bytes();
    out.plain_chunks = stream.plain_chunks();
    out.compresses = stream.compresses();
    out.refused = stream.refused();
  }
  if (after) after();
  Features features;
  if (level > 0) features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = kMaxExpandedBytes};
  EXPECT_TRUE(writer->finish(features));
  out.file_bytes = writer->file_bytes();

  const auto reader = FileReader::open(fmt::format("/proc/self/fd/{}", file.get()));
  EXPECT_TRUE(reader) << reader.error().what;
  const auto visited = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (load<std::uint32_t>(record.data()) == kRecordFinishedRound) {
          ++out.rounds;
        } else {
          out.read.insert(out.read.end(), record.begin(), record.end());
        }
        return {};
      },
      [&](std::span<const std::byte> frame, std::size_t most) {
        ++out.compressed;
        EXPECT_LE(frame.size(), kMaxCompressedPayload);
        return expand(frame, most);
      });
  EXPECT_TRUE(visited) << visited.error().what;
  EXPECT_EQ(out.raw_bytes, out.read.size() + out.rounds * sizeof(perf_event_header)) << "all that a reader sees";
  return out;
}

std::vector<std::byte> comm_records(std::size_t bytes) {
  std::vector<std::byte> out;
  for (std::uint64_t i = 0; out.size() < bytes; ++i)
    append_comm(out, {.pid = 1, .tid = 2, .name = "worker"}, {.time_ns = 1000 + i, .id = 1});
  return out;
}

// Large records of random bytes: zstd cannot shrink them, so a chunk needs several COMPRESSED records.
std::vector<std::byte> random_records(std::size_t bytes) {
  std::mt19937_64 random(1);
  std::vector<std::byte> out;
  while (out.size() < bytes) {
    const std::size_t at = out.size();
    const std::uint16_t size = 24'000;
    out.resize(at + size);
    const perf_event_header header{.type = PERF_RECORD_SAMPLE, .misc = 0, .size = size};
    std::memcpy(out.data() + at, &header, sizeof header);
    for (std::size_t i = 8; i < size; i += 8) {
      const std::uint64_t value = random();
      std::memcpy(out.data() + at + i, &value, sizeof value);
    }
  }
  return out;
}

TEST(DataStreamTest, WhatGoesInComesOutInOrder) {
  const auto records = comm_records(5U << 20U);
  for (const std::size_t workers : {1U, 2U, 5U}) {
    const RoundTrip result = round_trip(records, 1, workers);
    EXPECT_TRUE(std::equal(records.begin(), records.end(), result.read.begin(), result.read.end()));
    EXPECT_GE(result.rounds, 5U) << "about one for each MiB";
    EXPECT_TRUE(result.compresses);
    EXPECT_GE(result.compressed, records.size() / kMaxExpandedBytes) << "a frame expands to what the file says";
    const std::size_t first_chunks = (2 * workers + 2) / 2;  // 256 KiB instead of 512 until the ratio is known
    EXPECT_LE(result.compressed, 2 * result.rounds + first_chunks)
        << "records of one size shrink much: 512 KiB a frame";
    const RoundTrip again = round_trip(records, 1, workers);
    EXPECT_EQ(result.compressed, again.compressed) << "who was faster changes nothing";
    EXPECT_EQ(result.file_bytes, again.file_bytes);
    EXPECT_LT(result.file_bytes, records.size() / 4);
  }
}

TEST(DataStreamTest, UncompressedIsPlain) {
  const auto records = comm_records(1U << 20U);
  const RoundTrip result = round_trip(records, 0, 2);
  EXPECT_TRUE(std::equal(records.begin(), records.end(), result.read.begin(), result.read.end()));
  EXPECT_EQ(result.compressed, 0U);
  EXPECT_FALSE(result.compresses);
}

TEST(DataStreamTest, WhatCannotBeCompressedIsCutUntilItFits) {
  const auto records = random_records(2U << 20U);
  const RoundTrip result = round_trip(records, 1, 2);
  EXPECT_TRUE(std::equal(records.begin(), records.end(), result.read.begin(), result.read.end()));
}

// ASan and TSan map memory of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// While it lives, no memory is mapped.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit none{.rlim_cur = 1, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &none);
  }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;
  ~NoMoreMemory() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST(DataStreamTest, NoMemoryIsTakenForAStream) {
  const auto small = comm_records(5U << 20U);
  const auto large = random_records(2U << 20U);
  for (const auto& records : {small, large}) {
    std::optional<NoMoreMemory> none;
    const RoundTrip result = round_trip(
        records, 1, 2, [&] { none.emplace(); }, [&] { none.reset(); });
    EXPECT_TRUE(std::equal(records.begin(), records.end(), result.read.begin(), result.read.end()));
    EXPECT_GT(result.compressed, 0U);
    EXPECT_EQ(result.plain_chunks, 0U);
    EXPECT_EQ(result.refused, "");
  }
}

TEST(DataStreamTest, WithoutMemoryForAnotherLevelTheFileIsPlain) {
  const auto records = comm_records(5U << 20U);
  std::optional<NoMoreMemory> none;
  const RoundTrip result = round_trip(
      records, 19, 2, [&] { none.emplace(); }, [&] { none.reset(); });
  EXPECT_TRUE(std::equal(records.begin(), records.end(), result.read.begin(), result.read.end()));
  EXPECT_EQ(result.compressed, 0U);
  EXPECT_THAT(result.refused, testing::HasSubstr("zstd at level 19: mmap of"));
}
#endif

// As the files of a data directory get them.
TEST(DataStreamTest, ASinkGetsTheChunksInTheirOrderWithoutRounds) {
  const auto workers = WorkerPool::start(2).value();
  auto memory = StreamMemory::create(workers->size(), 1).value();
  const auto records = comm_records(8U << 20U);
  std::vector<std::byte> read;
  std::vector<std::uint64_t> numbers;
  const DataStream::Sink sink = [&](std::span<const std::byte> bytes, std::uint64_t chunk) -> Result<void> {
    numbers.push_back(chunk);
    while (!bytes.empty()) {
      const auto header = load<perf_event_header>(bytes.data());
      EXPECT_EQ(header.type, kRecordCompressed);
      const auto some = expand(bytes.subspan(sizeof header, header.size - sizeof header), kMaxExpandedBytes);
      EXPECT_TRUE(some) << some.error().what;
      if (some) read.insert(read.end(), some->begin(), some->end());
      bytes = bytes.subspan(header.size);
    }
    return {};
  };
  DataStream stream(sink, *workers, memory, 1);
  for (std::span<const std::byte> rest(records); !rest.empty();) {
    const auto record = next_record(rest);
    ASSERT_TRUE(stream.append(record));
    rest = rest.subspan(record.size());
  }
  ASSERT_TRUE(stream.round());
  ASSERT_TRUE(stream.close());
  EXPECT_TRUE(read == records);
  EXPECT_EQ(stream.raw_bytes(), records.size());
  ASSERT_GT(numbers.size(), 8U);
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], i);
}

TEST(DataStreamTest, AnErrorOfTheDiskReachesTheMerge) {
  // /dev/full accepts nothing; the writer's first bytes go to a real file.
  const UniqueFd file(::memfd_create("stream", MFD_CLOEXEC));
  auto writer = FileWriter::create(file.get(), one_event());
  ASSERT_TRUE(writer);
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_GE(::dup3(full.get(), file.get(), O_CLOEXEC), 0);
  const auto workers_made = WorkerPool::start(2).value();
  WorkerPool& workers = *workers_made;
  auto memory = StreamMemory::create(workers.size(), 1).value();
  DataStream stream(*writer, workers, memory, 0);
  const auto records = comm_records(8U << 20U);
  Result<void> result;
  for (std::span<const std::byte> rest(records); !rest.empty() && result;) {
    const auto record = next_record(rest);
    result = stream.append(record);
    rest = rest.subspan(record.size());
  }
  ASSERT_FALSE(result) << "8 MiB cannot all have been under way";
  EXPECT_EQ(result.error().errno_value(), ENOSPC);
  EXPECT_EQ(stream.close().error().errno_value(), ENOSPC);
}

}  // namespace
}  // namespace flight
