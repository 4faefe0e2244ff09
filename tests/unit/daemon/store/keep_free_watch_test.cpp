// SPDX-License-Identifier: Apache-2.0
// When deleting for keep_free has no effect: numbers and times only, no file system.
#include "daemon/store/keep_free_watch.hpp"

#include <gtest/gtest.h>

namespace flight::daemon {
namespace {

using std::chrono::hours;

// `freed_bytes` were deleted for keep_free from a store that used `own_bytes`, when `free_bytes` were free.
KeepFreeWatch::Pass pass_for_keep_free(std::uint64_t free_bytes, std::uint64_t own_bytes, std::uint64_t freed_bytes) {
  return {.free_before_bytes = free_bytes,
          .own_before_bytes = own_bytes,
          .own_after_bytes = own_bytes - freed_bytes,
          .freed_bytes = freed_bytes,
          .for_keep_free = true};
}

TEST(KeepFreeWatchTest, WaitsIfLessThanHalfOfWhatWasDeletedBecameFree) {
  using std::chrono::seconds;
  const KeepFreeWatch::Time start{};
  KeepFreeWatch watch;
  EXPECT_TRUE(watch.may_delete(start, 1000, 500));
  watch.deleted(start, pass_for_keep_free(1000, 500, 60));
  EXPECT_TRUE(watch.may_delete(start + seconds(30), 1000, 440)) << "not judged yet: a file system may release it later";
  watch.deleted(start + seconds(30), pass_for_keep_free(1000, 440, 40));
  EXPECT_TRUE(watch.may_delete(start + seconds(59), 1000, 400));
  EXPECT_FALSE(watch.may_delete(start + seconds(60), 1049, 400)) << "49 of 100";
  EXPECT_TRUE(watch.waits());
  EXPECT_FALSE(watch.may_delete(start + hours(24), 1098, 400)) << "however long it takes";
  EXPECT_TRUE(watch.may_delete(start + hours(24), 1099, 400)) << "it has grown by itself";
  EXPECT_FALSE(watch.waits());
}

TEST(KeepFreeWatchTest, GoesOnIfHalfOfItBecameFree) {
  using std::chrono::seconds;
  const KeepFreeWatch::Time start{};
  KeepFreeWatch watch;
  watch.deleted(start, pass_for_keep_free(1000, 500, 100));
  EXPECT_TRUE(watch.may_delete(start + seconds(60), 1050, 400));
  EXPECT_FALSE(watch.waits());
  watch.deleted(start + seconds(70), pass_for_keep_free(1050, 400, 100));
  EXPECT_FALSE(watch.may_delete(start + seconds(130), 900, 300)) << "others took even more";
}

// In an earlier version keep_free stopped after a minute in which two snapshots were written.
TEST(KeepFreeWatchTest, WhatTheStoreItselfWroteWasFreed) {
  using std::chrono::seconds;
  const KeepFreeWatch::Time start{};
  KeepFreeWatch watch;
  watch.deleted(start, pass_for_keep_free(1000, 500, 100));
  EXPECT_TRUE(watch.may_delete(start + seconds(60), 1000, 500)) << "a snapshot uses what was freed for it";
  // Two within the minute.
  watch.deleted(start + seconds(60), pass_for_keep_free(1000, 500, 100));
  watch.deleted(start + seconds(80), pass_for_keep_free(1000, 500, 100));
  EXPECT_TRUE(watch.may_delete(start + seconds(120), 1000, 500));
  EXPECT_FALSE(watch.waits());
  // The same sizes, but others wrote.
  watch.deleted(start + seconds(120), pass_for_keep_free(1000, 500, 100));
  EXPECT_FALSE(watch.may_delete(start + seconds(180), 1000, 400));
  EXPECT_TRUE(watch.may_delete(start + seconds(240), 1050, 400));
  // The store wrote 100, and others took all that was freed.
  watch.deleted(start + seconds(240), pass_for_keep_free(1000, 500, 100));
  EXPECT_FALSE(watch.may_delete(start + seconds(300), 900, 500));
}

TEST(KeepFreeWatchTest, OtherDeletionsOfTheStoreAreNotWhatOthersTook) {
  using std::chrono::seconds;
  const KeepFreeWatch::Time start{};
  KeepFreeWatch watch;
  watch.deleted(start, {.own_before_bytes = 500, .own_after_bytes = 400, .freed_bytes = 100});
  EXPECT_TRUE(watch.may_delete(start + seconds(60), 0, 400)) << "nothing was deleted for keep_free";
  watch.deleted(start + seconds(60), pass_for_keep_free(1000, 400, 100));
  // 200 go for another limit, but they have another hard link; then a user removes 50.
  watch.deleted(start + seconds(70), {.free_before_bytes = 1100, .own_before_bytes = 300, .own_after_bytes = 100});
  EXPECT_TRUE(watch.may_delete(start + seconds(120), 1150, 50));
  EXPECT_FALSE(watch.waits());
}

// In an earlier version each restart deleted snapshots once more.
TEST(KeepFreeWatchTest, TheNextFlightdWaitsAsWell) {
  using std::chrono::seconds;
  const KeepFreeWatch::Time start{};
  KeepFreeWatch watch;
  EXPECT_EQ(watch.text(), "");
  watch.deleted(start, pass_for_keep_free(1000, 500, 100));
  KeepFreeWatch judges;  // started before the minute was over
  ASSERT_TRUE(judges.restore(watch.text(), start + seconds(10)));
  EXPECT_TRUE(judges.may_delete(start + seconds(69), 1000, 400));
  EXPECT_FALSE(judges.may_delete(start + seconds(70), 1049, 400));
  KeepFreeWatch waits;
  ASSERT_TRUE(waits.restore(judges.text(), start));
  EXPECT_TRUE(waits.waits());
  EXPECT_FALSE(waits.may_delete(start, 1098, 400));
  EXPECT_TRUE(waits.may_delete(start, 1099, 400));
  EXPECT_EQ(waits.text(), "");
}

// In an earlier version a lower keep_free was not kept until so much was free as the higher one had lacked.
TEST(KeepFreeWatchTest, ALowerLimitIsKept) {
  using std::chrono::seconds;
  const KeepFreeWatch::Time start{};
  KeepFreeWatch watch;
  watch.use_limit(2000);
  watch.deleted(start, pass_for_keep_free(1000, 500, 100));
  ASSERT_FALSE(watch.may_delete(start + seconds(60), 1000, 400));
  const std::string text = watch.text();
  watch.use_limit(2000);
  EXPECT_FALSE(watch.may_delete(start + seconds(61), 1049, 400));
  watch.use_limit(1040);
  EXPECT_FALSE(watch.may_delete(start + seconds(62), 1039, 400)) << "it is not reached either";
  EXPECT_TRUE(watch.may_delete(start + seconds(63), 1040, 400));
  EXPECT_FALSE(watch.waits());
  // It was lowered while no flightd ran.
  KeepFreeWatch next;
  ASSERT_TRUE(next.restore(text, start));
  next.use_limit(1000);
  EXPECT_TRUE(next.may_delete(start, 1000, 400));
  KeepFreeWatch same;
  ASSERT_TRUE(same.restore(text, start));
  same.use_limit(2000);
  EXPECT_FALSE(same.may_delete(start, 1049, 400));
}

TEST(KeepFreeWatchTest, ADamagedTextChangesNothing) {
  for (const char* text : {"", "rubbish", "[]", R"({"futile_below_bytes":-1})", R"({"futile_below_bytes":"x"})",
                           R"({"counted_bytes":9223372036854775807})", R"({"own_after_bytes":-9223372036854775808})"}) {
    KeepFreeWatch watch;
    EXPECT_FALSE(watch.restore(text, {})) << text;
    EXPECT_EQ(watch.text(), "") << text;
  }
}

}  // namespace
}  // namespace flight::daemon
