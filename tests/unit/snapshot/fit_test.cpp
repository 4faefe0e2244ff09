// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/fit.hpp"

#include <gtest/gtest.h>

#include "tests/unit/snapshot/made_recording.hpp"

namespace flight {
namespace {

std::size_t records_of(const Selection& selection) {
  std::size_t count = 0;
  for (const RingSelection& ring : selection.rings) count += ring.last - ring.first;
  return count;
}

TEST(Fit, LeavesOutTheOldestPart) {
  const MadeRecording recording(4, 64U << 10U);
  const auto workers_made = WorkerPool::start(1).value();
  WorkerPool& workers = *workers_made;
  const Selection all = recording.selection(workers);
  const std::size_t records = records_of(all);
  ASSERT_GT(records, 500U);
  EXPECT_GT(record_bytes(all), records * 64);
  for (const std::uint64_t tenths : {1, 3, 5, 8, 9, 10}) {
    const auto begin_ns = begin_that_fits(all, tenths, 10);
    ASSERT_TRUE(begin_ns);
    EXPECT_GT(*begin_ns, all.begin_ns);
    const Selection cut = recording.selection(workers, {.begin_ns = *begin_ns});
    EXPECT_LE(records_of(cut), records * std::min<std::uint64_t>(tenths, 7) / 10);
    EXPECT_GE(records_of(cut) + 8, records * std::min<std::uint64_t>(tenths * 8, 69) / 100);
    EXPECT_EQ(cut.end_ns, all.end_ns) << "the newest stays";
  }
}

// Each try needs another window, and the rings are as they were.
TEST(Fit, AnotherWindowIsSelectedFromTheSameWalk) {
  const MadeRecording recording(4, 64U << 10U);
  const auto workers_made = WorkerPool::start(2).value();
  WorkerPool& workers = *workers_made;
  Selection tried = recording.selection(workers);
  const RecordRef* walked = tried.rings[3].walk.records.data();
  const EventTime begin_ns = tried.begin_ns, span_ns = tried.end_ns - tried.begin_ns;
  for (const std::uint64_t tenths : {1, 5, 9, 0}) {
    const WindowRequest window{.begin_ns = begin_ns + span_ns * tenths / 10};
    const Selection expected = recording.selection(workers, window);
    tried = recording.again(tried, workers, window);
    EXPECT_EQ(tried.rings[3].walk.records.data(), walked) << "it was walked once more";
    EXPECT_EQ(tried.begin_ns, expected.begin_ns);
    EXPECT_EQ(tried.end_ns, expected.end_ns);
    EXPECT_EQ(tried.common_begin_ns, expected.common_begin_ns);
    EXPECT_EQ(tried.compared.before_begin_ns, expected.compared.before_begin_ns);
    EXPECT_EQ(tried.compared.now_begin_ns, expected.compared.now_begin_ns);
    EXPECT_EQ(tried.first_sample_ns, expected.first_sample_ns);
    EXPECT_EQ(tried.samples, expected.samples);
    EXPECT_EQ(tried.pids, expected.pids);
    EXPECT_EQ(tried.tids, expected.tids);
    EXPECT_EQ(record_bytes(tried), record_bytes(expected));
    ASSERT_EQ(tried.rings.size(), expected.rings.size());
    for (std::size_t i = 0; i < tried.rings.size(); ++i) {
      const RingSelection &ring = tried.rings[i], &fresh = expected.rings[i];
      EXPECT_EQ(ring.cpu, fresh.cpu);
      EXPECT_EQ(ring.covers_from_ns, fresh.covers_from_ns);
      EXPECT_EQ(ring.first, fresh.first);
      EXPECT_EQ(ring.last, fresh.last);
      EXPECT_EQ(ring.samples, fresh.samples);
      EXPECT_EQ(ring.leaves.size(), fresh.leaves.size());
      EXPECT_EQ(ring.tasks.size(), fresh.tasks.size());
      EXPECT_EQ(ring.sources, fresh.sources);
      EXPECT_EQ(ring.tallies.size(), fresh.tallies.size());
    }
  }
}

TEST(Fit, EachTryIsSmallerUntilNothingIsLeft) {
  const MadeRecording recording(2, 64U << 10U);
  const auto workers_made = WorkerPool::start(1).value();
  WorkerPool& workers = *workers_made;
  WindowRequest window;
  std::size_t before = SIZE_MAX;
  int tries = 0;
  for (;; ++tries) {
    const Selection selection = recording.selection(workers, window);
    ASSERT_LT(records_of(selection), before);
    before = records_of(selection);
    const auto begin_ns = begin_that_fits(selection, 1, 1);  // it fits nearly
    if (!begin_ns) break;
    window.begin_ns = *begin_ns;
    ASSERT_LT(tries, 60);
  }
  EXPECT_LE(before, 1U);
  EXPECT_GT(tries, 5);
  EXPECT_EQ(begin_that_fits(Selection{}, 1, 10), std::nullopt);
}

}  // namespace
}  // namespace flight
