// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/chunks.hpp"

#include <gtest/gtest.h>

#include "libcore/stream/ring_reader.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::made_sample;

// What a file would have of the records, and how they were packed.
struct Emitted {
  std::vector<std::byte> file, records;
  std::size_t calls = 0, compressed = 0, largest = 0;

  Chunks::Emit take() {
    return [this](const Chunks::Packed& packed) {
      ++calls;
      compressed += packed.head.empty() ? 0 : 1;
      largest = std::max(largest, packed.head.size() + packed.body.size());
      file.insert(file.end(), packed.head.begin(), packed.head.end());
      file.insert(file.end(), packed.body.begin(), packed.body.end());
      records.insert(records.end(), packed.records.begin(), packed.records.end());
    };
  }
};

std::vector<std::byte> expanded_file(std::span<const std::byte> file) {
  std::vector<std::byte> out;
  while (!file.empty()) {
    const auto record = file.first(load<perf_event_header>(file.data()).size);
    if (load<perf_event_header>(record.data()).type == kRecordCompressed) {
      const auto records = expand(record.subspan(sizeof(perf_event_header)), kMaxExpandedBytes);
      EXPECT_TRUE(records) << records.error().what;
      if (records) out.insert(out.end(), records->begin(), records->end());
    } else {
      out.insert(out.end(), record.begin(), record.end());
    }
    file = file.subspan(record.size());
  }
  return out;
}

std::vector<std::byte> fill(Chunks& chunks, std::size_t bytes, std::size_t padding) {
  std::vector<std::byte> all;
  for (std::uint64_t number = 1; all.size() < bytes; ++number) {
    const RecordBuffer record = made_sample(1'000 + number, number, padding);
    if (!chunks.fits(record.size())) break;
    chunks.append(record);
    all.insert(all.end(), record.begin(), record.end());
  }
  return all;
}

TEST(ChunksTest, AChunkIsOneFrameThatExpandsToItsRecords) {
  auto chunks = Chunks::create(1);
  ASSERT_TRUE(chunks) << chunks.error().what;
  chunks->begin();
  EXPECT_EQ(chunks->refused(), "");
  Emitted emitted;
  const auto records = fill(*chunks, 200'000, 0);
  const std::size_t next = chunks->pack(kFirstChunkBytes, emitted.take());
  EXPECT_EQ(chunks->size(), 0U);
  EXPECT_EQ(emitted.calls, 1U);
  EXPECT_EQ(emitted.compressed, 1U);
  EXPECT_EQ(emitted.records, records);
  EXPECT_EQ(expanded_file(emitted.file), records);
  EXPECT_EQ(next, next_chunk_bytes(kFirstChunkBytes, records.size(), emitted.file.size() - sizeof(perf_event_header)));
  EXPECT_LT(chunks->memory_bytes() + RingReader::kMemoryBytes, 4U << 20U);

  Emitted small;
  static_cast<void>(fill(*chunks, 100, 0));
  EXPECT_EQ(chunks->pack(next, small.take()), next) << "a small chunk is no measure";
  Emitted none;
  EXPECT_EQ(chunks->pack(next, none.take()), next);
  EXPECT_EQ(none.calls, 0U);
}

TEST(ChunksTest, AFrameThatDoesNotFitBecomesSeveral) {
  auto chunks = Chunks::create(1);
  ASSERT_TRUE(chunks) << chunks.error().what;
  chunks->begin();
  for (int round = 0; round < 3; ++round) {
    Emitted emitted;
    const auto records = fill(*chunks, kMaxExpandedBytes, 24'000);
    EXPECT_GT(records.size(), kMaxChunkBytes);
    const std::size_t next = chunks->pack(kFirstChunkBytes, emitted.take());
    EXPECT_GT(emitted.compressed, 8U);
    EXPECT_EQ(emitted.compressed, emitted.calls);
    EXPECT_LE(emitted.largest, 65'535U);
    EXPECT_EQ(expanded_file(emitted.file), records);
    EXPECT_LE(next, kFirstChunkBytes);
  }
}

TEST(ChunksTest, WithoutALevelRecordsStayAsTheyAre) {
  auto chunks = Chunks::create(0);
  ASSERT_TRUE(chunks) << chunks.error().what;
  chunks->begin();
  Emitted emitted;
  const auto records = fill(*chunks, 500'000, 0);
  static_cast<void>(chunks->pack(kFirstChunkBytes, emitted.take()));
  EXPECT_EQ(emitted.file, records);
  EXPECT_EQ(emitted.compressed, 0U);
  EXPECT_FALSE(Chunks::create(20)) << "no such level";
}

}  // namespace
}  // namespace flight
