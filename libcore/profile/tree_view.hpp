// SPDX-License-Identifier: Apache-2.0
// The rows of a call tree that fit on a page: of all nodes those with the largest values, each below its caller, and
// siblings in the order of their values. A row is a chain of frames: it goes on while one callee has nearly all of its
// value.
//
//   0.94  server > main > work        1 row, 3 frames
//   0.60    read                      below `work`
//   0.30    write
//
// In the order of the difference, the rows are those that changed most. What has changed below a caller may add up to
// nothing, so that the callers of such rows are there, too, whatever they have; and a chain goes on only while its
// frames have the same change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/profile/change.hpp"
#include "libcore/profile/stack_tree.hpp"

namespace flight {

enum class StackOrder : std::uint8_t { all, now, before, difference };

struct TreeViewOrder {
  StackOrder by = StackOrder::all;
  StackScales scales;          // for the difference
  bool without_noise = false;  // of the difference: what is_noise() has not changed
  std::size_t most_rows = 20;  // besides the root's
};

struct TreeRow {
  std::size_t depth = 0;              // of rows; 0: the root's
  std::vector<std::uint32_t> frames;  // the outermost first; none: the root's
  StackValues total;                  // of the first frame, with all that is below it
};

struct TreeView {
  std::vector<TreeRow> rows;  // as they are printed; the first is the root's
  std::size_t left_out = 0;   // rows with a value that would follow, and small callees of a chain's frames
};

inline constexpr double kWholeShare = 0.95;  // "nearly all"

[[nodiscard]] TreeView view_of(const StackTree& tree, std::uint32_t root, const TreeViewOrder& order);

// The same samples from the inside: below the root the functions that ran, below them their callers, and the thread
// last. `root` becomes that of the new tree.
[[nodiscard]] StackTree inverted(const StackTree& tree, std::uint32_t& root);

}  // namespace flight
