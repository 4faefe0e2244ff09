// SPDX-License-Identifier: Apache-2.0
// The times without recording: it was paused (SetRecording), or there was no broker. Later snapshots report them. Any
// thread.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/recorder/clock_watch.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight::daemon {

class RecordingGaps {
 public:
  explicit RecordingGaps(const ClockWatch& clock) : clock_(clock) {}

  // `now_ns`: before the first event is disabled, or after the last is enabled.
  void pause(EventTime now_ns, std::string who);
  void resume(EventTime now_ns);
  [[nodiscard]] bool paused() const;
  // The broker died at `lost_ns`; the next one has recorded since `back_ns`.
  void without_broker(EventTime lost_ns, EventTime back_ns);
  // When recording was paused; UINT64_MAX: it is not paused.
  [[nodiscard]] EventTime paused_since_ns() const;

  // For the status: since when, by which caller, and how to resume; empty: not paused.
  [[nodiscard]] std::string status_warning() const;
  // For the sidecar of a snapshot with this window: one text per gap in it. Gaps that end before `oldest_ns` are left
  // out: no ring reaches back to them. They are kept: a part of a recording may be older than its rings.
  [[nodiscard]] std::vector<std::string> warnings(EventTime begin_ns, EventTime end_ns, EventTime oldest_ns) const;
  // The pauses that are known, oldest first; one that lasts has no end.
  [[nodiscard]] std::vector<Pause> pauses() const;

 private:
  static constexpr std::size_t kMaxGaps = 64;  // if there are more, the oldest are dropped

  struct Gap {
    EventTime begin_ns = 0, end_ns = 0;
    bool was_paused = false;  // or there was no broker
  };
  void add(Gap gap);
  const ClockWatch& clock_;
  mutable std::mutex mutex_;
  std::deque<Gap> gaps_;
  std::optional<EventTime> paused_ns_;
  std::string who_;
};

}  // namespace flight::daemon
