// SPDX-License-Identifier: Apache-2.0
// The calls ListTriggers, FireTrigger and SetTrigger, and what triggers that fired do: a snapshot, and, if configured,
// a recording that goes on from it. Event loop only; each `done` is called once, on the event loop. The texts and
// errors are ControlBackend's.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "daemon/control/backend.hpp"
#include "daemon/notify/event_hub.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recorder/recording_switch.hpp"
#include "daemon/recorder/trigger_thread.hpp"
#include "daemon/recordings/recordings.hpp"
#include "daemon/snapshots/snapshot_api.hpp"
#include "libcore/trigger/decision.hpp"

namespace flight::daemon {

class TriggerApi {
 public:
  TriggerApi(boost::asio::io_context& loop, TriggerThread& triggers, SnapshotApi& snapshots, RecorderThread& recorder,
             const RecordingSwitch& recording, Recordings& recordings, EventHub& events)
      : loop_(loop),
        triggers_(triggers),
        snapshots_(snapshots),
        recorder_(recorder),
        recording_(recording),
        recordings_(recordings),
        events_(events) {}
  TriggerApi(const TriggerApi&) = delete;
  TriggerApi& operator=(const TriggerApi&) = delete;

  // Takes the snapshot of a trigger that fired automatically. No snapshot is taken while nothing is recorded.
  void take(const Decision& decision);

  void list(ControlBackend::Done done);
  // The text is the snapshot's id. An error if there is no such external trigger, it is off, or it is suppressed.
  void fire(const Caller& caller, FireParameters parameters, ControlBackend::Done done);
  void set(const Caller& caller, const SetTriggerParameters& parameters, ControlBackend::Done done);

 private:
  // Requests the snapshot of a decision; its recording begins when the rings have been copied for it.
  void submit(const Decision& decision, SnapshotRequest request, std::function<void(const Result<Sidecar>&)> done);
  void record(const Recordings::OfTrigger& wanted);
  void note_snapshot(const Decision& decision, const std::string& id);
  // flightd stops first.
  void prevented(const std::string& trigger);

  boost::asio::io_context& loop_;
  TriggerThread& triggers_;
  SnapshotApi& snapshots_;
  RecorderThread& recorder_;
  const RecordingSwitch& recording_;
  Recordings& recordings_;
  EventHub& events_;
};

}  // namespace flight::daemon
