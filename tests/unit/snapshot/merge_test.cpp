// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/merge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

// A ring image in memory: records of a sideband-like event (COMM with a trailer), newest at the head.
struct MadeRing {
  std::vector<std::byte> bytes;
  RingSelection selection;
};

MadeRing make_ring(const std::vector<EventTime>& times, std::uint64_t id, const EventTable& events) {
  constexpr std::size_t kBytes = 1U << 16U;
  MadeRing out;
  out.bytes.resize(kBytes);
  std::uint64_t head = 0;
  for (const EventTime time : times) {
    RecordBuffer record;
    append_comm(record, {.pid = 7, .tid = 7, .name = "made"}, {.time_ns = time, .id = id});
    head -= record.size();
    for (std::size_t i = 0; i < record.size(); ++i) out.bytes[(head + i) & (kBytes - 1)] = record[i];
  }
  out.selection.image = {.bytes = out.bytes, .head = head, .valid_bytes = kBytes};
  out.selection.walk = walk_ring(out.selection.image, events);
  out.selection.last = out.selection.walk.records.size();
  return out;
}

EventTime time_of(std::span<const std::byte> record) { return parse_trailer(record)->time_ns; }

TEST(Merge, AllSourcesComeOutInTimeOrderAndNothingIsLost) {
  EventTable events;
  const std::size_t event = events.add_event(kSidebandSampleType);
  for (std::uint64_t id = 1; id <= 4; ++id) events.add_id(id, event);
  std::mt19937_64 random(42);
  std::vector<MadeRing> rings;
  std::vector<EventTime> expected;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    std::vector<EventTime> times;
    for (int i = 0; i < 300; ++i) times.push_back(1000 + random() % 5000);
    std::sort(times.begin(), times.end());
    expected.insert(expected.end(), times.begin(), times.end());
    rings.push_back(make_ring(times, id, events));
    ASSERT_EQ(rings.back().selection.walk.records.size(), times.size());
  }
  RecordBuffer log;
  for (EventTime time = 1000; time < 6000; time += 50) {
    append_comm(log, {.pid = 1, .tid = 1, .name = "log"}, {.time_ns = time, .id = 4});
    expected.push_back(time);
  }
  std::sort(expected.begin(), expected.end());

  Selection selection;
  for (MadeRing& ring : rings) selection.rings.push_back(std::move(ring.selection));
  std::vector<EventTime> merged;
  const auto result = merge_records(selection, log, [&](std::span<const std::byte> record) -> Result<void> {
    merged.push_back(time_of(record));
    return {};
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(merged, expected);
}

TEST(Merge, AtEqualTimesTheLogComesFirst) {
  EventTable events;
  const std::size_t event = events.add_event(kSidebandSampleType);
  events.add_id(1, event);
  MadeRing ring = make_ring({500, 500}, 1, events);
  RecordBuffer log;
  append_comm(log, {.pid = 1, .tid = 1, .name = "log"}, {.time_ns = 500, .id = 2});
  Selection selection;
  selection.rings.push_back(std::move(ring.selection));
  std::vector<std::string> names;
  ASSERT_TRUE(merge_records(selection, log, [&](std::span<const std::byte> record) -> Result<void> {
    names.emplace_back(parse_comm(record)->name);
    return {};
  }));
  EXPECT_EQ(names, (std::vector<std::string>{"log", "made", "made"}));
}

TEST(Merge, TheFirstErrorEndsIt) {
  RecordBuffer log;
  for (EventTime time = 1; time < 10; ++time)
    append_comm(log, {.pid = 1, .tid = 1, .name = "log"}, {.time_ns = time, .id = 2});
  int count = 0;
  const auto result = merge_records(Selection{}, log, [&](std::span<const std::byte>) -> Result<void> {
    if (++count == 3) return fail(std::errc::no_space_on_device, "full");
    return {};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().errno_value(), ENOSPC);
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace flight
