// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/stack_tree.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace flight {
namespace {

constexpr StackValues kOneSample{
    .all = {.samples = 1, .weight = 10}, .before = {}, .now = {.samples = 1, .weight = 10}};

TEST(StackTree, AddsUpWhatHasTheSamePath) {
  StackTree tree;
  const std::uint32_t first = tree.add_root(), second = tree.add_root();
  std::mt19937 random(1);
  std::map<std::vector<std::uint32_t>, std::uint64_t> expected;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::uint32_t> path{i % 2 == 0 ? first : second};
    for (std::size_t depth = random() % 6; depth > 0; --depth)
      path.push_back(static_cast<std::uint32_t>(2 + random() % 5));
    std::uint32_t node = path.front();
    for (std::size_t at = 1; at < path.size(); ++at) node = tree.child(node, path[at]);
    tree.add(node, kOneSample);
    ++expected[path];
  }
  std::map<std::vector<std::uint32_t>, std::uint64_t> found;
  for (std::uint32_t i = 1; i < tree.nodes().size(); ++i) {
    if (tree.nodes()[i].self.all.samples == 0) continue;
    std::vector<std::uint32_t> path;
    std::uint32_t at = i;
    for (; tree.nodes()[at].parent != 0; at = tree.nodes()[at].parent)
      path.insert(path.begin(), tree.nodes()[at].frame);
    path.insert(path.begin(), at);
    EXPECT_TRUE(found.emplace(path, tree.nodes()[i].self.all.samples).second) << "two nodes of one path";
    EXPECT_EQ(tree.nodes()[i].self.now.weight, 10 * tree.nodes()[i].self.all.samples);
  }
  EXPECT_EQ(found, expected);
  const auto totals = tree.totals();
  EXPECT_EQ(totals[first].all.samples, 10'000U);
  EXPECT_EQ(totals[second].all.samples, 10'000U);
  EXPECT_EQ(totals[0].all.weight, 200'000U);
  EXPECT_EQ(totals[0].before.samples, 0U);
  EXPECT_EQ(totals[0].now.samples, 20'000U);
}

// The sums stay right, and no node is lost.
TEST(StackTree, WhatIsTooMuchEndsInOthers) {
  StackTree tree(50);
  const std::uint32_t root = tree.add_root();
  for (std::uint32_t i = 0; i < 1'000'000; ++i) {
    const std::uint32_t outer = tree.child(root, 2 + i % 10);
    tree.add(tree.child(tree.child(outer, 100 + i), 7), kOneSample);
  }
  EXPECT_LE(tree.nodes().size(), 2 + 50 + 50 + 1U);
  const auto totals = tree.totals();
  EXPECT_EQ(totals[root].all.samples, 1'000'000U);
  std::uint64_t others = 0, kept = 0;
  for (std::uint32_t i = 1; i < tree.nodes().size(); ++i) {
    if (tree.is_others(i)) {
      others += tree.nodes()[i].self.all.samples;
      EXPECT_EQ(tree.child(i, 5), i);
    }
    if (tree.nodes()[i].parent != root) continue;
    kept += totals[i].all.samples;
    EXPECT_EQ(totals[i].all.samples, 100'000U) << "the outer frames are all there";
  }
  EXPECT_EQ(kept, 1'000'000U);
  EXPECT_GT(others, 999'900U);
}

TEST(StackTree, AStackOfAMillionFramesIsNoRecursion) {
  StackTree tree(2'000'000);
  std::uint32_t node = tree.add_root();
  for (int i = 0; i < 1'000'000; ++i) node = tree.child(node, 5);
  tree.add(node, kOneSample);
  EXPECT_EQ(tree.totals()[1].all.samples, 1U);
}

TEST(FrameTable, NumbersEachFrameOnce) {
  FrameTable frames(4);
  const StackFrame one{.kind = StackFrameKind::code, .name = 7, .object = 1, .offset = 0x10};
  StackFrame other = one;
  other.object = 2;
  const std::uint32_t first = frames.number_of(one), second = frames.number_of(other);
  EXPECT_EQ(first, 2U);
  EXPECT_EQ(second, 3U);
  EXPECT_EQ(frames.number_of(one), first);
  StackFrame third = one;
  third.offset = 0x20;
  EXPECT_EQ(frames.number_of(third), FrameTable::kOthers) << "there are enough";
  EXPECT_EQ(frames.number_of(other), second);
  EXPECT_EQ(frames.all()[second].object, 2U);
}

}  // namespace
}  // namespace flight
