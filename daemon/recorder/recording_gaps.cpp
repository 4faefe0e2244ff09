// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/recording_gaps.hpp"

#include <algorithm>
#include <utility>

#include "libcore/base/units.hpp"

namespace flight::daemon {
void RecordingGaps::pause(EventTime now_ns, std::string who) {
  const std::lock_guard lock(mutex_);
  if (paused_ns_) return;
  paused_ns_ = now_ns;
  who_ = std::move(who);
}

void RecordingGaps::resume(EventTime now_ns) {
  const std::lock_guard lock(mutex_);
  if (!paused_ns_) return;
  add({*paused_ns_, now_ns, true});
  paused_ns_.reset();
}

void RecordingGaps::without_broker(EventTime lost_ns, EventTime back_ns) {
  const std::lock_guard lock(mutex_);
  add({lost_ns, back_ns, false});
}

void RecordingGaps::add(Gap gap) {
  gaps_.push_back(gap);
  if (gaps_.size() > kMaxGaps) gaps_.pop_front();
}

EventTime RecordingGaps::paused_since_ns() const {
  const std::lock_guard lock(mutex_);
  return paused_ns_.value_or(UINT64_MAX);
}

bool RecordingGaps::paused() const {
  const std::lock_guard lock(mutex_);
  return paused_ns_.has_value();
}

std::string RecordingGaps::status_warning() const {
  const std::lock_guard lock(mutex_);
  if (!paused_ns_) return "";
  const EventTime now_ns = monotonic_now();
  return fmt::format(
      "recording is paused since {} ({}) by {}: nothing new is recorded; `flightctl resume` or a restart of flightd "
      "resumes it",
      clock_.text_at(*paused_ns_), format_duration(std::chrono::nanoseconds(now_ns - std::min(now_ns, *paused_ns_))),
      who_);
}

std::vector<std::string> RecordingGaps::warnings(EventTime begin_ns, EventTime end_ns, EventTime oldest_ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const Gap& gap : gaps_)
    if (gap.end_ns >= std::max(begin_ns, oldest_ns) && gap.begin_ns <= end_ns)
      out.push_back(fmt::format("{} from {} to {}: nothing of that time is in this snapshot",
                                gap.was_paused ? "recording was paused" : "flightd-broker was gone",
                                clock_.text_at(gap.begin_ns), clock_.text_at(gap.end_ns)));
  if (paused_ns_ && *paused_ns_ <= end_ns)
    out.push_back(
        fmt::format("recording is paused since {}: nothing later is in this snapshot", clock_.text_at(*paused_ns_)));
  return out;
}

std::vector<Pause> RecordingGaps::pauses() const {
  const std::lock_guard lock(mutex_);
  std::vector<Pause> out;
  for (const Gap& gap : gaps_)
    if (gap.was_paused) out.push_back({gap.begin_ns, gap.end_ns});
  if (paused_ns_) out.push_back({.begin_ns = *paused_ns_});
  return out;
}

}  // namespace flight::daemon
