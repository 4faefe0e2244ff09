// SPDX-License-Identifier: Apache-2.0
// Forwards each control call to the object that answers it; does nothing else. Event loop only. The objects outlive
// it. It must override each function of ControlBackend, or the call is refused: router_test.cpp calls each method of
// the interface.
#pragma once

#include "daemon/control/backend.hpp"
#include "daemon/control/status_service.hpp"
#include "daemon/control/trigger_api.hpp"
#include "daemon/notify/event_hub.hpp"
#include "daemon/recorder/recording_switch.hpp"
#include "daemon/recordings/recordings.hpp"
#include "daemon/reload.hpp"
#include "daemon/snapshots/snapshot_api.hpp"
#include "daemon/store/store_service.hpp"

namespace flight::daemon {

class ControlRouter : public ControlBackend {
 public:
  ControlRouter(StatusService& status, SnapshotApi& snapshots, StoreService& store, TriggerApi& triggers,
                RecordingSwitch& recording, Recordings& recordings, Reloader& reloader, EventHub& events)
      : status_(status),
        snapshots_(snapshots),
        store_(store),
        triggers_(triggers),
        recording_(recording),
        recordings_(recordings),
        reloader_(reloader),
        events_(events) {}

  void get_status(Done done) override;
  void take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) override;
  void record(const Caller& caller, RecordParameters parameters, Follower follower, Done done) override;
  void stop_recording(std::string id, Done done) override;
  void list_snapshots(Done done) override;
  void describe_snapshot(std::string id, Done done) override;
  void remove_snapshot(std::string id, Done done) override;
  void pin_snapshot(std::string id, bool pinned, Done done) override;
  void read_snapshot(std::string id, SnapshotFile file, Opened opened) override;
  void vacuum(bool dry_run, Progress progress, Done done) override;
  void list_triggers(Done done) override;
  void fire_trigger(const Caller& caller, FireParameters parameters, Done done) override;
  void set_trigger(const Caller& caller, SetTriggerParameters parameters, Done done) override;
  void set_recording(const Caller& caller, bool recording, Done done) override;
  void reload(const Caller& caller, Done done) override;
  void get_config(Done done) override;
  void monitor(Listener listener) override;

 private:
  StatusService& status_;
  SnapshotApi& snapshots_;
  StoreService& store_;
  TriggerApi& triggers_;
  RecordingSwitch& recording_;
  Recordings& recordings_;
  Reloader& reloader_;
  EventHub& events_;
};

}  // namespace flight::daemon
