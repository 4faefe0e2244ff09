// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/frame_table.hpp"

namespace flight {

FrameTable::FrameTable(std::size_t most) : most_(most) {
  for (const StackFrameKind kind : {StackFrameKind::root, StackFrameKind::others})
    frames_.push_back({.kind = kind, .name = 0, .object = 0, .offset = 0});
}

std::uint32_t FrameTable::number_of(const StackFrame& frame) {
  const auto key = std::tuple(frame.kind, frame.name, frame.object, frame.offset);
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return known->second;
  if (frames_.size() >= most_) return kOthers;
  const auto number = static_cast<std::uint32_t>(frames_.size());
  numbers_.emplace(key, number);
  frames_.push_back(frame);
  return number;
}

}  // namespace flight
