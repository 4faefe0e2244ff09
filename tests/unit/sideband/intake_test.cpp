// SPDX-License-Identifier: Apache-2.0
// Records without news are dropped, and one process gets no more than its share.
#include "libcore/sideband/intake.hpp"

#include <gtest/gtest.h>

#include "libcore/sideband/process_tracker.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

std::size_t records_in(std::span<const std::byte> bytes) {
  std::size_t count = 0;
  for (auto record = next_record(bytes); !record.empty(); record = next_record(bytes)) {
    bytes = bytes.subspan(record.size());
    ++count;
  }
  return count;
}

class IntakeTest : public testing::Test {
 protected:
  // The number of the tape's records that are kept.
  std::size_t sift() {
    RecordBuffer records = tape_.take();
    intake_.sift(records, now_);
    return records_in(records);
  }
  // As a thread that toggles mprotect(PROT_EXEC) does it.
  void toggle(int times, std::uint32_t pid = 100) {
    for (int i = 0; i < times; ++i) tape_.map(time_++, pid, 0x10000, 0x1000, "//anon");
  }
  Intake intake_;
  Tape tape_;
  EventTime now_ = 10 * kSecond, time_ = 10 * kSecond;
};

TEST_F(IntakeTest, ARepeatedMappingIsDropped) {
  toggle(100'000);
  EXPECT_EQ(sift(), Intake::kRepeats);
  EXPECT_EQ(intake_.repeated(), 100'000 - Intake::kRepeats);
  now_ += kSecond / 2;
  toggle(1000);
  EXPECT_EQ(sift(), 0U);
  EXPECT_TRUE(intake_.floods().empty());
}

TEST_F(IntakeTest, DifferentMappingsAreKept) {
  toggle(1000);
  tape_.map(time_++, 100, 0x10000, 0x2000, "//anon");  // longer
  toggle(1);                                           // over the previous one
  tape_.map(time_++, 100, 0x10000, 0x1000, "/lib/x");  // of another file
  toggle(1);
  tape_.map(time_++, 101, 0x10000, 0x1000, "//anon");  // of another process
  EXPECT_EQ(sift(), Intake::kRepeats + 5);
}

TEST_F(IntakeTest, AnExecAndAnotherLifeBeginAnew) {
  toggle(1000);
  tape_.exec(time_++, 100, "other");
  toggle(1);
  EXPECT_EQ(sift(), Intake::kRepeats + 2);
  toggle(1000);
  tape_.exit(time_++, 100);
  tape_.fork(time_++, 1, 100);
  toggle(1);
  EXPECT_EQ(sift(), Intake::kRepeats - 1 + 3);
  toggle(1000);
  tape_.thread(time_++, 100, 120);  // only a thread
  toggle(1);
  EXPECT_EQ(sift(), Intake::kRepeats - 1 + 1);
}

TEST_F(IntakeTest, OrdinaryRecordsPassWholeAndInOrder) {
  Tape expected;
  for (Tape* tape : {&tape_, &expected}) {
    tape->fork(1, 1, 100);
    tape->exec(2, 100, "sh");
    tape->map(3, 100, 0x1000, 0x1000, "/bin/sh");
    tape->map(4, 100, 0x8000, 0x1000, "/lib/libc.so");
    tape->cgroup(5, 9, "/x");
    tape->exit(7, 100);
  }
  RecordBuffer records = tape_.take();
  intake_.sift(records, now_);
  EXPECT_EQ(records, expected.bytes());
}

// The dropped records were intact: the gap begins after them.
TEST_F(IntakeTest, ALossBeginsAtTheRecordBeforeIt) {
  toggle(1000);
  const EventTime last = time_ - 1;
  tape_.lost(time_ + kSecond, 5);
  RecordBuffer records = tape_.take();
  intake_.sift(records, now_);
  ProcessTracker tracker;
  tracker.add(records);
  ASSERT_EQ(tracker.gaps().size(), 1U);
  EXPECT_EQ(tracker.gaps()[0].begin_ns, last);
  EXPECT_EQ(tracker.gaps()[0].end_ns, time_ + kSecond);
  EXPECT_EQ(tracker.gaps()[0].lost, 5U);
  EXPECT_EQ(intake_.last_of(0), time_ + kSecond);
  EXPECT_EQ(intake_.last_of(1), 0U);
}

TEST_F(IntakeTest, NoProcessGetsMoreThanItsMeasureAndTheOthersLoseNothing) {
  for (std::uint64_t i = 0; i < 60'000; ++i)
    tape_.map(time_++, 100, 0x10000 + i % 7 * 0x1000, 0x2000 + i % 5 * 0x1000, "//anon");
  for (std::uint64_t i = 0; i < 500; ++i) tape_.map(time_++, 200, i * 0x4000, 0x1000, "/lib/l" + std::to_string(i));
  const std::size_t left = sift();
  EXPECT_LE(left, Intake::kFreeMaps + 500);
  EXPECT_GT(left, 500U);
  ASSERT_EQ(intake_.floods().size(), 1U);
  EXPECT_EQ(intake_.floods()[0].pid, 100U);
  EXPECT_EQ(intake_.floods()[0].left_out + left + intake_.repeated(), 60'500U);
  now_ += kSecond;
  for (std::uint64_t i = 0; i < 60'000; ++i)
    tape_.map(time_++, 100, 0x10000 + i % 7 * 0x1000, 0x2000 + i % 5 * 0x1000, "//anon");
  EXPECT_LE(sift(), Intake::kMapsPerSecond + 1);
}

TEST_F(IntakeTest, TheLoudestIsTheOneThatForks) {
  EXPECT_EQ(intake_.loudest().pid, 0U);
  tape_.fork(time_++, 1, 500);
  for (std::uint32_t pid = 1000; pid < 2000; ++pid) {
    tape_.fork(time_++, pid % 2 == 0 ? 500 : pid - 1, pid);  // every second one is forked by the previous one
    tape_.exec(time_++, pid, "true");
    tape_.exit(time_++, pid);
  }
  for (int i = 0; i < 100; ++i) tape_.comm(time_++, 77, 77, "noise");
  (void)sift();
  const auto loudest = intake_.loudest();
  EXPECT_EQ(loudest.pid, 1U) << "its starter is as young as they are";
  now_ += kSecond;
  (void)sift();
  now_ += kSecond;
  (void)sift();
  EXPECT_EQ(intake_.loudest().pid, 0U) << "long ago";
}

}  // namespace
}  // namespace flight
