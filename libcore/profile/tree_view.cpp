// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/tree_view.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <span>
#include <utility>

namespace flight {
namespace {

// The children of each node.
class Callees {
 public:
  explicit Callees(const std::vector<StackNode>& nodes) : begins_(nodes.size() + 1), all_(nodes.size()) {
    for (std::size_t i = 1; i < nodes.size(); ++i) ++begins_[nodes[i].parent + 1];
    for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
    for (std::uint32_t i = 1; i < nodes.size(); ++i) all_[next[nodes[i].parent]++] = i;
  }
  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t node) const {
    return std::span(all_).subspan(begins_[node], begins_[node + 1] - begins_[node]);
  }

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::uint32_t> all_;
};

struct Candidate {
  double value = 0;
  std::uint32_t node = 0;
  std::size_t caller = 0;  // a row

  // The largest first; of equal ones the one that was there first.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value < b.value : a.node > b.node;
  }
};

class ViewBuilder {
 public:
  ViewBuilder(const StackTree& tree, const TreeViewOrder& order)
      : nodes_(tree.nodes()), order_(order), totals_(tree.totals()), values_(totals_.size()), callees_(tree.nodes()) {
    for (std::size_t i = totals_.size(); i-- > 0;) {
      values_[i] = std::max(values_[i], value_of(totals_[i]));
      // A callee can have changed more than its caller.
      if (double& callers = values_[nodes_[i].parent]; i > 0) callers = std::max(callers, values_[i]);
    }
  }

  [[nodiscard]] TreeView build(std::uint32_t root) {
    rows_.push_back({.depth = 0, .frames = {}, .total = totals_[root]});
    below_.emplace_back();
    push(root, 0);
    while (rows_.size() <= order_.most_rows && !waiting_.empty()) {
      const Candidate next = waiting_.top();
      waiting_.pop();
      add_row(next);
    }
    TreeView out;
    out.left_out = left_out_ + waiting_.size();
    std::vector<std::size_t> open{0};
    while (!open.empty()) {
      const std::size_t row = open.back();
      open.pop_back();
      out.rows.push_back(std::move(rows_[row]));
      open.insert(open.end(), below_[row].rbegin(), below_[row].rend());
    }
    return out;
  }

 private:
  [[nodiscard]] double value_of(const StackValues& total) const {
    switch (order_.by) {
      case StackOrder::now:
        return static_cast<double>(total.now.weight);
      case StackOrder::before:
        return static_cast<double>(total.before.weight);
      case StackOrder::difference:
        return order_.without_noise && is_noise(total, order_.scales) ? 0 : std::abs(change_of(total, order_.scales));
      case StackOrder::all:
        break;
    }
    return static_cast<double>(total.all.weight);
  }

  void push(std::uint32_t node, std::size_t row) {
    for (const std::uint32_t callee : callees_.of(node))
      if (const double value = values_[callee]; value > 0)
        waiting_.push({.value = value, .node = callee, .caller = row});
  }

  // Whether a chain that begins with `first` can go on with this one.
  [[nodiscard]] bool has_nearly_all(std::uint32_t callee, const Candidate& first) const {
    if (order_.by != StackOrder::difference) return values_[callee] >= kWholeShare * first.value;
    const auto is_whole = [](std::uint64_t part, std::uint64_t all) {
      return static_cast<double>(part) >= kWholeShare * static_cast<double>(all);
    };
    const StackValues &all = totals_[first.node], &part = totals_[callee];
    return is_whole(part.now.weight, all.now.weight) && is_whole(part.before.weight, all.before.weight) &&
           std::abs(change_of(all, order_.scales) - change_of(part, order_.scales)) <= (1 - kWholeShare) * first.value;
  }

  // The next frame of a chain; 0: there is none.
  [[nodiscard]] std::uint32_t whole_callee(std::uint32_t node, const Candidate& first) {
    std::uint32_t found = 0;
    std::size_t others = 0;
    double largest = 0;
    for (const std::uint32_t callee : callees_.of(node)) {
      const double value = values_[callee];
      if (found == 0 && has_nearly_all(callee, first)) {
        found = callee;
      } else if (value > 0) {
        ++others;
        largest = std::max(largest, value);
      }
    }
    // Changes of the others may add up to nothing.
    if (order_.by == StackOrder::difference && largest > (1 - kWholeShare) * first.value) return 0;
    if (found != 0) left_out_ += others;
    return found;
  }

  void add_row(const Candidate& next) {
    TreeRow row{.depth = rows_[next.caller].depth + 1, .frames = {}, .total = totals_[next.node]};
    std::uint32_t last = next.node;
    for (std::uint32_t node = last; node != 0; node = whole_callee(node, next)) {
      row.frames.push_back(nodes_[node].frame);
      last = node;
    }
    below_[next.caller].push_back(rows_.size());
    rows_.push_back(std::move(row));
    below_.emplace_back();
    push(last, rows_.size() - 1);
  }

  const std::vector<StackNode>& nodes_;
  const TreeViewOrder& order_;
  std::vector<StackValues> totals_;
  std::vector<double> values_;  // of each node, by the order
  Callees callees_;
  std::vector<TreeRow> rows_;
  std::vector<std::vector<std::size_t>> below_;  // of each row
  std::priority_queue<Candidate> waiting_;
  std::size_t left_out_ = 0;
};

}  // namespace

TreeView view_of(const StackTree& tree, std::uint32_t root, const TreeViewOrder& order) {
  return ViewBuilder(tree, order).build(root);
}

StackTree inverted(const StackTree& tree, std::uint32_t& root) {
  const std::vector<StackNode>& nodes = tree.nodes();
  StackTree out;
  const std::uint32_t begin = out.add_root();
  std::vector<std::uint32_t> path;  // the innermost frame first
  for (std::uint32_t node = 1; node < nodes.size(); ++node) {
    if (nodes[node].self.all.samples == 0) continue;
    path.clear();
    std::uint32_t at = node;
    for (; nodes[at].frame != FrameTable::kRoot; at = nodes[at].parent) path.push_back(nodes[at].frame);
    if (at != root) continue;
    std::uint32_t to = begin;
    for (const std::uint32_t frame : path) to = out.child(to, frame);
    out.add(to, nodes[node].self);
  }
  root = begin;
  return out;
}

}  // namespace flight
