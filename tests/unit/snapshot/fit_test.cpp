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
