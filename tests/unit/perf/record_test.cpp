// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/record.hpp"

#include <gtest/gtest.h>

#include "tests/unit/perf/ring_image.hpp"

namespace flight::test {
namespace {

TEST(RecordLayout, FieldsFollowTheSampleType) {
  const auto layout = RecordLayout::of(kSampleType);
  EXPECT_EQ(layout.ip, 16);
  EXPECT_EQ(layout.tid, 24);
  EXPECT_EQ(layout.time, 32);
  EXPECT_EQ(layout.cpu, 40);
  EXPECT_EQ(layout.trailer_bytes, 32);
  EXPECT_EQ(layout.trailer_tid, 0);
  EXPECT_EQ(layout.trailer_time, 8);
  EXPECT_EQ(layout.trailer_cpu, 16);
  EXPECT_EQ(layout.trailer_id, 24);

  const auto bare = RecordLayout::of(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME);
  EXPECT_EQ(bare.ip, -1);
  EXPECT_EQ(bare.tid, -1);
  EXPECT_EQ(bare.time, 16);
  EXPECT_EQ(bare.cpu, -1);
  EXPECT_EQ(bare.trailer_bytes, 16);
  EXPECT_EQ(bare.trailer_time, 0);
  EXPECT_EQ(bare.trailer_id, 8);

  const auto wide = RecordLayout::of(kSampleType | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID);
  EXPECT_EQ(wide.cpu, 64);
  EXPECT_EQ(wide.trailer_bytes, 48);
  EXPECT_EQ(wide.trailer_cpu, 32);
}

TEST(EventTable, FindsEveryIdAndNoOther) {
  EventTable events;
  const auto first = events.add_event(kSampleType);
  const auto second = events.add_event(kSampleType | PERF_SAMPLE_RAW);
  for (std::uint64_t id = 1000; id > 0; --id) events.add_id(2 * id, id % 2 == 0 ? first : second);
  EXPECT_EQ(events.size(), 2U);
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    ASSERT_EQ(events.find(2 * id), id % 2 == 0 ? first : second);
    ASSERT_EQ(events.find(2 * id + 1), std::nullopt);
  }
  EXPECT_EQ(events.find(0), std::nullopt);
  events.add_id(2, first);
  EXPECT_EQ(events.find(2), first);
}

TEST(RecordKey, OfASampleAtEveryLength) {
  const auto events = one_event();
  const auto whole = sample(123, 1, 64);
  const auto key = record_key(whole, events);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->id, kId);
  EXPECT_EQ(key->time_ns, 123U);
  EXPECT_EQ(key->event, 0U);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(record_key(std::span(whole).first(size), events)) << size;
  EXPECT_FALSE(record_key(sample(123, 1, 64, 5), events));
}

struct FullSample {
  SampleHead head;
  std::uint64_t frames = 2, chain_begin = PERF_CONTEXT_USER, frame = 0x1000;
  std::uint32_t raw_bytes = 12;
  std::array<std::uint8_t, 12> raw{};
  std::uint64_t cgroup = 0xc0ffee;
};

constexpr std::uint64_t kFullType = kSampleType | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_CGROUP;

std::vector<std::byte> full_sample(FullSample record = {}) {
  record.head.header.size = sizeof record;
  record.head.ip = 0xabc;
  record.head.pid = 10;
  record.head.tid = 11;
  record.head.cpu = 3;
  return bytes_of(record);
}

TEST(SampleFields, StepOverStackAndRawToTheCgroup) {
  const auto fields = sample_fields(full_sample(), RecordLayout::of(kFullType));
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->pid, 10U);
  EXPECT_EQ(fields->tid, 11U);
  EXPECT_EQ(fields->cpu, 3U);
  EXPECT_EQ(fields->ip, 0xabcU);
  EXPECT_EQ(fields->cgroup, 0xc0ffeeU);
  EXPECT_EQ(sample_fields(full_sample(), RecordLayout::of(kSampleType))->cgroup, 0U);
}

