// SPDX-License-Identifier: Apache-2.0
// The recorder thread: flightd's only poller of the sideband rings and only owner of the process tracker. A 100 ms tick
// drains the sideband into the process tracker; once a second it notes the rings' heads. It never waits: the broker
// thread waits for the broker's replies. Other threads post tasks to it.
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "daemon/recorder/attached.hpp"
#include "daemon/recorder/broker_thread.hpp"
#include "daemon/recorder/clock_watch.hpp"
#include "daemon/recorder/history.hpp"
#include "daemon/recorder/recording_gaps.hpp"
#include "daemon/recorder/scan_pace.hpp"
#include "libcore/base/clock_alarm.hpp"
#include "libcore/base/task_queue.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "libcore/broker/client.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/sideband/checkpoint_file.hpp"
#include "libcore/sideband/intake.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sideband/strangers.hpp"

namespace flight::daemon {

class RecorderThread {
 public:
  // As BrokerThread::start; callbacks.warn is also called on the recorder thread. `checkpoint`: none if the rings end
  // with this process. `beside`: the memory that is not for rings. `clock`: of the broker thread, and of the pace of
  // scans.
  [[nodiscard]] static Result<std::unique_ptr<RecorderThread>> start(
      BrokerClient broker, std::shared_ptr<Attached> attached, std::string broker_path,
      BrokerThread::Callbacks callbacks, std::optional<CheckpointFile> checkpoint, const BesideRings& beside,
      std::string refusal = {}, const WaitingClock& clock = WaitingClock::monotonic());
  RecorderThread(const RecorderThread&) = delete;
  RecorderThread& operator=(const RecorderThread&) = delete;
  ~RecorderThread();

  // The following may be called on any thread but the recorder's and the broker thread. Each waits for its result, so
  // never call it from the event loop.
  [[nodiscard]] Result<PartialFile> file(std::chrono::seconds wait, bool spare) {
    return broker_thread_->file(wait, spare);
  }
  [[nodiscard]] Result<Counts> counts(std::chrono::milliseconds wait) { return broker_thread_->counts(wait); }
  // As in BrokerThread.
  [[nodiscard]] Result<KnownFiles> build_ids(std::chrono::milliseconds wait) { return broker_thread_->build_ids(wait); }
  [[nodiscard]] std::future<Result<void>> refresh_kernel() { return broker_thread_->refresh_kernel(); }
  [[nodiscard]] std::shared_ptr<const KernelSymbols> kernel() const { return broker_thread_->kernel(); }
  [[nodiscard]] std::string scan_warning() const { return broker_thread_->scan_warning(); }
  [[nodiscard]] std::string attach_warning() const { return broker_thread_->attach_warning(); }
  // `pids`, `cgroups`: those with samples.
  [[nodiscard]] TrackerExport export_window(EventTime begin_ns, EventTime end_ns,
                                            const std::unordered_set<std::uint32_t>& pids,
                                            const std::unordered_set<std::uint64_t>& cgroups = {});

  // As ProcessTracker::comms_of.
  [[nodiscard]] std::vector<std::string> comms_of(std::vector<ProcessAt> asked);

