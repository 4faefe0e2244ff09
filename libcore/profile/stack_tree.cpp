// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/stack_tree.hpp"

namespace flight {
namespace {

constexpr std::size_t kFirstSlots = 1024;  // a power of two, as each later number

}  // namespace

StackTree::StackTree(std::size_t most_nodes) : most_nodes_(most_nodes), nodes_(1), slots_(kFirstSlots) {}

std::uint32_t StackTree::add_root() { return add_node(0, FrameTable::kRoot); }

std::uint32_t StackTree::child(std::uint32_t node, std::uint32_t frame) {
  if (is_others(node)) return node;
  std::size_t slot = slot_of(node, frame);
  if (slots_[slot] != 0) return slots_[slot];
  if (frame != FrameTable::kOthers) {
    if (counted_ >= most_nodes_) return child(node, FrameTable::kOthers);
    ++counted_;
  }
  if (2 * nodes_.size() >= slots_.size()) {
    grow();
    slot = slot_of(node, frame);
  }
  const std::uint32_t added = add_node(node, frame);
  slots_[slot] = added;
  return added;
}

std::vector<StackValues> StackTree::totals() const {
  std::vector<StackValues> out(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) out[i] = nodes_[i].self;
  for (std::size_t i = nodes_.size(); i-- > 1;) out[nodes_[i].parent].add(out[i]);
  return out;
}

std::size_t StackTree::slot_of(std::uint32_t parent, std::uint32_t frame) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t hash = (std::uint64_t{parent} << 32U | frame) * 0x9e3779b97f4a7c15U;
  std::size_t at = static_cast<std::size_t>(hash >> 32U) & mask;
  for (; slots_[at] != 0; at = (at + 1) & mask)
    if (const StackNode& node = nodes_[slots_[at]]; node.parent == parent && node.frame == frame) break;
  return at;
}

std::uint32_t StackTree::add_node(std::uint32_t parent, std::uint32_t frame) {
  const auto number = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({.parent = parent, .frame = frame, .self = {}});
  return number;
}

void StackTree::grow() {
  slots_.assign(2 * slots_.size(), 0);
  for (std::uint32_t i = 1; i < nodes_.size(); ++i)
    if (nodes_[i].frame != FrameTable::kRoot) slots_[slot_of(nodes_[i].parent, nodes_[i].frame)] = i;
}

}  // namespace flight
