// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/labelled_stacks.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace flight {
namespace {

CountedSample sample_at(std::uint32_t node, std::uint32_t pid, std::uint32_t tid = 1, std::uint32_t cpu = 0) {
  return {.cpu = cpu, .pid = pid, .tid = tid, .node = node, .process = pid + 100, .weight = 10};
}

TEST(LabelledStacks, AddsUpWhatHasTheSameLabels) {
  LabelledStacks stacks({});
  for (const std::uint32_t tid : {1U, 2U, 3U}) stacks.add(sample_at(5, 7, tid, tid));
  stacks.add(sample_at(6, 7));
  stacks.add(sample_at(5, 8));
  ASSERT_EQ(stacks.stacks().size(), 3U);
  EXPECT_EQ(stacks.stacks()[0].value, (StackValue{.samples = 3, .weight = 30}));
  EXPECT_EQ(stacks.stacks()[0].tid, 0U) << "it was not asked for";
  ASSERT_EQ(stacks.origins().size(), 3U);
  EXPECT_EQ(stacks.origins()[stacks.stacks()[2].origin].pid, 8U);
  EXPECT_EQ(stacks.origins()[stacks.stacks()[2].origin].process, 108U);
}

TEST(LabelledStacks, ExtraLabelsSplitStacks) {
  LabelledStacks stacks({.tid = true, .cpu = true});
  for (const std::uint32_t tid : {1U, 2U, 1U}) stacks.add(sample_at(5, 7, tid, 3));
  stacks.add(sample_at(5, 7, 1, 4));
  ASSERT_EQ(stacks.stacks().size(), 3U);
  EXPECT_EQ(stacks.stacks()[0].value.samples, 2U);
  EXPECT_EQ(stacks.stacks()[1].tid, 2U);
  EXPECT_EQ(stacks.stacks()[2].cpu, 4U);
}

TEST(LabelledStacks, SumsAreThoseOfAMap) {
  std::mt19937 random(11);
  LabelledStacks stacks({.tid = true});
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint64_t> expected;
  for (int i = 0; i < 20'000; ++i) {
    const auto node = static_cast<std::uint32_t>(random() % 200), pid = static_cast<std::uint32_t>(random() % 9),
               tid = static_cast<std::uint32_t>(random() % 5);
    stacks.add(sample_at(node, pid, tid));
    ++expected[{node, pid, tid}];
  }
  EXPECT_EQ(stacks.stacks().size(), expected.size());
  for (const LabelledStacks::Stack& stack : stacks.stacks())
    EXPECT_EQ(stack.value.samples, (expected[{stack.node, stacks.origins()[stack.origin].pid, stack.tid}]));
}

// What is too many keeps its stack, not its labels.
TEST(LabelledStacks, IsBounded) {
  LabelledStacks few_stacks({.tid = true}, 10, 1000);
  LabelledStacks few_origins({}, 1000, 10);
  for (std::uint32_t i = 0; i < 100; ++i) {
    few_stacks.add(sample_at(i % 2, 7, i));
    few_origins.add(sample_at(i % 2, i));
  }
  for (const LabelledStacks* stacks : {&few_stacks, &few_origins}) {
    EXPECT_LE(stacks->stacks().size(), 12U);
    EXPECT_LE(stacks->origins().size(), 11U);
    EXPECT_EQ(stacks->without_labels(), 90U);
    StackValue sum;
    for (const LabelledStacks::Stack& stack : stacks->stacks()) sum.add(stack.value);
    EXPECT_EQ(sum, (StackValue{.samples = 100, .weight = 1000}));
  }
  EXPECT_FALSE(few_origins.origins()[few_origins.stacks().back().origin].known);
}

}  // namespace
}  // namespace flight