  // While held, records that a frozen image may still need are not folded.
  void hold_fold(bool held) { fold_held_ = held; }
  // No ring holds an older record; updated each second.
  [[nodiscard]] EventTime oldest_held_ns() const { return oldest_held_ns_; }
  // All rings hold every record from this time on; updated each second.
  [[nodiscard]] EventTime all_held_from_ns() const { return all_held_from_ns_; }
  // Any thread. The channel of the ring that reaches back least; empty: there is no ring. As of all_held_from_ns().
  [[nodiscard]] std::string shortest_channel() const {
    const std::lock_guard lock(mutex_);
    return shortest_channel_;
  }
  // How far back the busiest ring reaches, updated each second; UINT64_MAX: no ring has overwritten anything yet.
  [[nodiscard]] EventTime shortest_history_ns() const { return shortest_history_ns_; }
  // Any thread. What the process tracker's limits are made of.
  [[nodiscard]] const BesideRings& beside() const { return beside_; }
  // Any thread. The newest set of rings; the next may come at any time.
  [[nodiscard]] std::shared_ptr<Attached> attached() const { return broker_thread_->attached(); }
  [[nodiscard]] bool broker_gone() const { return broker_thread_->gone(); }
  // Any thread. `delivery`: as the broker said last.
  [[nodiscard]] RecordingState recording_state(Delivery delivery) const;
  // As in BrokerThread.
  [[nodiscard]] std::string refusal() const { return broker_thread_->refusal(); }
  void reconnect(std::chrono::seconds look_for, std::function<void(Result<bool>)> done);
  // As BrokerThread::reload.
  void reload(std::function<void(Result<bool>)> done) { broker_thread_->reload(std::move(done)); }
  // Any thread. The configured minimum history of each channel; the status warns below it.
  void want_histories(std::map<std::string, EventTime> wanted_ns) {
    tasks_.post([this, wanted_ns = std::move(wanted_ns)] { wanted_ns_ = wanted_ns; });
  }
  // The record sizes that a snapshot's walk measured, to estimate the rates of sampling events.
  void note_record_bytes(const std::string& channel, double bytes);

  // Disables or enables all events. `done` is called on the recorder thread. After enabling, a scan adds what the
  // process tracker missed.
  void set_recording(bool recording, std::string who, std::function<void(Result<void>)> done);
  [[nodiscard]] RecordingGaps& gaps() { return gaps_; }
  // Any thread.
  [[nodiscard]] ClockWatch& clock() { return clock_; }
  // Any thread. Since when recording is paused; UINT64_MAX: it is not.
  [[nodiscard]] EventTime recorded_until_ns() const {
    return std::min(gaps_.paused_since_ns(), broker_thread_->gone() ? broker_thread_->lost_ns() : UINT64_MAX);
  }

  // For a recording that is running. `tick` is called on the recorder thread, which alone polls the rings: at least
  // once a second, and when one of `rings` was written by half. It never waits. True: what was due is begun.
  struct Stream {
    Rings rings;
    std::function<bool(EventTime now_ns)> tick;
  };
  [[nodiscard]] std::uint64_t add_stream(Stream stream);
  // Afterwards `tick` is not called any more.
  void remove_stream(std::uint64_t id);
  // All processes and symbols at `at_ns`, in the prologue; the log has records of that moment only. It is `since_ns`,
  // but not older than the oldest record of any ring (while streams run, and 3 s), nor newer than now. Waits for a scan
  // that is due, as an export does.
  struct WholeState {
    EventTime at_ns = 0;
    TrackerExport state;
    FileNames names{};  // of a file that begins with it
  };
  [[nodiscard]] WholeState whole_state(EventTime since_ns);
  // The sideband with times in (after_ns, until_ns], ascending, as the log, for a file with these names; until_ns was
  // at least 50 ms ago. `whole`, and what is in the state then: as ProcessTracker::Next; the warnings say which names
  // are uncertain. That costs a whole export. `may_wait`: where names get into doubt, it waits for the scan as an
  // export does.
  using SidebandPart = ProcessTracker::Next;
  [[nodiscard]] SidebandPart sideband_between(EventTime after_ns, EventTime until_ns, FileNames& names,
                                              bool may_wait = false);

  // Fills in the recorder's part: rings, channels, broker, warnings. `done` is called on the recorder thread. If the
  // broker does not reply, this waits for kStatusWaitNs.
  void status(std::function<void(Status)> done);

