// SPDX-License-Identifier: Apache-2.0
// At most one snapshot runs and one waits. A request joins one that is not yet frozen and covers its window, else the
// waiting one; so a hundred askers make two files, each gets an answer, and nobody gets a past that ends before they
// asked. Where a person and a trigger share one, it has the trigger's name.
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

#include "daemon/attached.hpp"
#include "daemon/freeze_thread.hpp"
#include "daemon/recorder_thread.hpp"
#include "daemon/snapshot_files.hpp"
#include "libcore/config/config.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight {

// The trigger of the last snapshot, after the broker's death.
inline constexpr std::string_view kBrokerLost = "broker-lost";

struct SnapshotRequest {
  std::string trigger = "manual";
  bool automatic = false;             // a trigger's, not a person's
  std::optional<SidecarFired> fired;  // why, where a metric made it fire
  SidecarRequest who;                 // with the reason
  WindowRequest window;
  EventTime requested_ns = 0;
  EventTime due_ns = 0;  // freeze not before (post)
  std::optional<CaptureMode> capture;
  // Both are called on the worker's thread; `done` exactly once. ECANCELED: flightd is stopping.
  std::function<void(std::string_view step, unsigned percent)> progress;
  std::function<void(const Result<Sidecar>&)> done;

  // What flightd itself wants, now.
  [[nodiscard]] static SnapshotRequest of_flightd(std::string_view trigger, std::string reason);
};

// For the sidecar. Where /proc did not tell their names (ProtectProc=invisible; a signal's sender has gone), the ledger
// does. On any thread that may wait for the recorder's.
[[nodiscard]] std::vector<SidecarRequest> askers_of(std::span<const SnapshotRequest> askers, RecorderThread& recorder);

class SnapshotWorker {
 public:
  SnapshotWorker(RecorderThread& recorder, FreezeThread& freezer, const SnapshotConfig& config, const HostFacts& host,
                 std::string folder, std::vector<CrewWorker> crew,
                 std::function<void(Error)> warn);  // called on the worker's or the writer's thread
  SnapshotWorker(const SnapshotWorker&) = delete;
  SnapshotWorker& operator=(const SnapshotWorker&) = delete;
  ~SnapshotWorker();  // stop()

  // Any thread: for all requests from now on. The crew stays as it is.
  void configure(const SnapshotConfig& config);

  // How the crew is less than it was configured to be.
  [[nodiscard]] const std::vector<std::string>& crew_warnings() const { return crew_.warnings(); }
  // `begun` and `ended` are called once for each snapshot, on the worker's thread. Before the first request.
  void watch(std::function<void(const std::string& trigger)> begun, std::function<void(const Result<Sidecar>&)> ended);
  // What is known of the metrics when a snapshot was just frozen; called on the worker's thread. Before the first
  // request.
  void watch_metrics(std::function<std::optional<SidecarMetrics>()> metrics) { metrics_ = std::move(metrics); }
  // Asked on the worker's thread before a snapshot is written, with its trigger and the bytes of all rings: how large
  // its file may be, 0: no limit of its own. ENOSPC: there is no room. Before the first request.
  using MakeRoom = std::function<Result<std::uint64_t>(const std::string& trigger, std::uint64_t most_bytes)>;
  // `symbols_kept`, on the writer's thread: the kernel's symbols have come into the store as well.
  void budget_with(MakeRoom make_room, std::function<void()> symbols_kept);
  // Any thread; never waits for a snapshot. One of kBrokerLost goes first and takes along whoever waits: after it there
  // is nothing to be had.
  void request(SnapshotRequest request);
  // Any thread: the spare files for a last snapshot are asked for again, of the next broker.
  void broker_is_back();
  // The one under way is finished (a `post` it waits for is cut short), the waiting one is refused; then the thread
  // ends.
  void stop();
  // Since when the disk has been at work for the snapshot that runs; 0: it is not. Any thread.
  [[nodiscard]] EventTime writing_since_ns() const { return writing_since_ns_; }

 private:
  struct Job {
    std::string trigger, reason;
    bool automatic = false;
    std::optional<SidecarFired> fired;
    std::vector<SnapshotRequest> askers;
    WindowRequest window;
    EventTime requested_ns = 0, due_ns = 0;
    EventTime cut_short_ns = 0;  // of the `post` it waited for, by stop()
    CaptureMode capture = CaptureMode::pause;
    SnapshotConfig config;
    bool frozen = false;
  };
  [[nodiscard]] std::unique_ptr<Job> make_job(SnapshotRequest request) const;
  [[nodiscard]] bool in_time(const Job& job, const SnapshotRequest& request) const;
  [[nodiscard]] bool covers(const Job& job, const SnapshotRequest& request) const;
  static void widen(Job& job, SnapshotRequest request);

  void run();
  void wait_until_due(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Result<Sidecar> take(Job& job);
  // The newest set of rings; the blackouts of those that it shares with the one before are kept.
  void follow_attached();
  EventTime freeze(const Job& job);
  [[nodiscard]] std::vector<std::uint64_t> count_lost(const Manifest& manifest,
                                                      const std::vector<std::size_t>& channel_rings, bool& exact);
  void forget_old_blackouts();
  void keep_symbols();
  void learn(const Sidecar& sidecar);
  [[nodiscard]] bool hand_to_last();
  static void tell_waiting(const Job& job, EventTime now_ns);
  void refuse_waiting();  // mutex_ is held
  static void answer(Job& job, const Result<Sidecar>& result);

  std::shared_ptr<Attached> attached_;
  RecorderThread& recorder_;
  FreezeThread& freezer_;
  const HostFacts& host_;
  SnapshotFiles files_;
  std::function<void(Error)> warn_;
  std::function<void(const std::string&)> begun_ = [](const std::string&) {};
  std::function<void(const Result<Sidecar>&)> ended_ = [](const Result<Sidecar>&) {};
  std::function<std::optional<SidecarMetrics>()> metrics_ = [] { return std::nullopt; };
  MakeRoom make_room_ = [](const std::string&, std::uint64_t) { return 0; };
  std::function<void()> symbols_kept_ = [] {};
  Crew crew_;  // all of a snapshot behind the freeze: this thread must be quick to freeze

  BlackoutLog blackouts_;
  Counts counts_;            // after the last capture
  bool last_taken_ = false;  // the broker is gone, and so is what could be saved

  std::atomic<EventTime> writing_since_ns_ = 0;

  std::mutex mutex_;  // of all that follows
  SnapshotConfig config_;
  std::condition_variable wake_;
  std::unique_ptr<Job> running_, waiting_;
  std::vector<SnapshotRequest> stranded_;  // by a broker's death; the last snapshot takes them along
  bool stopping_ = false, refill_ = false;
  std::thread thread_;
};

}  // namespace flight