TEST(SampleFields, RefuseLengthsThatLeaveTheRecord) {
  const auto layout = RecordLayout::of(kFullType);
  for (const std::uint64_t frames : {~std::uint64_t{0}, std::uint64_t{1} << 61U, std::uint64_t{6}, std::uint64_t{5}}) {
    FullSample record;
    record.frames = frames;
    EXPECT_FALSE(sample_fields(full_sample(record), layout)) << frames;
  }
  for (const std::uint32_t raw : {~std::uint32_t{0}, std::uint32_t{16}, std::uint32_t{21}}) {
    FullSample record;
    record.raw_bytes = raw;
    EXPECT_FALSE(sample_fields(full_sample(record), layout)) << raw;
  }
  auto cut = full_sample();
  for (std::size_t size = 8; size < cut.size(); size += 8) {
    const auto claimed = static_cast<std::uint16_t>(size);
    std::memcpy(cut.data() + 6, &claimed, sizeof claimed);
    EXPECT_FALSE(sample_fields(cut, layout)) << size;
  }
}

TEST(SampleCalls, AreTheWeightAndTheChain) {
  FullSample record;
  record.head.period = 1234;
  const auto bytes = full_sample(record);
  const auto calls = sample_calls(bytes, kFullType);
  ASSERT_TRUE(calls);
  EXPECT_EQ(calls->period, 1234U);
  ASSERT_EQ(calls->chain.size(), 16U);
  EXPECT_EQ(load<std::uint64_t>(calls->chain.data()), record.chain_begin);
  EXPECT_EQ(load<std::uint64_t>(calls->chain.data() + 8), 0x1000U);
  const auto without = sample_calls(bytes, kSampleType);
  ASSERT_TRUE(without);
  EXPECT_EQ(without->period, 1234U);
  EXPECT_TRUE(without->chain.empty());
  EXPECT_EQ(sample_calls(bytes, kSampleType & ~std::uint64_t{PERF_SAMPLE_PERIOD})->period, std::nullopt);
  EXPECT_TRUE(sample_calls(bytes, kFullType | PERF_SAMPLE_READ)->chain.empty()) << "where it begins is not known";
}

TEST(SampleCalls, RefuseLengthsThatLeaveTheRecord) {
  for (const std::uint64_t frames :
       {~std::uint64_t{0}, std::uint64_t{1} << 61U, std::uint64_t{1'000'000}, std::uint64_t{6}}) {
    FullSample record;
    record.frames = frames;
    EXPECT_FALSE(sample_calls(full_sample(record), kFullType)) << frames;
  }
  const auto whole = full_sample();
  constexpr std::size_t kChainEnd = sizeof(SampleHead) + 3 * 8;
  for (std::size_t size = 0; size < kChainEnd; ++size) {
    auto cut = whole;
    const auto claimed = static_cast<std::uint16_t>(size);
    std::memcpy(cut.data() + 6, &claimed, sizeof claimed);
    EXPECT_FALSE(sample_calls(cut, kFullType)) << size;
    EXPECT_FALSE(sample_calls(std::span(whole).first(size), kFullType)) << size;
  }
}

TEST(LostFields, OnlyOfLost) {
  struct Lost {
    perf_event_header header{PERF_RECORD_LOST, 0, sizeof(Lost)};
    std::uint64_t id = 5, lost = 6;
  } record;
  const auto lost = lost_fields(bytes_of(record));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->id, 5U);
  EXPECT_EQ(lost->lost, 6U);
  const auto bytes = bytes_of(record);
  EXPECT_FALSE(lost_fields(std::span(bytes).first(16)));
  record.header.type = PERF_RECORD_LOST_SAMPLES;
  EXPECT_FALSE(lost_fields(bytes_of(record)));
}

}  // namespace
}  // namespace flight::test
