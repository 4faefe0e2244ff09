// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify/event_hub.hpp"

#include <utility>

#include "daemon/log/log.hpp"
#include "libcore/store/headline.hpp"

namespace flight::daemon {

void EventHub::listen(ControlBackend::Listener client, const std::string& disk_trouble, bool recording) {
  clients_.add(std::move(client), {.event = std::string(kMonitoring), .message = disk_trouble, .recording = recording});
}

void EventHub::snapshot_begun(const std::string& trigger) {
  clients_.publish({.event = std::string(kSnapshotBegun), .trigger = trigger});
}

void EventHub::snapshot_finished(const Sidecar& sidecar, bool disk_recovered) {
  if (disk_recovered) journal_(recovered_entry("disk", "the disk works again: a snapshot was written"));
  journal_(snapshot_entry(sidecar));
  status_changed_();
  clients_.publish({.event = std::string(kSnapshotFinished),
                    .id = sidecar.id,
                    .trigger = sidecar.trigger,
                    .reason = sidecar.reason,
                    .path = sidecar.path,
                    .message = headline(sidecar)});
  if (disk_recovered) clients_.publish({.event = std::string(kRecovered), .message = "snapshots can be written again"});
}

void EventHub::snapshot_failed(const SnapshotFailure& failure) {
  log::error("a snapshot was lost: {}{}", failure.what, failure.broker_gone ? "" : "; recording continues");
  const std::string& trouble = failure.new_disk_trouble;
  if (!trouble.empty())
    journal_(degraded_entry("disk", trouble + "; the disk counts as degraded until a snapshot can be written again"));
  status_changed_();
  clients_.publish({.event = std::string(kSnapshotFailed), .message = failure.what});
  if (!trouble.empty()) clients_.publish({.event = std::string(kDegraded), .message = trouble});
}

void EventHub::store_missing(const std::string& message) { journal_(degraded_entry("disk", message)); }

void EventHub::store_opened(const std::string& folder) {
  const std::string message = fmt::format("{} can be used now", folder);
  journal_(recovered_entry("disk", message));
  status_changed_();
  clients_.publish({.event = std::string(kRecovered), .message = message});
}

void EventHub::trigger_fired(const std::string& trigger, const std::string& reason) {
  clients_.publish({.event = std::string(kTriggerFired), .trigger = trigger, .reason = reason});
}

void EventHub::triggers_suppressed(const SuppressedWindow& window) {
  const JournalEntry entry = suppressed_entry({.trigger = window.trigger,
                                               .count = window.count,
                                               .first = window.first,
                                               .last = window.last,
                                               .by = window.by_text()});
  journal_(entry);
  clients_.publish({.event = std::string(kTriggersSuppressed), .trigger = window.trigger, .message = entry.message});
}

void EventHub::recording_switched(bool recording, const std::string& who) {
  clients_.publish(
      {.event = std::string(recording ? kRecordingResumed : kRecordingPaused), .message = fmt::format("by {}", who)});
  status_changed_();
}

void EventHub::reloaded(const std::string& who) {
  clients_.publish({.event = std::string(kReloaded), .message = "by " + who});
}

void EventHub::broker_lost(const std::string& message) {
  journal_(degraded_entry("broker", message));
  status_changed_();
}

void EventHub::broker_recovered(const std::string& message) {
  journal_(recovered_entry("broker", message));
  status_changed_();
}

}  // namespace flight::daemon
