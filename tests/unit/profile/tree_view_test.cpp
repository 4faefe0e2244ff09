// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/tree_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace flight {
namespace {

// Stacks of one event; frames are numbers from 2 on.
class TreeViewTest : public testing::Test {
 protected:
  void add(const std::vector<std::uint32_t>& stack, std::uint64_t now, std::uint64_t before = 0) {
    std::uint32_t node = root_;
    for (const std::uint32_t frame : stack) node = tree_.child(node, frame);
    tree_.add(node, {.all = {.samples = 1, .weight = now + before},
                     .before = {.samples = 1, .weight = before},
                     .now = {.samples = 1, .weight = now}});
  }
  // "  2>3 50": a row below another, its frames, and its weight.
  static std::vector<std::string> texts(const TreeView& view) {
    std::vector<std::string> out;
    for (const TreeRow& row : view.rows) {
      std::string text(2 * row.depth, ' ');
      for (const std::uint32_t frame : row.frames)
        text += std::to_string(frame) + (frame == row.frames.back() ? "" : ">");
      out.push_back(text + " " + std::to_string(row.total.all.weight));
    }
    return out;
  }

  StackTree tree_;
  std::uint32_t root_ = tree_.add_root();
};

TEST_F(TreeViewTest, AChainIsOneRow) {
  add({2, 3, 4, 5}, 60);
  add({2, 3, 4, 6}, 30);
  add({2, 3}, 2);
  add({7}, 8);
  const TreeView view = view_of(tree_, root_, {});
  EXPECT_THAT(texts(view), testing::ElementsAre(" 100", "  2>3>4 92", "    5 60", "    6 30", "  7 8"));
  EXPECT_EQ(view.left_out, 0U);
}

TEST_F(TreeViewTest, TheLargestRowsAreThereWithTheirCallers) {
  add({2, 3}, 50);
  add({2, 4}, 40);
  add({2}, 10);
  add({5, 6}, 30);
  add({5, 7}, 25);
  TreeViewOrder order;
  order.most_rows = 3;
  const TreeView view = view_of(tree_, root_, order);
  EXPECT_THAT(texts(view), testing::ElementsAre(" 155", "  2 100", "    3 50", "  5 55"));
  EXPECT_EQ(view.left_out, 3U) << "4, 6 and 7";
  order.most_rows = 100;
  EXPECT_THAT(texts(view_of(tree_, root_, order)),
              testing::ElementsAre(" 155", "  2 100", "    3 50", "    4 40", "  5 55", "    6 30", "    7 25"));
}

TEST_F(TreeViewTest, InTheOrderThatIsAskedFor) {
  add({2}, 10, 50);
  add({3}, 30, 30);
  add({4}, 15, 0);
  const auto by = [&](StackOrder order) {
    std::string out;
    const TreeView view = view_of(tree_, root_, {.by = order, .scales = {.now = 1, .before = 0.5}});
    for (const TreeRow& row : view.rows)
      for (const std::uint32_t frame : row.frames) out += std::to_string(frame);
    return out;
  };
  EXPECT_EQ(by(StackOrder::all), "234");
  EXPECT_EQ(by(StackOrder::now), "342");
  EXPECT_EQ(by(StackOrder::before), "23") << "what is not there has no row";
  EXPECT_EQ(by(StackOrder::difference), "234") << "15, 15 and 15: in their own order";
}

// What one callee gained another lost: their callers have not changed, and are there all the same.
TEST_F(TreeViewTest, ADifferenceBelowCallersThatHaveNone) {
  add({2, 3, 4}, 60, 10);
  add({2, 3, 5}, 5, 55);
  add({2, 3, 6}, 1, 1);
  add({7}, 10, 9);
  const TreeView view = view_of(tree_, root_, {.by = StackOrder::difference, .most_rows = 3});
  EXPECT_THAT(texts(view), testing::ElementsAre(" 151", "  2>3 132", "    4 70", "    5 60"));
  EXPECT_EQ(view.left_out, 1U) << "7: what has not changed is not counted";
}

// Of 100 more, 96 are in one callee, but the others have changed as well.
TEST_F(TreeViewTest, AChainOfADifferenceHidesNoOtherChange) {
  add({2, 3}, 1096, 1000);
  add({2, 4}, 32, 8);
  add({2, 5}, 0, 20);
  EXPECT_THAT(texts(view_of(tree_, root_, {.by = StackOrder::difference})),
              testing::ElementsAre(" 2156", "  2 2156", "    3 2096", "    4 40", "    5 20"));
}

TEST_F(TreeViewTest, ADifferenceWithoutNoise) {
  const auto rows = [&] {
    return texts(
        view_of(tree_, root_,
                {.by = StackOrder::difference, .scales = {.now = 0.001, .before = 0.001}, .without_noise = true}));
  };
  std::uint32_t node = tree_.child(tree_.child(root_, 2), 3);
  tree_.add(node, {.all = {.samples = 200, .weight = 2000},
                   .before = {.samples = 100, .weight = 1000},
                   .now = {.samples = 100, .weight = 1000}});
  tree_.add(node, {.all = {.samples = 50, .weight = 500}, .before = {}, .now = {.samples = 50, .weight = 500}});
  EXPECT_THAT(rows(), testing::ElementsAre(" 2500")) << "0.5 of 1 and 1.5: four deviations are 0.63";
  tree_.add(node, {.all = {.samples = 50, .weight = 500}, .before = {}, .now = {.samples = 50, .weight = 500}});
  EXPECT_THAT(rows(), testing::ElementsAre(" 3000", "  2>3 3000"));
}

TEST_F(TreeViewTest, SmallCalleesOfAChainAreCounted) {
  add({2, 3}, 97);
  add({2, 4}, 3);
  const TreeView view = view_of(tree_, root_, {});
  EXPECT_THAT(texts(view), testing::ElementsAre(" 100", "  2>3 100"));
  EXPECT_EQ(view.left_out, 1U);
}

TEST_F(TreeViewTest, InvertedHasTheSameSums) {
  add({2, 3, 4}, 60);
  add({5, 4}, 30);
  add({2, 3}, 10);
  std::uint32_t root = root_;
  const StackTree turned = inverted(tree_, root);
  EXPECT_THAT(texts(view_of(turned, root, {})),
              testing::ElementsAre(" 100", "  4 90", "    3>2 60", "    5 30", "  3>2 10"));
  EXPECT_EQ(turned.totals()[0].now.weight, 100U);
}

TEST_F(TreeViewTest, OfNothing) {
  const TreeView view = view_of(tree_, root_, {});
  EXPECT_THAT(texts(view), testing::ElementsAre(" 0"));
  EXPECT_EQ(view.left_out, 0U);
}

// A second event is in the same tree.
TEST_F(TreeViewTest, OfOneEventOnly) {
  add({2}, 10);
  const std::uint32_t other = tree_.add_root();
  tree_.add(tree_.child(other, 3), {.all = {.samples = 1, .weight = 99}, .before = {}, .now = {}});
  EXPECT_THAT(texts(view_of(tree_, root_, {})), testing::ElementsAre(" 10", "  2 10"));
  std::uint32_t root = other;
  const StackTree turned = inverted(tree_, root);
  EXPECT_THAT(texts(view_of(turned, root, {})), testing::ElementsAre(" 99", "  3 99"));
}

}  // namespace
}  // namespace flight
