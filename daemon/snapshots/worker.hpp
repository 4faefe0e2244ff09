// SPDX-License-Identifier: Apache-2.0
// The snapshot queue: at most one runs and one waits. A request joins the running one if that is not frozen yet and
// covers its window, otherwise the waiting one. So a hundred callers make two files, each caller gets a reply, and no
// window ends before its request. A snapshot shared by a person and a trigger has the trigger's name.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "daemon/recorder/attached.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/snapshots/files.hpp"
#include "daemon/snapshots/freeze_thread.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "libcore/config/config.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight::daemon {

// The trigger of the last snapshot after the broker died.
inline constexpr std::string_view kBrokerLost = "broker-lost";

struct SnapshotRequest {
  std::string trigger = "manual";
  bool automatic = false;             // a trigger's request, not a person's
  bool test = false;                  // a person tests the trigger
  std::optional<SidecarFired> fired;  // the reason, if a metric caused it
  SidecarRequest who;                 // includes the reason
  bool has_ended = false;             // the pid in `who` can be another process's: Caller
  WindowRequest window;
  EventTime requested_ns = 0;
  EventTime due_ns = 0;  // freeze not before this time (post), by the worker's clock
  std::optional<CaptureMode> capture;
  // Both are called on the worker's thread; `done` exactly once. ECANCELED: flightd is stopping.
  std::function<void(std::string_view step, unsigned percent)> progress;
  std::function<void(const Result<Sidecar>&)> done;

  // A request of flightd itself, due now.
  [[nodiscard]] static SnapshotRequest of_flightd(std::string_view trigger, std::string reason);
};

// For the sidecar. If /proc did not show a requester's name (ProtectProc=invisible, or the sender of a signal has
// exited), the process tracker's name is used. A client that had exited gets no name: the tracker would return that of
// the process that had its pid at the time of the request. Any thread that may wait for the recorder's.
[[nodiscard]] std::vector<SidecarRequest> askers_of(std::span<const SnapshotRequest> askers, RecorderThread& recorder);

class SnapshotWorker {
 public:
  // All callbacks run on the worker's thread, except where noted.
  struct Callbacks {
    // Called once for each snapshot; `ended` before its requests are answered.
    std::function<void(const std::string& trigger)> begun;
    std::function<void(const Result<Sidecar>&)> ended;
    // The metrics at the moment of the freeze.
    std::function<std::optional<SidecarMetrics>()> metrics;
    // Called before a snapshot is written, with its trigger and the bytes of all rings. Returns the largest allowed
    // file size; 0: no separate limit. ENOSPC: there is no space.
    std::function<Result<std::uint64_t>(const std::string& trigger, std::uint64_t most_bytes)> make_room;
    // Called once for a snapshot that failed because the disk or a quota is full, as SnapshotOrder::make_room; on the
    // worker's or the merge's thread. True: it is worth another try.
    std::function<bool(const std::string& trigger, std::uint64_t needed_bytes)> make_more_room;
    // Called when a snapshot is written, on the merge's thread. False: the store's file system cannot sync.
    std::function<void(bool)> synced = [](bool) {};
    // Called on the writer's thread: the kernel's symbols are in the store as well.
    std::function<void()> symbols_kept;
    // On the worker's or the writer's thread.
    std::function<void(Error)> warn;
    // Whether spare files may be made in the store.
    std::function<bool()> store_usable = [] { return true; };
    // The id of a recording that is running, which would miss what is written while a ring is paused; empty: none is.
    std::function<std::string()> recording_id = [] { return std::string(); };
    // After make_room(): a warning about the store for the sidecar; empty: there is none.
    std::function<std::string()> store_warning = [] { return std::string(); };
  };
  // Starts all threads of the worker, and takes the memory for compressing. All waits end by `clock`.
  [[nodiscard]] static Result<std::unique_ptr<SnapshotWorker>> start(
      RecorderThread& recorder, FreezeThread& freezer, const SnapshotConfig& config, const HostFacts& host,
      std::string folder, std::vector<PlannedWorker> plan, Callbacks callbacks,
      const WaitingClock& clock = WaitingClock::monotonic());
  SnapshotWorker(const SnapshotWorker&) = delete;
  SnapshotWorker& operator=(const SnapshotWorker&) = delete;
  ~SnapshotWorker();  // stop()

  // Any thread: for all later requests. The worker pool stays as it is.
  void configure(const SnapshotConfig& config);

