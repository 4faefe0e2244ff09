// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/past_names.hpp"

#include <gtest/gtest.h>

#include <string>

#include "libcore/sideband/gaps.hpp"

namespace flight {
namespace {

constexpr EventTime kForever = ~EventTime{0};

// "SINCE:NAME" of each.
std::string timeline(const PastNames& names, std::uint32_t tid, EventTime from_ns, EventTime to_ns, const Comm& last) {
  std::string out;
  for (const PastNames::Since& one : names.of(tid, from_ns, to_ns, last))
    out += (out.empty() ? "" : " ") + std::to_string(one.since_ns) + ":" + std::string(name_of(one.comm));
  return out;
}

class PastNamesTest : public testing::Test {
 protected:
  // Task 7 is a, b, d; task 8 is x, y.
  PastNamesTest() {
    names_.rename(7, 10, seven_, to_comm("b"));
    names_.rename(8, 15, eight_, to_comm("y"));
    names_.rename(7, 30, seven_, to_comm("d"));
  }
  PastNames names_;
  Comm seven_ = to_comm("a"), eight_ = to_comm("x");
};

TEST_F(PastNamesTest, EachTaskHasItsOwn) {
  EXPECT_EQ(timeline(names_, 7, 0, kForever, seven_), "0:a 10:b 30:d");
  EXPECT_EQ(timeline(names_, 8, 0, kForever, eight_), "0:x 15:y");
  EXPECT_EQ(timeline(names_, 9, 5, kForever, to_comm("z")), "5:z");
  EXPECT_EQ(timeline(names_, 7, 12, 25, to_comm("b")), "12:b") << "an image or a thread that ended before the next one";
  EXPECT_EQ(timeline(PastNames(), 7, 12, 25, seven_), "12:d");
}

TEST_F(PastNamesTest, ALateRecordBelongsWhereItsTimeIs) {
  names_.rename(7, 20, seven_, to_comm("c"));
  EXPECT_EQ(name_of(seven_), "d");
  EXPECT_EQ(timeline(names_, 7, 0, kForever, seven_), "0:a 10:b 20:c 30:d");
}

// A task that ended at 25, and another one with its number.
TEST_F(PastNamesTest, ALateRecordOfOneThatEndedIsNotOfTheNext) {
  Comm ended = to_comm("b");
  EXPECT_EQ(name_of(names_.at(7, 20, ended, 25)), "b");
  EXPECT_EQ(name_of(names_.at(7, 5, ended, 25)), "a");
  names_.rename(7, 20, ended, to_comm("c"), 25);
  EXPECT_EQ(name_of(ended), "c");
  EXPECT_EQ(timeline(names_, 7, 0, 25, ended), "0:a 10:b 20:c");
  EXPECT_EQ(timeline(names_, 7, 26, kForever, seven_), "26:b 30:d");
}

TEST_F(PastNamesTest, WhatNoWindowNeedsIsForgotten) {
  const PastNames copy(names_);
  names_.forget(15);
  EXPECT_EQ(names_.count(), 2U);
  EXPECT_EQ(timeline(names_, 7, 15, kForever, seven_), "15:b 30:d");
  names_.forget(31);
  EXPECT_TRUE(names_.empty());
  EXPECT_EQ(names_.bytes(), 0U);
  EXPECT_EQ(timeline(copy, 7, 0, kForever, seven_), "0:a 10:b 30:d") << "a copy is another one";
}

// A later name must not take the place of one that is lost.
TEST_F(PastNamesTest, WhatIsLostIsCalledSo) {
  PastNames all = names_;
  const PastNames::Lost lost = names_.lose(16, 12);
  EXPECT_EQ(lost.count, 1U) << "no window needs the first one";
  EXPECT_EQ(lost.until_ns, 15U);
  const std::string name(kLostName);
  EXPECT_EQ(timeline(names_, 7, 0, kForever, seven_), "0:" + name + " 15:b 30:d");
  EXPECT_EQ(timeline(names_, 8, 0, kForever, eight_), "0:" + name + " 15:y");
  EXPECT_EQ(timeline(names_, 8, 2, 9, eight_), "2:" + name);
  EXPECT_EQ(timeline(names_, 9, 20, kForever, to_comm("z")), "20:z") << "it began later";
  EXPECT_EQ(all.lose(kForever, 0).count, 3U);
  EXPECT_EQ(all.count(), 0U);
  EXPECT_EQ(timeline(all, 7, 0, kForever, seven_), "0:" + name + " 30:d");
  all.forget(31);
  EXPECT_TRUE(all.empty());
}

TEST(PastNames, AreLimited) {
  PastNames names;
  Comm name = to_comm("n0");
  std::uint64_t lost = 0;
  for (std::uint64_t i = 1; i <= 10 * PastNames::kMost; ++i) {
    lost += names.rename(7, i, name, to_comm("n" + std::to_string(i))).count;
    ASSERT_LE(names.count(), PastNames::kMost);
  }
  EXPECT_EQ(lost + names.count(), 10 * PastNames::kMost);
  const auto all = names.of(7, 0, kForever, name);
  ASSERT_GT(all.size(), PastNames::kMost / 2);
  EXPECT_TRUE(is_lost_comm(all[0].comm));
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(name_of(all[i].comm), "n" + std::to_string(all[i].since_ns));
}

}  // namespace
}  // namespace flight
