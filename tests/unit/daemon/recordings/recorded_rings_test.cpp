// SPDX-License-Identifier: Apache-2.0
// Which rings a recording reads, and the filter before its file.
#include "daemon/recordings/recorded_rings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/recordings/sample_filter.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "tests/unit/perf/copied_sample.hpp"

namespace flight::daemon {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kCallType = kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW;
constexpr std::uint64_t kCallId = 31, kStackId = 21;

// Two channels whose CPUs are offline, so there are no rings. One event has callchains, and the other has none.
std::shared_ptr<Attached> attached_without_rings(std::uint64_t more_of_stacks = 0, std::uint64_t user_registers = 0) {
  Attachment attachment;
  ManifestEvent event;
  event.attr.sample_type = kSidebandSampleType;
  event.ids = {{1, 0, 0}};
  attachment.manifest.events.push_back(event);
  event.channel = "stacks";
  event.attr.sample_type = kSidebandSampleType | PERF_SAMPLE_CALLCHAIN | more_of_stacks;
  event.attr.sample_regs_user = user_registers;
  event.ids = {{kStackId, 0, 0}};
  attachment.manifest.events.push_back(event);
  event.channel = "calls";
  event.attr.sample_type = kCallType;
  event.ids = {{kCallId, 0, 0}};
  attachment.manifest.events.push_back(event);
  auto attached = Attached::open(std::move(attachment));
  EXPECT_TRUE(attached) << attached.error().what;
  return attached ? std::move(*attached) : nullptr;
}

// IDENTIFIER, IP, TID, TIME, CPU, PERIOD, then RAW: u32 size, bytes.
RecordBuffer call_sample(std::uint64_t number) {
  const std::vector<std::uint64_t> body{kCallId, 0x401000, 7, 1000 + number, 0, 1, 0x1122334400000004};
  perf_event_header header{PERF_RECORD_SAMPLE, 1, static_cast<__u16>(sizeof header + body.size() * 8)};
  RecordBuffer out(header.size);
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, body.data(), body.size() * 8);
  return out;
}

TEST(RecordedRingsTest, AChannelWithoutACpuIsNotAMissingOne) {
  const auto attached = attached_without_rings();
  ASSERT_TRUE(attached);
  const auto offline = RecordedRings::of(attached, {"calls"});
  ASSERT_FALSE(offline);
  EXPECT_EQ(offline.error().errno_value(), ENODATA) << "it may be there later";
  EXPECT_THAT(offline.error().what, HasSubstr("channel 'calls' records no CPU"));
  const auto unknown = RecordedRings::of(attached, {"cal"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().errno_value(), EINVAL);
  EXPECT_THAT(unknown.error().what, HasSubstr("there is no channel 'cal'"));
  const auto all = RecordedRings::of(attached, {});
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().errno_value(), ENODATA);
}

class RunsSink : public StreamSink {
 public:
  struct Seen {
    std::size_t ring = 0;
    std::vector<std::byte> records;
    std::uint64_t events = 0;
    EventTime oldest_ns = 0, newest_ns = 0;
  };
  void records(std::size_t ring, const RecordRun& run) override {
    runs.push_back({.ring = ring,
                    .records = {run.records.begin(), run.records.end()},
                    .events = run.events,
                    .oldest_ns = run.oldest_ns,
                    .newest_ns = run.newest_ns});
  }
  void hole(std::size_t /*ring*/, const Hole& hole) override { lost += hole.events; }
  void end_of_round() override { ++rounds; }

  std::vector<Seen> runs;
  std::uint64_t lost = 0;
  std::size_t rounds = 0;
};

// Each of its samples gets a chain of length zero, 8 bytes: a full run becomes two.
TEST(SampleFilterTest, ARunThatGrowsBecomesSeveral) {
  const auto attached = attached_without_rings();
  ASSERT_TRUE(attached);
  RunsSink last;
  SampleFilter filter(attached, last);
  RecordBuffer records;
  std::uint64_t count = 0;
  for (; records.size() < RecordRun::kBytes; ++count) {
    const RecordBuffer one = call_sample(count);
    records.insert(records.end(), one.begin(), one.end());
  }
  filter.records(2, {.records = records, .events = count, .oldest_ns = 1000, .newest_ns = 1000 + count - 1});
  filter.hole(2, {.events = 5});
  filter.end_of_round();
  ASSERT_EQ(last.runs.size(), 2U);
  std::uint64_t events = 0, next = 0;
  for (const RunsSink::Seen& run : last.runs) {
    EXPECT_EQ(run.ring, 2U);
    EXPECT_LE(run.records.size(), RecordRun::kBytes);
    EXPECT_EQ(run.oldest_ns, 1000U);
    EXPECT_EQ(run.newest_ns, 1000 + count - 1);
    events += run.events;
    std::span<const std::byte> rest = run.records;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      ASSERT_EQ(record.size(), call_sample(0).size() + 8);
      EXPECT_EQ(load<std::uint64_t>(&record[32]), 1000 + next++) << "its time";
    }
  }
  EXPECT_EQ(events, count);
  EXPECT_EQ(next, count);
  EXPECT_EQ(last.lost, 5U);
  EXPECT_EQ(last.rounds, 1U);
}

// A sample whose copies of registers and stack cannot be cut off is left out.
TEST(SampleFilterTest, CopiesOfStacksAreCutOff) {
  const auto attached = attached_without_rings(test::kCopyType, test::kThreeRegisters);
  ASSERT_TRUE(attached);
  RunsSink last;
  SampleFilter filter(attached, last);
  RecordBuffer records;
  for (const std::uint64_t valid_bytes : {std::uint64_t{64}, std::uint64_t{65}, std::uint64_t{0}}) {
    const auto one = test::CopiedSample{.time_ns = 1000, .id = kStackId, .valid_bytes = valid_bytes}.bytes();
    records.insert(records.end(), one.begin(), one.end());
  }
  filter.records(0, {.records = records, .events = 3, .oldest_ns = 1000, .newest_ns = 1000});
  ASSERT_EQ(last.runs.size(), 1U);
  EXPECT_EQ(last.runs[0].events, 2U);
  const std::size_t in_the_ring = records.size() / 3, copies = 8 + 24 + 8 + 64 + 8;
  EXPECT_EQ(last.runs[0].records.size(), 2 * (in_the_ring - copies));
}

}  // namespace
}  // namespace flight::daemon
