// SPDX-License-Identifier: Apache-2.0
// What is noted of each record is what the record says.
#include "libcore/snapshot/tally.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <random>

#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kTalliedType = kSidebandSampleType | PERF_SAMPLE_CGROUP;
constexpr std::uint64_t kCounted = 1, kUncounted = 2, kUnreadable = 3;  // ids

// An event for each id. The samples of the last one have a chain that does not fit.
EventTable tallied_events() {
  EventTable events;
  for (const std::uint64_t id : {kCounted, kUncounted}) events.add_id(id, events.add_event(kTalliedType));
  events.add_id(kUnreadable, events.add_event(kTalliedType | PERF_SAMPLE_CALLCHAIN));
  return events;
}

TEST(Tally, NotesTheTaskOfEachSampleInTheWindow) {
  const EventTable events = tallied_events();
  std::mt19937_64 random(7);
  MadeRing made;
  for (EventTime time_ns = 1; time_ns <= 900; ++time_ns) {
    const std::uint64_t id = 1 + random() % 3;
    const auto tid = static_cast<std::uint32_t>(random() % 20);
    const std::uint16_t mode = random() % 2 == 0 ? PERF_RECORD_MISC_USER : PERF_RECORD_MISC_KERNEL;
    if (random() % 10 == 0)
      made.add_comm(time_ns, id);
    else
      made.add_sample(time_ns, tid, id, mode, id == kUnreadable ? 1000 : random() % 3);
  }
  RingSelection ring;
  ring.image = made.image();
  ring.walk = walk_ring(ring.image, events);
  ASSERT_EQ(ring.walk.records.size(), 900U);
  ring.first = 100;
  ring.last = 850;
  tally_records(ring, events, {true, false, true}, {}, false);

  ASSERT_EQ(ring.tasks.size(), 750U);
  RecordScratch scratch;
  std::size_t known = 0, unreadable = 0;
  for (std::size_t i = ring.first; i < ring.last; ++i) {
    const RecordRef& ref = ring.walk.records[i];
    const RingSelection::Task& task = ring.task_of(i);
    const auto record = record_bytes(ring.image, ref, scratch.bytes());
    const auto key = record_key(record, events);
    ASSERT_TRUE(key);
    const auto fields = sample_fields(record, events.layout(key->event));
    unreadable += ref.type == PERF_RECORD_SAMPLE && !fields ? 1 : 0;
    ASSERT_EQ(task.is_known(), fields.has_value()) << i;
    if (!fields) continue;
    ++known;
    EXPECT_EQ(task.tid(), fields->tid);
    ASSERT_LT(task.source(), ring.sources.size());
    EXPECT_EQ(ring.sources[task.source()].pid, fields->pid);
    EXPECT_EQ(ring.sources[task.source()].cgroup, fields->cgroup);
    EXPECT_EQ(task.in_program(), load<perf_event_header>(record.data()).misc == PERF_RECORD_MISC_USER);
    EXPECT_EQ(task.sampled(), key->id == kCounted);
  }
  EXPECT_GT(known, 300U);
  EXPECT_GT(unreadable, 100U);
  EXPECT_EQ(ring.sources.size(), ring.tallies.size());
  std::uint64_t counted = 0;
  for (const auto& [source, tally] : ring.tallies) {
    EXPECT_EQ(ring.sources.at(tally.source), source);
    counted += tally.window.samples;
  }
  EXPECT_EQ(counted, known);
}

}  // namespace
}  // namespace flight
