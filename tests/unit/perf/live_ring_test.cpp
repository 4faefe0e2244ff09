// SPDX-License-Identifier: Apache-2.0
// The walk over rings that this kernel has filled, with getpgid(-n) as a counter: the records are complete, in order,
// and end with the last number.
#include "tests/unit/perf/live_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "libcore/base/clock.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {
namespace {

struct Seen {
  WalkResult walk;
  std::vector<int> numbers;  // of the samples, in the walk's order
  std::vector<LostFields> lost;
};

Seen look(const LiveRing& ring) {
  Seen seen;
  const RingImage image = ring.image();
  seen.walk = walk_ring(image, ring.table());
  std::vector<std::byte> scratch(65536);
  for (const RecordRef& ref : seen.walk.records) {
    const auto bytes = record_bytes(image, ref, scratch);
    if (const auto lost = lost_fields(bytes); lost) seen.lost.push_back(*lost);
    if (ref.type != PERF_RECORD_SAMPLE) continue;
    const auto number = number_of(bytes);
    EXPECT_TRUE(number);
    seen.numbers.push_back(number.value_or(0));
  }
  EXPECT_EQ(seen.walk.samples, seen.numbers.size());
  EXPECT_EQ(seen.walk.bad_records, 0U);
  return seen;
}

void expect_consecutive(const std::vector<int>& numbers, int last) {
  ASSERT_FALSE(numbers.empty());
  ASSERT_EQ(numbers.back(), last);
  for (std::size_t i = 1; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], numbers[i - 1] + 1);
}

