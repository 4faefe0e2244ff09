// SPDX-License-Identifier: Apache-2.0
// Samples, added up by their stacks:
//
//   0 ─┬─ root of an event ─── task "nginx" ─┬─ main ─── work ─── read     each node: what ended there, not
//      │                                     └─ [others]                    further in
//      └─ root of another event …
//
// Bounded: if there are too many nodes, what would need one more ends in an [others] beside its siblings, so that all
// sums stay right. Nodes have larger numbers than their parents; nothing here recurses, so that a stack may be deep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/profile/frame_table.hpp"

namespace flight {

struct StackValue {
  std::uint64_t samples = 0;
  std::uint64_t weight = 0;  // the sum of the samples' periods, of which perf report shows the shares

  void add(const StackValue& more) {
    samples += more.samples;
    weight += more.weight;
  }
  friend bool operator==(const StackValue&, const StackValue&) = default;
};

// In the whole time, and in the two stretches of it that are compared (SidecarCompared in libcore/store/sidecar.hpp).
struct StackValues {
  StackValue all, before, now;

  void add(const StackValues& more) {
    all.add(more.all);
    before.add(more.before);
    now.add(more.now);
  }
};

struct StackNode {
  std::uint32_t parent = 0;
  std::uint32_t frame = FrameTable::kRoot;
  StackValues self;
};

class StackTree {
 public:
  static constexpr std::size_t kMostNodes = 1U << 19U;  // without [others], of which each node has one at most

  explicit StackTree(std::size_t most_nodes = kMostNodes);

  // A node below 0.
  [[nodiscard]] std::uint32_t add_root();
  // The child with this frame; [others] if it would be one too many. An [others] is its own child.
  [[nodiscard]] std::uint32_t child(std::uint32_t node, std::uint32_t frame);
  void add(std::uint32_t node, const StackValues& values) { nodes_[node].self.add(values); }

  [[nodiscard]] const std::vector<StackNode>& nodes() const { return nodes_; }
  [[nodiscard]] bool is_others(std::uint32_t node) const { return nodes_[node].frame == FrameTable::kOthers; }
  // By node: with all that are below it.
  [[nodiscard]] std::vector<StackValues> totals() const;

 private:
  [[nodiscard]] std::size_t slot_of(std::uint32_t parent, std::uint32_t frame) const;
  [[nodiscard]] std::uint32_t add_node(std::uint32_t parent, std::uint32_t frame);
  void grow();

  std::size_t most_nodes_, counted_ = 0;
  std::vector<StackNode> nodes_;
  std::vector<std::uint32_t> slots_;  // a hash table of the nodes by parent and frame; 0: free
};

}  // namespace flight
