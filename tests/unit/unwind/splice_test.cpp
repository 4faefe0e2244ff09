// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/splice.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace flight::test {
namespace {

using Chain = std::vector<std::uint64_t>;

// The chain after splicing; addresses below 100 are code.
Chain spliced(Chain ours, const Chain& kernel, UnwindStatus status = UnwindStatus::truncated, std::size_t most = 20) {
  const CodeMap map = CodeMap::create({{0, 100, 0, nullptr, false}});
  Unwound unwound;
  unwound.status = status;
  unwound.frames = static_cast<std::uint32_t>(ours.size());
  const std::size_t before = ours.size();
  ours.resize(most);
  splice(unwound, ours, kernel, map);
  EXPECT_EQ(unwound.status, unwound.frames > before ? UnwindStatus::spliced : status);
  ours.resize(unwound.frames);
  return ours;
}

TEST(Splice, AppendsWhatIsDeeper) {
  EXPECT_EQ(spliced({1, 2, 3, 4}, {1, 3, 4, 5, 6}), (Chain{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(spliced({1, 2, 3, 4}, {1, 9, 4, 5}), (Chain{1, 2, 3, 4, 5}));
  EXPECT_EQ(spliced({1, 2, 3, 4}, {1, 4, 1000, 5}), (Chain{1, 2, 3, 4, 5}));  // garbage
}

TEST(Splice, TakesThePlaceWhereMostAgrees) {
  EXPECT_EQ(spliced({1, 7, 7, 7}, {1, 7, 7, 7, 7, 7, 8}), (Chain{1, 7, 7, 7, 7, 7, 8}));
  EXPECT_EQ(spliced({1, 2, 7, 3, 7}, {1, 2, 7, 3, 7, 5, 3, 7, 8}), (Chain{1, 2, 7, 3, 7, 5, 3, 7, 8}));
  // The kernel's walk has omitted 2, as it omits the caller of a leaf, which is innermost.
  EXPECT_EQ(spliced({1, 2, 7, 7}, {1, 7, 7, 7, 8}), (Chain{1, 2, 7, 7, 7, 8}));
}

TEST(Splice, ChangesNothingElse) {
  EXPECT_EQ(spliced({1, 2, 3}, {1, 4, 5}), (Chain{1, 2, 3}));
  EXPECT_EQ(spliced({1, 2, 3}, {}), (Chain{1, 2, 3}));
  EXPECT_EQ(spliced({1, 2, 3}, {1, 2, 3}), (Chain{1, 2, 3}));
  EXPECT_EQ(spliced({}, {1, 2, 3}), Chain{});
  EXPECT_EQ(spliced({1, 2}, {1, 2, 3}, UnwindStatus::complete), (Chain{1, 2}));
  EXPECT_EQ(spliced({1, 2}, {1, 2, 3}, UnwindStatus::no_file), (Chain{1, 2}));
  EXPECT_EQ(spliced({1, 2}, {1, 2, 3, 4, 5}, UnwindStatus::truncated, 4), (Chain{1, 2, 3, 4}));
}

}  // namespace
}  // namespace flight::test
