// SPDX-License-Identifier: Apache-2.0
// The recorder thread: flightd's only poller of the sideband rings, only owner of the ledger. A 100 ms tick drains the
// sideband into the ledger; once a second it notes the rings' heads. It waits for nobody: what the broker has to
// answer, the wall thread waits for. Everybody else hands it a task.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/attached.hpp"
#include "daemon/history.hpp"
#include "daemon/recording_gaps.hpp"
#include "daemon/task_queue.hpp"
#include "daemon/wall_thread.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/client.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/sideband/ledger.hpp"
#include "libcore/sideband/spool.hpp"

namespace flight {

class RecorderThread {
 public:
  // As WallThread::start; told.warn is called on the recorder thread, too. `spool`: none where the rings end with us,
  // and nobody will ask for their names.
  [[nodiscard]] static Result<std::unique_ptr<RecorderThread>> start(BrokerClient broker,
                                                                     std::shared_ptr<Attached> attached,
                                                                     std::string broker_path, WallThread::Told told,
                                                                     std::optional<Spool> spool);
  RecorderThread(const RecorderThread&) = delete;
  RecorderThread& operator=(const RecorderThread&) = delete;
  ~RecorderThread();

  // The following may be called on any thread but the recorder's own and the wall's. Each waits for its answer: never
  // from the event loop.
  // On the snapshot worker's thread only; see there.
  [[nodiscard]] Result<PartialFile> file(std::chrono::seconds wait, bool spare) { return wall_->file(wait, spare); }
  [[nodiscard]] Result<Counts> counts() { return wall_->counts(); }
  [[nodiscard]] LedgerExport export_window(EventTime begin_ns, EventTime end_ns,
                                           std::unordered_set<std::uint32_t> pids);

  // As Ledger::comms_of.
  [[nodiscard]] std::vector<std::string> comms_of(std::vector<ProcessAt> asked);

  // While held, nothing that a frozen image may still need is folded away.
  void hold_fold(bool held) { fold_held_ = held; }
  // No record is held that is older, as of the last second.
  [[nodiscard]] EventTime oldest_held_ns() const { return oldest_held_ns_; }
  // How far back the busiest ring reaches, as of the last second; UINT64_MAX: none has overwritten anything yet.
  [[nodiscard]] EventTime shortest_history_ns() const { return shortest_history_ns_; }
  // Any thread. The newest set of rings; the next may come at any time.
  [[nodiscard]] std::shared_ptr<Attached> attached() const { return wall_->attached(); }
  [[nodiscard]] bool broker_gone() const { return wall_->gone(); }
  // As WallThread::reconnect.
  void reconnect(std::function<void(Result<bool>)> done);
  // As WallThread::reload.
  void reload(std::function<void(Result<bool>)> done) { wall_->reload(std::move(done)); }
  // Any thread. How far back each channel's rings should reach; below it the status warns.
  void want_histories(std::map<std::string, EventTime> wanted_ns) {
    tasks_.post([this, wanted_ns = std::move(wanted_ns)] { wanted_ns_ = wanted_ns; });
  }
  // What the walk of a snapshot measured; for the rate of events that sample.
  void note_record_bytes(const std::string& channel, double bytes);

  // Switches all events off or on. `done` is called on the recorder thread. What was missed meanwhile by the ledger is
  // made good by a scan.
  void set_recording(bool recording, std::string who, std::function<void(Result<void>)> done);
  [[nodiscard]] RecordingGaps& gaps() { return gaps_; }
  // Any thread. Since when nothing is recorded; UINT64_MAX: it is.
  [[nodiscard]] EventTime recorded_until_ns() const {
    return std::min(gaps_.paused_since_ns(), wall_->gone() ? wall_->lost_ns() : UINT64_MAX);
  }

  // Fills in what the recorder knows: rings, channels, broker, warnings. `done` is called on the recorder thread. A
  // broker that does not answer is waited for as long as kStatusWaitNs.
  void status(std::function<void(Status)> done);

 private:
  RecorderThread(std::unique_ptr<WallThread> wall, UniqueFd wake, std::optional<Spool> spool,
                 std::function<void(Error)> warn);
  void run();
  void wait_for_work(EventTime until_ns);
  void drain();
  void follow_attached();
  void replay();
  [[nodiscard]] Result<void> judge_spool(const SpoolContents& left) const;
  void begin_spool();
  void scan();
  [[nodiscard]] bool take_first_scan(const Result<std::string>& records);
  void take_scan(const Result<std::string>& records, EventTime asked_ns);
  void note_heads(EventTime now_ns);
  void answer_late_statuses(EventTime now_ns);
  void answer_statuses(const Counts* counts, EventTime asked_until_ns);
  void fill(Status& status, const Counts* counts);
  void warn(Status& status) const;
  void warn_of(const Result<void>& done) const {
    if (!done) warn_(done.error());
  }
  void fill_channels(Status& status, EventTime now_ns, const Counts* now, const Counts& before);
  void warn_of_short_histories(Status& status) const;

  std::unique_ptr<WallThread> wall_;
  TaskQueue tasks_;
  std::shared_ptr<Attached> attached_;
  static constexpr EventTime kDyingNs = 5'000'000'000;  // one with 80 GiB to give back
  Ledger ledger_{LedgerLimits{.dying_ns = kDyingNs}};
  std::optional<Spool> spool_;  // what of the ledger outlives us
  bool may_know_ = false;       // what is drained next may be in it already
  std::function<void(Error)> warn_;
  RecordBuffer drained_;
  RecordingGaps gaps_;
  std::vector<History> histories_;  // of attached_->rings
  std::map<std::string, EventTime> wanted_ns_;
  EventTime last_scan_ns_ = 0;
  Counts last_counts_;  // of the last status, for rates
  struct AskedStatus {
    EventTime asked_ns;
    std::function<void(Status)> done;
  };
  std::vector<AskedStatus> statuses_;
  bool counts_asked_ = false;
  std::atomic<bool> fold_held_ = false;
  std::atomic<EventTime> oldest_held_ns_ = 0;
  std::atomic<EventTime> shortest_history_ns_ = UINT64_MAX;

  std::mutex mutex_;
  std::map<std::string, double> record_bytes_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flight
