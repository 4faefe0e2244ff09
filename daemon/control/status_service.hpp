// SPDX-License-Identifier: Apache-2.0
// Answers GetStatus and collects the values of the line in `systemctl status`. The recorder fills in its part; this
// adds the store, the last snapshot and flightd itself. Event loop only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "daemon/control/backend.hpp"
#include "daemon/notify/status_line.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recorder/trigger_thread.hpp"
#include "daemon/recordings/recordings.hpp"
#include "daemon/reload.hpp"
#include "daemon/snapshots/snapshot_api.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/clock.hpp"

namespace flight::daemon {

class StatusService {
 public:
  // `warnings`, `notes`: from the start; each status repeats them. The uptime starts here.
  StatusService(boost::asio::io_context& loop, RecorderThread& recorder, const SnapshotApi& snapshots,
                StoreService& store, const Reloader& reloader, const TriggerThread& triggers,
                const Recordings& recordings, std::vector<std::string> warnings, std::vector<std::string> notes)
      : loop_(loop),
        recorder_(recorder),
        snapshots_(snapshots),
        store_(store),
        reloader_(reloader),
        triggers_(triggers),
        recordings_(recordings),
        warnings_(std::move(warnings)),
        notes_(std::move(notes)),
        started_ns_(monotonic_now()) {}
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

  // `done` is called on the event loop with a Status. If the disk hangs, this waits 300 ms; the status then has the
  // last known size of the store and an error about the disk.
  void get(ControlBackend::Done done);
  [[nodiscard]] StatusFacts line_facts() const;

 private:
  [[nodiscard]] std::string complete(Status status) const;
  void add_disk(Status& status, EventTime now_ns) const;

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  const SnapshotApi& snapshots_;
  StoreService& store_;
  const Reloader& reloader_;
  const TriggerThread& triggers_;
  const Recordings& recordings_;
  const std::vector<std::string> warnings_, notes_;
  const EventTime started_ns_;
};

}  // namespace flight::daemon