  // Differences between the workers and their configuration.
  [[nodiscard]] const std::vector<std::string>& worker_warnings() const { return workers_->warnings(); }
  // Any thread; never waits for a snapshot. A request for kBrokerLost goes first and also answers all waiting
  // requests: after it the rings are lost.
  void request(SnapshotRequest request);
  // Any thread: requests the spare files for a last snapshot again, from the next broker.
  void broker_is_back();
  // Any thread: the store's name leads to another directory; the spare files are made there, after a request that
  // waits.
  void folder_changed();
  // Finishes the running snapshot (ends its wait for `post`), refuses the waiting one, ends the thread.
  void stop();
  // Since when the disk has been working on the running snapshot; 0: it is not. Any thread.
  [[nodiscard]] EventTime writing_since_ns() const { return writing_since_ns_; }

 private:
  SnapshotWorker(RecorderThread& recorder, FreezeThread& freezer, const SnapshotConfig& config, const HostFacts& host,
                 std::string folder, std::unique_ptr<WorkerPool> workers, StreamMemory memory, Callbacks callbacks,
                 const WaitingClock& clock);
  struct Job {
    std::string trigger, reason;
    bool automatic = false, test = false;
    std::optional<SidecarFired> fired;
    std::vector<SnapshotRequest> askers;
    WindowRequest window;
    EventTime requested_ns = 0, due_ns = 0;
    EventTime cut_short_ns = 0;  // the time of `post` that stop() cut off
    CaptureMode capture = CaptureMode::pause;
    SnapshotConfig config;
    bool frozen = false;
  };
  [[nodiscard]] std::unique_ptr<Job> make_job(SnapshotRequest request) const;
  [[nodiscard]] bool in_time(const Job& job, const SnapshotRequest& request) const;
  [[nodiscard]] bool covers(const Job& job, const SnapshotRequest& request) const;
  static void widen(Job& job, SnapshotRequest request);

  void run();
  void wait_for_request(std::unique_lock<std::mutex>& lock);
  void wait_until_due(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Result<Sidecar> take(Job& job);
  // Switches to the newest set of rings; keeps the blackouts of rings that are in both sets. Returns the set before,
  // nullptr if it is the same: to release it takes long.
  std::shared_ptr<Attached> follow_attached();
  // After a reload, for the next snapshot.
  void take_memory(std::unique_lock<std::mutex>& lock);
  EventTime freeze(const Job& job);
  [[nodiscard]] SnapshotOrder order_of(const Job& job, const Manifest& manifest, EventTime frozen_ns,
                                       EventTime recorded_until_ns, const ClockHistory& clock) const;
  // Longer than a successor of the broker is looked for.
  static constexpr std::chrono::milliseconds kCountsWait = BrokerThread::kSameFor + std::chrono::seconds(1);
  [[nodiscard]] std::vector<std::uint64_t> count_lost(const Job& job, const Manifest& manifest,
                                                      const std::vector<std::size_t>& channel_rings, bool& exact);
  void forget_old_blackouts();
  void keep_symbols();
  void learn(const Sidecar& sidecar);
  [[nodiscard]] bool hand_to_last();
  static void notify_waiting(const Job& job, EventTime now_ns);
  void refuse_waiting();  // call it with mutex_ held
  static void answer(Job& job, const Result<Sidecar>& result);

  std::shared_ptr<Attached> attached_;
  RecorderThread& recorder_;
  FreezeThread& freezer_;
  const HostFacts& host_;
  SnapshotFiles files_;
  const Callbacks callbacks_;
  std::unique_ptr<WorkerPool> workers_;  // does all work after the freeze: this thread must be ready to freeze

  StreamMemory memory_;  // the merge's; between snapshots this thread's

  BlackoutLog blackouts_;
  std::shared_ptr<const KernelSymbols> kernel_;  // of the current snapshot, or the last one
  Counts counts_;                                // after the last capture
  bool last_taken_ = false;                      // the broker is gone, and the rings were saved
  UrgentWait urgent_;                            // this thread's, until the freeze

  std::atomic<EventTime> writing_since_ns_ = 0;
  const WaitingClock& clock_;

  std::mutex mutex_;  // guards all following members
  SnapshotConfig config_;
  std::condition_variable wake_;
  std::unique_ptr<Job> running_, waiting_;
  std::vector<SnapshotRequest> stranded_;  // their broker died; the last snapshot answers them
  bool stopping_ = false, refill_ = false, configured_ = false, moved_ = false;
  std::thread thread_;
};

}  // namespace flight::daemon
