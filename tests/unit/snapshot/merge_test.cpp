// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/merge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

EventTime time_of(std::span<const std::byte> record) { return parse_trailer(record)->time_ns; }

TEST(Merge, AllSourcesComeOutInTimeOrderAndNothingIsLost) {
  const EventTable events = made_events(4);
  std::mt19937_64 random(42);
  std::vector<MadeRing> rings(3);
  std::vector<EventTime> expected;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    std::vector<EventTime> times;
    for (int i = 0; i < 300; ++i) times.push_back(1000 + random() % 5000);
    std::sort(times.begin(), times.end());
    expected.insert(expected.end(), times.begin(), times.end());
    for (const EventTime time : times) rings[id - 1].add_comm(time, id);
  }
  RecordBuffer log;
  for (EventTime time = 1000; time < 6000; time += 50) {
    append_comm(log, {.pid = 1, .tid = 1, .name = "log"}, {.time_ns = time, .id = 4});
    expected.push_back(time);
  }
  std::sort(expected.begin(), expected.end());

  Selection selection;
  for (const MadeRing& ring : rings) selection.rings.push_back(ring.selection(events));
  std::vector<EventTime> merged;
  const auto result = merge_records(selection, log, [&](std::span<const std::byte> record) -> Result<void> {
    merged.push_back(time_of(record));
    return {};
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(merged, expected);
}

TEST(Merge, AtEqualTimesTheLogComesFirst) {
  MadeRing ring;
  ring.add_comm(500, 1);
  ring.add_comm(500, 1);
  RecordBuffer log;
  append_comm(log, {.pid = 1, .tid = 1, .name = "log"}, {.time_ns = 500, .id = 2});
  Selection selection;
  selection.rings.push_back(ring.selection(made_events(1)));
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
