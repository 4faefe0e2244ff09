// SPDX-License-Identifier: Apache-2.0
// The one place that reports events inside flightd. Each event goes once to each receiver:
//
//   snapshots, triggers, recorder, broker ──▶ EventHub ─┬─▶ clients of Monitor
//                                                       ├─▶ journal
//                                                       └─▶ the line in `systemctl status`
//
// Event loop only; nothing here waits.
#pragma once

#include <functional>
#include <string>

#include "daemon/notify/journal_entries.hpp"
#include "daemon/notify/monitor_clients.hpp"
#include "libcore/store/sidecar.hpp"
#include "libcore/trigger/decision.hpp"

namespace flight::daemon {

class EventHub {
 public:
  // Both are called on the event loop and must not wait. `status_changed`: the status line may have changed.
  EventHub(std::function<void(JournalEntry)> journal, std::function<void()> status_changed)
      : journal_(std::move(journal)), status_changed_(std::move(status_changed)) {}
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  // Monitor: sends events from now on; the first is `monitoring`, with the current state. `disk_trouble`: empty if
  // there is none.
  void listen(ControlBackend::Listener client, const std::string& disk_trouble, bool recording);

  void snapshot_begun(const std::string& trigger);
  // `disk_recovered`: the snapshots before this one could not be written.
  void snapshot_finished(const Sidecar& sidecar, bool disk_recovered);
  struct SnapshotFailure {
    std::string what;
    bool broker_gone = false;
    std::string new_disk_trouble;  // empty: the disk has no new problem
  };
  void snapshot_failed(const SnapshotFailure& failure);
  // At start: STATE cannot be used, and what follows from that. Later: it can.
  void store_missing(const std::string& message);
  void store_opened(const std::string& folder);

  void trigger_fired(const std::string& trigger, const std::string& reason);
  // After the snapshot of the last firing that max_per_day allows.
  void trigger_blind(const Blind& blind) { journal_(blind_entry(blind)); }
  // Once per window: as long as the limit holds, at least a minute and at most an hour.
  void triggers_suppressed(const SuppressedWindow& window);

  // `who`: for display, "flightctl (pid 12, uid 0)".
  void recording_switched(bool recording, const std::string& who);
  void reloaded(const std::string& who);
  // `message` says how flightd continues.
  void broker_lost(const std::string& message);
  void broker_recovered(const std::string& message);
  // Any other change that the status line shows.
  void status_changed() { status_changed_(); }

 private:
  MonitorClients clients_;
  std::function<void(JournalEntry)> journal_;
  std::function<void()> status_changed_;
};

}  // namespace flight::daemon
