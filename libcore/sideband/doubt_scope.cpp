// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/doubt_scope.hpp"

#include <algorithm>

namespace flight {

DoubtScope::DoubtScope(const std::optional<SidebandGap>& gap, const Unread& unread, EventTime asked_ns)
    : unread_(unread), asked_(asked_ns) {
  if (gap && gap->begin_ns <= asked_ns) {
    gap_begin_ = first_ = gap->begin_ns;
    gap_end_ = last_ = std::min(gap->end_ns, asked_ns);
  }
  for (const auto& [pid, left] : unread.left) {
    if (open(pid) == nullptr) continue;
    ++unread_count_;
    first_ = std::min(first_, left.begin_ns);
    last_ = std::max(last_, std::min(left.end_ns, asked_ns));
  }
}

// Null: nothing is missing of it.
const Unread::Left* DoubtScope::open(std::uint32_t pid) const {
  const auto found = unread_.left.find(pid);
  const bool is_open = found != unread_.left.end() && found->second.begin_ns < std::min(found->second.end_ns, asked_);
  return is_open ? &found->second : nullptr;
}

EventTime DoubtScope::begin_ns(std::uint32_t pid) const {
  const Unread::Left* left = open(pid);
  return std::min(left != nullptr ? std::min(gap_begin_, left->begin_ns) : gap_begin_, end_ns(pid));
}

EventTime DoubtScope::end_ns(std::uint32_t pid) const {
  const Unread::Left* left = open(pid);
  return left != nullptr ? std::max(gap_end_, std::min(left->end_ns, asked_)) : gap_end_;
}

}  // namespace flight
