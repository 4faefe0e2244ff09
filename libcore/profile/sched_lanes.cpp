// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sched_lanes.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace flight {
namespace {

std::optional<std::size_t> list_of(SchedState state) {
  switch (state) {
    case SchedState::runnable:
      return 0;
    case SchedState::blocked:
      return 1;
    case SchedState::sleeping:
      return 2;
    case SchedState::running:
    case SchedState::ended:
    case SchedState::unknown:
      break;
  }
  return std::nullopt;
}

}  // namespace

SchedLanes::SchedLanes(const SchedStretch& shown, const SchedLanesOrder& order)
    : order_(order),
      begin_ns_(shown.begin_ns),
      end_ns_(std::max(shown.begin_ns, shown.end_ns)),
      ran_begin_ns_(end_ns_ - std::min<EventTime>(order.ran_ns, end_ns_ - begin_ns_)) {}

void SchedLanes::ran(const SchedRan& one) {
  const EventTime from_ns = std::max(one.begin_ns, ran_begin_ns_), until_ns = std::min(one.end_ns, end_ns_);
  if (from_ns >= until_ns) return;
  ran_.push_back({.begin_ns = from_ns, .end_ns = until_ns, .cpu = one.cpu, .thread = one.thread});
  if (ran_.size() > 2 * order_.most_ran) cut_ran();
}

// Those that end first are left out, and what the others have of that time.
void SchedLanes::cut_ran() {
  if (ran_.size() <= order_.most_ran) return;
  const auto kept = ran_.end() - static_cast<std::ptrdiff_t>(order_.most_ran);
  std::nth_element(ran_.begin(), kept, ran_.end(),
                   [](const SchedRan& a, const SchedRan& b) { return a.end_ns < b.end_ns; });
  for (auto one = ran_.begin(); one != kept; ++one) ran_begin_ns_ = std::max(ran_begin_ns_, one->end_ns);
  std::erase_if(ran_, [this](const SchedRan& one) { return one.end_ns <= ran_begin_ns_; });
  for (SchedRan& one : ran_) one.begin_ns = std::max(one.begin_ns, ran_begin_ns_);
}

void SchedLanes::off(SchedOff one) {
  const auto list = list_of(one.state);
  if (!list || order_.least_off_ns == 0) return;
  one.begin_ns = std::max(one.begin_ns, begin_ns_);
  one.end_ns = std::min(one.end_ns, end_ns_);
  if (one.end_ns <= one.begin_ns || one.end_ns - one.begin_ns < order_.least_off_ns) return;
  if (one.state == SchedState::sleeping && one.end_ns - one.begin_ns > order_.most_asleep_ns) return;
  std::vector<SchedOff>& of_state = off_.at(*list);
  of_state.push_back(one);
  if (of_state.size() > 2 * order_.most_off) cut_off(of_state);
}

void SchedLanes::cut_off(std::vector<SchedOff>& of_state) {
  if (of_state.size() <= order_.most_off) return;
  const auto end = of_state.begin() + static_cast<std::ptrdiff_t>(order_.most_off);
  std::nth_element(of_state.begin(), end, of_state.end(), [](const SchedOff& a, const SchedOff& b) {
    return std::tuple(b.end_ns - b.begin_ns, a.begin_ns, a.thread) <
           std::tuple(a.end_ns - a.begin_ns, b.begin_ns, b.thread);
  });
  left_out_off_ += of_state.size() - order_.most_off;
  of_state.resize(order_.most_off);
}

void SchedLanes::arrange() {
  cut_ran();
  std::sort(ran_.begin(), ran_.end(), [](const SchedRan& a, const SchedRan& b) {
    return std::tuple(a.cpu, a.begin_ns, a.end_ns) < std::tuple(b.cpu, b.begin_ns, b.end_ns);
  });
  for (std::vector<SchedOff>& of_state : off_) {
    cut_off(of_state);
    all_off_.insert(all_off_.end(), of_state.begin(), of_state.end());
    of_state.clear();
  }
  std::sort(all_off_.begin(), all_off_.end(), [](const SchedOff& a, const SchedOff& b) {
    return std::tuple(a.begin_ns, a.thread, a.end_ns) < std::tuple(b.begin_ns, b.thread, b.end_ns);
  });
}

}  // namespace flight
