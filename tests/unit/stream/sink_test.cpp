// SPDX-License-Identifier: Apache-2.0
// Filters between the reader and the last sink: they may hold back and replace what a round has.
#include "libcore/stream/sink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/stream/round_builder.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::made_sample;
using test::numbers_of;
using testing::ElementsAre;
using testing::IsEmpty;

// Passes everything on when the round ends.
class HoldingFilter : public StreamSink {
 public:
  explicit HoldingFilter(StreamSink& next) : next_(next) {}
  void records(std::size_t ring, const RecordRun& run) override {
    held_.push_back({.ring = ring, .records = {run.records.begin(), run.records.end()}, .run = run, .hole = {}});
  }
  void hole(std::size_t ring, const Hole& hole) override {
    held_.push_back({.ring = ring, .records = {}, .run = {}, .hole = hole});
  }
  void end_of_round() override {
    for (Held& one : std::exchange(held_, {})) {
      one.run.records = one.records;
      if (one.records.empty())
        next_.hole(one.ring, one.hole);
      else
        next_.records(one.ring, one.run);
    }
    next_.end_of_round();
  }

 private:
  struct Held {
    std::size_t ring = 0;
    std::vector<std::byte> records;
    RecordRun run;
    Hole hole;
  };
  StreamSink& next_;
  std::vector<Held> held_;
};

// Leaves the samples with odd numbers.
class OddFilter : public StreamSink {
 public:
  explicit OddFilter(StreamSink& next) : next_(next) {}
  void records(std::size_t ring, const RecordRun& run) override {
    RecordBuffer left;
    std::uint64_t events = 0;
    std::span<const std::byte> rest = run.records;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      if (numbers_of(record).front() % 2 == 0) continue;
      left.insert(left.end(), record.begin(), record.end());
      ++events;
    }
    next_.records(ring, {.records = left, .events = events, .oldest_ns = run.oldest_ns, .newest_ns = run.newest_ns});
  }
  void hole(std::size_t ring, const Hole& hole) override { next_.hole(ring, hole); }
  void end_of_round() override { next_.end_of_round(); }

 private:
  StreamSink& next_;
};

// The last sink.
class SeenSink : public StreamSink {
 public:
  void records(std::size_t ring, const RecordRun& run) override {
    std::string text = fmt::format("ring {}:", ring);
    for (const std::uint64_t number : numbers_of(run.records)) text += fmt::format(" {}", number);
    seen.push_back(std::move(text));
  }
  void hole(std::size_t ring, const Hole& hole) override {
    seen.push_back(fmt::format("ring {}: {} lost", ring, hole.events));
  }
  void end_of_round() override { seen.emplace_back("end"); }

  std::vector<std::string> seen;
};

const std::vector<MakeFilter>& holding_and_odd() {
  static const std::vector<MakeFilter> makers{
      [](StreamSink& next) -> std::unique_ptr<StreamSink> { return std::make_unique<HoldingFilter>(next); },
      [](StreamSink& next) -> std::unique_ptr<StreamSink> { return std::make_unique<OddFilter>(next); }};
  return makers;
}

void pass(StreamSink& first, std::size_t ring, std::uint64_t first_number, std::uint64_t last_number) {
  RecordBuffer records;
  for (std::uint64_t number = first_number; number <= last_number; ++number) {
    const RecordBuffer one = made_sample(1'000 + number, number);
    records.insert(records.end(), one.begin(), one.end());
  }
  first.records(ring, {.records = records,
                       .events = last_number - first_number + 1,
                       .oldest_ns = 1'000 + first_number,
                       .newest_ns = 1'000 + last_number});
}

TEST(FilterChainTest, WhatLeavesTheLastFilterIsAllThatIsSeen) {
  SeenSink last;
  const FilterChain chain(holding_and_odd(), last);
  for (const char* round : {"the first", "the next"}) {
    SCOPED_TRACE(round);
    pass(chain.first(), 0, 1, 4);
    chain.first().hole(0, {.cause = HoleCause::overwritten, .events = 9});
    pass(chain.first(), 1, 5, 6);
    EXPECT_THAT(last.seen, IsEmpty()) << "the first filter holds it back";
    chain.first().end_of_round();
    EXPECT_THAT(std::exchange(last.seen, {}), ElementsAre("ring 0: 1 3", "ring 0: 9 lost", "ring 1: 5", "end"));
  }
}

TEST(FilterChainTest, ARoundHasWhatAFilterHeldBack) {
  const auto pool = BlockPool::create(64U << 10U).value();
  Chunks chunks = Chunks::create(1).value();
  chunks.begin();
  RoundBuilder builder(chunks, *pool, {{.ring = 3, .cpu = 1}, {.ring = 5, .cpu = 2}});
  const FilterChain chain(holding_and_odd(), builder);
  pass(chain.first(), 0, 1, 100);
  chain.first().hole(0, {.cause = HoleCause::late, .bytes = 48, .events = 1, .from_ns = 1'101, .until_ns = 1'101});
  pass(chain.first(), 1, 1, 3);
  chain.first().end_of_round();
  const std::vector<RingRound> rings = builder.take();
  ASSERT_EQ(rings.size(), 2U);
  EXPECT_EQ(rings[0].ring, 3U);
  std::vector<std::uint64_t> odd;
  for (std::uint64_t number = 1; number < 100; number += 2) odd.push_back(number);
  EXPECT_EQ(numbers_of(rings[0]), odd) << "and so many events are counted";
  ASSERT_EQ(rings[0].holes.size(), 1U);
  EXPECT_THAT(numbers_of(rings[1]), ElementsAre(1U, 3U));
}

}  // namespace
}  // namespace flight
