// SPDX-License-Identifier: Apache-2.0
// Requests snapshots from the snapshot worker, for clients, a signal and flightd itself, and remembers the result of
// the last one. Event loop only; each `done` is called once, on the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "daemon/control/backend.hpp"
#include "daemon/notify/event_hub.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/snapshots/worker.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::daemon {

class SnapshotApi {
 public:
  // Reads the newest snapshot of an earlier flightd.
  SnapshotApi(boost::asio::io_context& loop, RecorderThread& recorder, SnapshotWorker& worker, StoreService& store,
              EventHub& events);
  SnapshotApi(const SnapshotApi&) = delete;
  SnapshotApi& operator=(const SnapshotApi&) = delete;

  // As ControlBackend::take_snapshot: the text is the sidecar, on one line.
  void take(const Caller& caller, const SnapshotParameters& parameters, ControlBackend::Progress progress,
            ControlBackend::Done done);
  // SIGUSR2, as in perf; `uid` and `pid` are the sender's.
  void take_by_signal(std::uint32_t uid, std::int32_t pid);
  void submit(SnapshotRequest request, std::function<void(const Result<Sidecar>&)> done);
  // Reads the newest snapshot of an earlier flightd, if this flightd has taken none yet.
  void learn_last();
  // A snapshot ended; called once for each, before its requests are answered.
  void ended(const Result<Sidecar>& result);

  // The error that a client receives for a snapshot that failed with `error`.
  [[nodiscard]] CallError call_error(const Error& error) const;
  // "degraded (disk): …" while the last snapshot could not be written; otherwise empty.
  [[nodiscard]] const std::string& disk_trouble() const { return disk_trouble_; }
  // The same if too few files could be opened, of which the disk is not guilty, with what to do.
  [[nodiscard]] const std::string& descriptor_trouble() const { return descriptor_trouble_; }
  // Since when a snapshot is being written (monotonic); 0: none is.
  [[nodiscard]] EventTime writing_since_ns() const { return worker_.writing_since_ns(); }
  struct Last {
    std::string id, time,
        trigger;  // `time`: RFC 3339, when it was durable; of an earlier flightd's snapshot, when it was frozen
    std::uint64_t boottime_ns = 0;  // the same; it wraps around if that was before the boot
    SidecarTimings timings_us;
  };
  // The last snapshot of this flightd, or the newest of an earlier one.
  [[nodiscard]] const std::optional<Last>& last() const { return last_; }
  // How long ago that was, suspended time included. There is one.
  [[nodiscard]] std::chrono::nanoseconds age_of_last() const;

 private:
  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  SnapshotWorker& worker_;
  StoreService& store_;
  EventHub& events_;
  std::optional<Last> last_;
  std::string disk_trouble_, descriptor_trouble_;
};

}  // namespace flight::daemon
