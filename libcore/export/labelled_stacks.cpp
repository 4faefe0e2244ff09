// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/labelled_stacks.hpp"

namespace flight {
namespace {

constexpr std::size_t kFirstStackSlots = 1024;  // a power of two, as each later number

bool is_same_stack(const LabelledStacks::Stack& a, const LabelledStacks::Stack& b) {
  return a.node == b.node && a.origin == b.origin && a.tid == b.tid && a.cpu == b.cpu;
}

}  // namespace

LabelledStacks::LabelledStacks(const ExtraLabels& labels, std::size_t most_stacks, std::size_t most_origins)
    : labels_(labels), most_stacks_(most_stacks), most_origins_(most_origins), origins_(1), slots_(kFirstStackSlots) {}

void LabelledStacks::add(const CountedSample& sample) {
  Stack stack{.node = sample.node, .origin = origin_of(sample)};
  if (labels_.tid) stack.tid = sample.tid;
  if (labels_.cpu) stack.cpu = sample.cpu;
  const bool is_new = slots_[slot_of(stack)] == 0;
  // A node has one stack without labels, so that their number is bounded, too.
  if (stack.origin == 0 || (is_new && stacks_.size() >= most_stacks_)) {
    stack = Stack{.node = sample.node};
    ++without_labels_;
  }
  value_of(stack).add({.samples = 1, .weight = sample.weight});
}

// 0: there are too many.
std::uint32_t LabelledStacks::origin_of(const CountedSample& sample) {
  const auto key = std::tuple(sample.process, sample.pid, sample.unit, sample.cgroup);
  const auto known = origin_numbers_.find(key);
  if (known != origin_numbers_.end()) return known->second;
  if (origins_.size() > most_origins_) return 0;
  const auto number = static_cast<std::uint32_t>(origins_.size());
  origins_.push_back(
      {.process = sample.process, .pid = sample.pid, .unit = sample.unit, .cgroup = sample.cgroup, .known = true});
  origin_numbers_.emplace(key, number);
  return number;
}

std::size_t LabelledStacks::slot_of(const Stack& stack) const {
  const std::size_t mask = slots_.size() - 1;
  std::uint64_t hash = (std::uint64_t{stack.node} << 32U | stack.origin) * 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 32U) ^ (std::uint64_t{stack.tid} << 32U | stack.cpu)) * 0x9e3779b97f4a7c15U;
  std::size_t at = static_cast<std::size_t>(hash >> 32U) & mask;
  while (slots_[at] != 0 && !is_same_stack(stacks_[slots_[at] - 1], stack)) at = (at + 1) & mask;
  return at;
}

StackValue& LabelledStacks::value_of(const Stack& stack) {
  std::size_t slot = slot_of(stack);
  if (slots_[slot] == 0) {
    if (2 * stacks_.size() >= slots_.size()) {
      grow();
      slot = slot_of(stack);
    }
    stacks_.push_back(stack);
    slots_[slot] = static_cast<std::uint32_t>(stacks_.size());
  }
  return stacks_[slots_[slot] - 1].value;
}

void LabelledStacks::grow() {
  slots_.assign(2 * slots_.size(), 0);
  for (std::uint32_t i = 0; i < stacks_.size(); ++i) slots_[slot_of(stacks_[i])] = i + 1;
}

}  // namespace flight
