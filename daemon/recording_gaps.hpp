// SPDX-License-Identifier: Apache-2.0
// When nothing was recorded: it was paused (SetRecording), or there was no broker. So later snapshots can say what is
// missing in them. Any thread.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

class RecordingGaps {
 public:
  // `now_ns`: before the first event was switched off, and after the last was switched on again.
  void pause(EventTime now_ns, std::string who);
  void resume(EventTime now_ns);
  [[nodiscard]] bool paused() const;
  // The broker died at `lost_ns`; the next one records since `back_ns`.
  void without_broker(EventTime lost_ns, EventTime back_ns);
  // Since when it has been paused; UINT64_MAX: it is not.
  [[nodiscard]] EventTime paused_since_ns() const;

  // For the status: since when, by whom, and how to go on; empty: it records.
  [[nodiscard]] std::string status_warning() const;
  // For the sidecar of a snapshot with this window: one text for each gap in it. Gaps that end before `oldest_ns` are
  // forgotten: no ring reaches back to them.
  [[nodiscard]] std::vector<std::string> warnings(EventTime begin_ns, EventTime end_ns, EventTime oldest_ns);

 private:
  static constexpr std::size_t kMaxGaps = 64;  // of more, the oldest are forgotten

  struct Gap {
    EventTime begin_ns = 0, end_ns = 0;
    const char* why = "";
  };
  void add(Gap gap);
  mutable std::mutex mutex_;
  std::deque<Gap> gaps_;
  std::optional<EventTime> paused_ns_;
  std::string who_;
};

}  // namespace flight
