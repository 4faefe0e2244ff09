// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/clock_watch.hpp"

#include <utility>

namespace flight::daemon {

ClockTriple ClockWatch::look() {
  const ClockTriple now = ClockTriple::now();
  const std::lock_guard lock(mutex_);
  const std::size_t count = history_.look(now);
  const auto added = history_.triples().last(count);
  new_.insert(new_.end(), added.begin(), added.end());
  if (new_.size() > ClockHistory::kMaxTriples) new_.erase(new_.begin());
  return now;
}

void ClockWatch::restore(std::span<const ClockTriple> earlier) {
  const std::lock_guard lock(mutex_);
  history_.restore(earlier);
}

ClockHistory ClockWatch::history() const {
  const std::lock_guard lock(mutex_);
  return history_;
}

std::string ClockWatch::text_at(EventTime time_ns) const {
  const std::lock_guard lock(mutex_);
  return to_rfc3339(history_.wall_at(time_ns));
}

std::vector<ClockTriple> ClockWatch::triples() const {
  const std::lock_guard lock(mutex_);
  const std::span<const ClockTriple> all = history_.triples();
  return {all.begin(), all.end()};
}

std::vector<ClockTriple> ClockWatch::take_new() {
  const std::lock_guard lock(mutex_);
  return std::exchange(new_, {});
}

}  // namespace flight::daemon
