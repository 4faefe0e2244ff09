// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/gaps.hpp"

#include <algorithm>

namespace flight {
namespace {

void unite(SidebandGap& into, const SidebandGap& gap) {
  into.begin_ns = std::min(into.begin_ns, gap.begin_ns);
  into.end_ns = std::max(into.end_ns, gap.end_ns);
  into.lost += gap.lost;
  into.full |= gap.full;
  into.unsure += gap.unsure;
  if (!gap.who.empty()) into.who = gap.who;
}

}  // namespace

void Gaps::add(SidebandGap gap) {
  gap.end_ns = std::max(gap.begin_ns, gap.end_ns);
  const auto empty = [](const SidebandGap& one) { return one.begin_ns == one.end_ns && one.lost == 0 && !one.full; };
  if (!pending_ || empty(*pending_))
    pending_ = gap;
  else if (!empty(gap))
    unite(*pending_, gap);
  if (!empty(gap)) add_settled(std::move(gap));
}

void Gaps::add_settled(SidebandGap gap) {
  if (!all_.empty() && gap.begin_ns <= all_.back().end_ns && all_.back().begin_ns <= gap.end_ns)
    return unite(all_.back(), gap);
  const auto place = std::upper_bound(all_.begin(), all_.end(), gap.begin_ns,
                                      [](EventTime time, const SidebandGap& other) { return time < other.begin_ns; });
  all_.insert(place, std::move(gap));
  if (all_.size() <= kMostGaps) return;
  unite(all_[1], all_[0]);
  all_.erase(all_.begin());
}

void Gaps::count(EventTime begin_ns, EventTime end_ns, std::uint64_t lost) {
  for (auto gap = all_.rbegin(); gap != all_.rend(); ++gap) {
    if (gap->begin_ns > end_ns || gap->end_ns < begin_ns) continue;
    gap->lost += lost;
    return;
  }
}

void Gaps::blame(std::string who) {
  if (!all_.empty()) all_.back().who = std::move(who);
}

void Gaps::add_unread(std::uint32_t pid, EventTime begin_ns, EventTime end_ns) {
  if (unread_.left.size() >= kMostUnread) return add({.begin_ns = begin_ns, .end_ns = end_ns, .who = {}});
  unread_.left.insert_or_assign(pid, Unread::Left{.begin_ns = begin_ns, .end_ns = end_ns});
}

void Gaps::settle(EventTime asked_ns, std::uint64_t unsure, Unread unread) {
  const bool new_gap = pending_ && pending_->begin_ns < pending_->end_ns && pending_->begin_ns <= asked_ns;
  tries_ = unread.left.empty() || new_gap ? 0 : tries_ + 1;
  unread_ = std::move(unread);
  if (!pending_) return;
  for (auto gap = all_.rbegin(); gap != all_.rend(); ++gap) {
    if (gap->begin_ns > asked_ns) continue;
    gap->unsure += unsure;
    break;
  }
  if (pending_->end_ns <= asked_ns)
    pending_.reset();
  else
    pending_->begin_ns = std::max(pending_->begin_ns, asked_ns);
}

void Gaps::forget(EventTime before_ns) {
  std::erase_if(all_, [&](const SidebandGap& gap) {
    if (gap.end_ns >= before_ns) return false;
    forgotten_ns_ = std::max(forgotten_ns_, gap.end_ns);
    return true;
  });
}

bool Gaps::between(EventTime from_ns, EventTime to_ns) const {
  return (forgotten_ns_ != 0 && from_ns <= forgotten_ns_) || has_gap(all_, from_ns, to_ns);
}

}  // namespace flight