class LiveRingWalk : public RootTest {
 protected:
  // raw_syscalls:sys_enter of only this thread's counter, into a ring of `bytes`, and optionally a second event.
  void start(std::size_t bytes, const std::string& second = "", bool second_known = true) {
    ring_.emplace(bytes);
    ASSERT_FALSE(HasFailure());
    std::vector<int> fds{ring_->add("raw_syscalls:sys_enter", only_my_calls())};
    if (!second.empty()) fds.push_back(ring_->add(second, only_my_calls(), second_known));
    ASSERT_FALSE(HasFailure());
    for (const int fd : fds) ASSERT_EQ(::ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
  }
  std::optional<LiveRing> ring_;
};

TEST_F(LiveRingWalk, EverythingIsThereInOrder) {
  ASSERT_NO_FATAL_FAILURE(start(1U << 20U));
  const EventTime begin = monotonic_now();
  call_numbers(1, 5000);
  const EventTime end = monotonic_now();
  const auto seen = look(*ring_);
  EXPECT_EQ(seen.numbers.size(), 5000U);
  ASSERT_NO_FATAL_FAILURE(expect_consecutive(seen.numbers, 5000));
  EXPECT_FALSE(seen.walk.wrapped);
  EXPECT_EQ(seen.walk.unknown_ids, 0U);
  EXPECT_GE(seen.walk.records.front().time_ns, begin);
  EXPECT_LE(seen.walk.records.back().time_ns, end);
}

TEST_F(LiveRingWalk, SamplesHaveTaskAndAddress) {
  ASSERT_NO_FATAL_FAILURE(start(64U << 10U));
  call_numbers(1, 10);
  const RingImage image = ring_->image();
  const auto walk = walk_ring(image, ring_->table());
  ASSERT_EQ(walk.records.size(), 10U);
  std::vector<std::byte> scratch(65536);
  for (const RecordRef& ref : walk.records) {
    const auto fields = sample_fields(record_bytes(image, ref, scratch), ring_->table().layout(0));
    ASSERT_TRUE(fields);
    EXPECT_EQ(fields->pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(fields->tid, static_cast<std::uint32_t>(::syscall(SYS_gettid)));
    EXPECT_EQ(fields->cpu, static_cast<std::uint32_t>(ring_->cpu()));
    EXPECT_NE(fields->ip, 0U);
    if (ring_->features().sample_cgroup) {
      EXPECT_NE(fields->cgroup, 0U);
    }
  }
}

// Walks after every few records, so that the head passes many positions of the ring, in many revolutions.
TEST_F(LiveRingWalk, OverwrittenManyTimesItHoldsTheLatest) {
  constexpr std::size_t kBytes = 8U << 10U;
  ASSERT_NO_FATAL_FAILURE(start(kBytes));
  int last = 0;
  bool wrapped = false;
  for (int round = 0; round < 2000; ++round) {
    const int first = last + 1;
    last += 1 + round % 13;
    call_numbers(first, last);
    const auto seen = look(*ring_);
    ASSERT_NO_FATAL_FAILURE(expect_consecutive(seen.numbers, last)) << "round " << round;
    const std::size_t size = seen.walk.records.front().size;
    const auto all = static_cast<std::size_t>(last);
    ASSERT_EQ(seen.numbers.size(), std::min(all, kBytes / size));
    ASSERT_EQ(seen.walk.wrapped, all * size > kBytes);
    ASSERT_EQ(seen.walk.torn_bytes, seen.walk.wrapped ? kBytes % size : 0U);
    wrapped = seen.walk.wrapped;
  }
  EXPECT_TRUE(wrapped);
}

// PERF_RECORD_LOST comes with the first record after the resume, follows it in time order, and has the exact count.
TEST_F(LiveRingWalk, APauseLeavesALostRecordThatIsExact) {
  ASSERT_NO_FATAL_FAILURE(start(1U << 20U));
  call_numbers(1, 1000);
  ring_->pause(true);
  call_numbers(1001, 1077);
  ring_->pause(false);
  EXPECT_TRUE(look(*ring_).lost.empty());
  call_numbers(1078, 1200);
  ring_->pause(true);
  call_numbers(1201, 1205);
  ring_->pause(false);
  call_numbers(1206, 1206);
  const auto seen = look(*ring_);
  ASSERT_EQ(seen.lost.size(), 2U);
  EXPECT_EQ(seen.lost[0].lost, 77U);
  EXPECT_EQ(seen.lost[1].lost, 5U);
  EXPECT_EQ(seen.numbers.size(), 1206U - 82U);
  std::vector<int> gaps;
  for (std::size_t i = 1; i < seen.numbers.size(); ++i)
    if (seen.numbers[i] != seen.numbers[i - 1] + 1) gaps.push_back(seen.numbers[i]);
  EXPECT_EQ(gaps, (std::vector<int>{1078, 1206}));
  EXPECT_EQ(seen.walk.records.back().type, PERF_RECORD_LOST);
  EXPECT_EQ(seen.walk.records.back().time_ns, (seen.walk.records.end() - 2)->time_ns);
}

// The holder of the owner's descriptor can write its own events into the ring. The walk must not take them for
// flightd's.
TEST_F(LiveRingWalk, ForeignEventsAreCountedAndDropped) {
  ASSERT_NO_FATAL_FAILURE(start(1U << 20U, "raw_syscalls:sys_exit", false));
  call_numbers(1, 300);
  const auto seen = look(*ring_);
  ASSERT_NO_FATAL_FAILURE(expect_consecutive(seen.numbers, 300));
  EXPECT_EQ(seen.walk.unknown_ids, 300U);
}

// Two events in one ring, each found by its own id.
TEST_F(LiveRingWalk, EventsShareARing) {
  ASSERT_NO_FATAL_FAILURE(start(1U << 20U, "raw_syscalls:sys_exit"));
  call_numbers(1, 500);
  const RingImage image = ring_->image();
  const auto walk = walk_ring(image, ring_->table());
  ASSERT_EQ(walk.records.size(), 1000U);
  std::vector<std::byte> scratch(65536);
  for (std::size_t i = 0; i < walk.records.size(); ++i) {
    const auto key = record_key(record_bytes(image, walk.records[i], scratch), ring_->table());
    ASSERT_TRUE(key);
    ASSERT_EQ(key->event, i % 2);
  }
}

TEST_F(LiveRingWalk, APeriodLeavesOutAllButEachHundredth) {
  ring_.emplace(1U << 20U);
  ASSERT_FALSE(HasFailure());
  const int fd = ring_->add("raw_syscalls:sys_enter", only_my_calls(), true, {.period = 100});
  ASSERT_FALSE(HasFailure());
  ASSERT_EQ(::ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
  call_numbers(1, 1000);
  const WalkResult walk = walk_ring(ring_->image(), ring_->table());
  EXPECT_EQ(walk.samples, 10U);
  EXPECT_EQ(walk.bad_records, 0U);
}

}  // namespace
}  // namespace flight::test