 private:
  RecorderThread(std::unique_ptr<BrokerThread> broker_thread, UniqueFd wake, std::optional<CheckpointFile> checkpoint,
                 const BesideRings& beside, std::function<void(Error)> warn, const WaitingClock& clock);
  void run();
  void wait_for_work(EventTime until_ns);
  void look_at_set_clock();
  void drain();
  void take_batch(std::size_t first, std::size_t end, EventTime complete_ns);
  void blame();
  [[nodiscard]] std::string named(std::uint32_t pid, EventTime time_ns) const;
  [[nodiscard]] std::string named_in_gap(std::uint32_t pid, EventTime time_ns) const;
  void follow_attached();
  void replay();
  [[nodiscard]] Result<void> assess_checkpoint(const CheckpointContents& left);
  void begin_checkpoint();
  [[nodiscard]] EventTime first_enabled_ns() const;
  void look_again(EventTime since_ns, EventTime until_ns = UINT64_MAX);
  void scan(bool again = false);
  void doubt_resumed(EventTime until_ns);
  EventTime note_request();  // of a scan; returns now, as in records
  void scan_if_due();
  void await_scan(const std::unordered_set<std::uint32_t>& pids);
  void answer_waiters();
  [[nodiscard]] bool take_first_scan(const Result<Mapping>& records);
  [[nodiscard]] bool take_scan(const Result<Mapping>& records, EventTime asked_ns);
  void note_clock();
  void note_heads(EventTime now_ns);
  void watch_streams(std::vector<pollfd>& fds);
  void note_wakeups(std::span<const pollfd> fds);
  void tick_streams(EventTime now_ns);
  [[nodiscard]] EventTime fold_horizon_ns(EventTime now_ns) const;
  void answer_late_statuses(EventTime now_ns);
  void answer_statuses(const Counts* counts, EventTime asked_until_ns);
  void fill(Status& status, const Counts* counts);
  void warn(Status& status) const;
  void warn_of_names(Status& status) const;
  void warn_of(const Result<void>& done) const {
    if (!done) warn_(done.error());
  }
  void fill_channels(Status& status, EventTime now_ns, const Counts* now, const Counts& before);
  void warn_of_short_histories(Status& status) const;
  void note_unseen(Status& status, const Counts& known) const;

  std::unique_ptr<BrokerThread> broker_thread_;
  TaskQueue tasks_;
  std::shared_ptr<Attached> attached_;
  static constexpr EventTime kDyingNs = 5'000'000'000;  // a process with 80 GiB to free needs this long to exit
  const BesideRings beside_;
  ProcessTracker tracker_;
  std::optional<CheckpointFile> checkpoint_;  // the part of the process tracker that outlives this process
  bool may_know_ = false;                     // the next drained records may already be in the checkpoint
  std::function<void(Error)> warn_;
  Strangers strangers_;
  Intake intake_;
  std::uint64_t cut_ = 0;  // records that the kernel had written with a wrong size
  RecordBuffer drained_;
  EventTime drained_ns_ = 0;       // when the last pass over the rings began
  std::size_t drained_bytes_ = 0;  // in that pass
  EventTime blamed_ns_ = 0;
  ClockWatch clock_;
  ClockAlarm clock_alarm_;
  EventTime clock_alarm_rests_ns_ = 0;  // until then it is not polled
  RecordingGaps gaps_{clock_};
  EventTime all_paused_ns_ = 0;     // by then all rings were paused, if they are
  std::vector<History> histories_;  // of attached_->rings
  std::map<std::string, EventTime> wanted_ns_;
  const WaitingClock& pace_clock_;
  ScanPace pace_;
  bool scanning_ = false;
  std::vector<std::shared_ptr<std::promise<void>>> scan_waiters_;
  std::unordered_set<std::uint32_t> wanted_;  // of a snapshot, and forgotten while alive: the next scan looks them up
  Counts last_counts_;                        // of the last status, for rates
  struct AskedStatus {
    EventTime asked_ns;
    std::function<void(Status)> done;
  };
  std::vector<AskedStatus> statuses_;
  struct Watched {
    Stream stream;
    std::vector<bool> polled;  // by ring; false: its owner has ended, and every poll would return at once
    EventTime woken_ns = 0;    // when one of its rings woke this thread, until a tick was of use; 0: none
  };
  std::map<std::uint64_t, Watched> streams_;
  std::uint64_t stream_number_ = 0;
  bool counts_asked_ = false;
  std::atomic<bool> fold_held_ = false;
  std::atomic<EventTime> oldest_held_ns_ = 0;
  std::atomic<EventTime> shortest_history_ns_ = UINT64_MAX;
  std::atomic<EventTime> all_held_from_ns_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, double> record_bytes_;
  std::string shortest_channel_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flight::daemon
