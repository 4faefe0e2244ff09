// SPDX-License-Identifier: Apache-2.0
// What the control socket's calls mean: hands each to the thread that can answer it and brings the answer back to the
// event loop. Disk is touched on a thread of the store's own, never here.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/control_backend.hpp"
#include "daemon/event_hub.hpp"
#include "daemon/journal_entries.hpp"
#include "daemon/recorder_thread.hpp"
#include "daemon/reloader.hpp"
#include "daemon/snapshot_worker.hpp"
#include "daemon/store_budget.hpp"
#include "daemon/trigger_thread.hpp"
#include "libcore/config/config.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight {

// No room in the store's file system.
[[nodiscard]] inline bool is_full(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

class Service : public ControlBackend {
 public:
  Service(boost::asio::io_context& loop, RecorderThread& recorder, SnapshotWorker& worker, std::string folder,
          const StoreConfig& store, std::vector<std::string> warnings);
  ~Service() override;

  void get_status(Done done) override;
  void take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) override;
  void list_snapshots(Done done) override;
  void describe_snapshot(std::string id, Done done) override;
  void remove_snapshot(std::string id, Done done) override;
  void pin_snapshot(std::string id, bool pinned, Done done) override;
  void read_snapshot(std::string id, SnapshotFile file, Opened opened) override;
  void vacuum(bool dry_run, Done done) override;
  void list_triggers(Done done) override;
  void fire_trigger(const Caller& caller, FireParameters parameters, Done done) override;
  void set_trigger(const Caller& caller, SetTriggerParameters parameters, Done done) override;
  void set_recording(const Caller& caller, bool recording, Done done) override;
  void reload(const Caller& caller, Done done) override;
  void get_config(Done done) override;
  void monitor(Listener listener) override;

  // Who reads the configuration again; before the first call.
  void use(Reloader& reloader) { reloader_ = &reloader; }
  // The same for everybody who asks for it, a person with flightctl or SIGHUP.
  void reload_for(const std::string& who, Reloader::Done done);
  // The budget of a new configuration.
  void configure(const StoreConfig& store);
  // SIGUSR2: as perf has it. `done` is called on the event loop.
  void take_by_signal(std::uint32_t uid, std::int32_t pid, std::function<void(const Result<Sidecar>&)> done);
  // "degraded (disk): …" from the snapshot that could not be written to the next one that was; else empty. Event loop.
  [[nodiscard]] const std::string& disk_trouble() const { return disk_trouble_; }
  // Any request of flightd's own.
  void submit(SnapshotRequest request, std::function<void(const Result<Sidecar>&)> done);
  // Before the first call; it lives as long as this.
  void use_triggers(TriggerThread& triggers) { triggers_ = &triggers; }
  // Event loop: a trigger that fired, and firings that were held back.
  void take_for_trigger(const Decision& decision);
  void tell_suppressed(const SuppressedWindow& window);
  // The triggers' counters, in STATE: what an earlier life kept; and any thread keeps them, on the store's thread.
  [[nodiscard]] static std::string saved_triggers(const std::string& state_dir);
  void keep_triggers(const std::string& state_dir, std::string text);

  // What the store's folder takes, as far as it is known.
  struct StoreUse {
    Catalogue::Usage usage;
    std::uint64_t max_bytes = 0;  // 0: not known yet
    std::vector<std::string> warnings;
  };
  [[nodiscard]] const StoreUse& store_use() const { return store_use_; }
  // Asks the store's thread, once at a time.
  void refresh_store_use();
  struct LastSnapshot {
    std::string id, time, trigger;  // `time`: RFC 3339, when it was durable, or of an earlier life, when it was frozen
    WallTime at{};                  // the same
    SidecarTimings timings_us;
  };
  // Of this life, or the newest that an earlier one left. Event loop.
  [[nodiscard]] const std::optional<LastSnapshot>& last_snapshot() const { return last_snapshot_; }
  // On the event loop, when what a status tells has changed: a snapshot, the store's use, recording on or off.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  // On the event loop, for each window in which firings were suppressed.
  void on_suppressed(std::function<void(const JournalEntry&)> told) { suppressed_told_ = std::move(told); }
  // On the event loop, for every snapshot that ended, whoever asked.
  void on_snapshot(std::function<void(const Result<Sidecar>&)> told) { told_ = std::move(told); }

 private:
  void snapshot_ended(const Result<Sidecar>& result);
  void learn_last_snapshot();
  [[nodiscard]] static CallError to_call_error(const Error& error, bool broker_gone);
  [[nodiscard]] static SnapshotRequest request_of(const Decision& decision);
  [[nodiscard]] CallResult<WindowRequest> window_of(const SnapshotParameters& parameters, EventTime now_ns) const;
  // How many calls wait for the store's thread: a client may leave, and its call stays.
  [[nodiscard]] std::optional<CallError> too_many_wait() const;
  // Runs `work` on the store's thread and hands its answer to `done` on the event loop.
  void on_store(std::function<CallResult<std::string>()> work, Done done);
  void answer_status(Status status, const Done& done) const;
  // On the store's thread, after each snapshot, at start and then hourly. Any thread may say so.
  void keep_budget();
  void keep_budget_hourly();
  // Before a snapshot is written, on its worker's thread; waits for the store's, but not for ever.
  [[nodiscard]] Result<std::uint64_t> make_room(const std::string& trigger, std::uint64_t most_bytes);
  void tell_vacuumed(VacuumOutcome outcome);  // any thread
  std::uint64_t drop_unneeded_kallsyms();     // the bytes that they took
  // Snapshots without a sidecar get one, made of the file: `which`, or as many as one look may take.
  void give_sidecars(std::optional<std::string> which);

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  SnapshotWorker& worker_;
  std::vector<std::string> warnings_;
  Reloader* reloader_ = nullptr;
  EventTime started_ns_;
  std::optional<LastSnapshot> last_snapshot_;
  std::string disk_trouble_;  // empty: all is well
  bool recording_ = true;     // what was asked for; each attach begins with it
  EventHub events_;
  std::function<void(const Result<Sidecar>&)> told_;
  std::function<void()> changed_ = [] {};
  std::function<void(const JournalEntry&)> suppressed_told_ = [](const JournalEntry&) {};
  StoreUse store_use_;                                               // the last known
  EventTime use_asked_ns_ = 0;                                       // 0: nobody asks just now
  std::map<std::uint64_t, std::function<void()>> waiting_statuses_;  // for it; at most one for each connection
  std::uint64_t status_number_ = 0;
  TriggerThread* triggers_ = nullptr;
  std::mutex trigger_state_mutex_;
  std::optional<std::string> trigger_state_;  // waits for the store's thread
  bool trigger_state_trouble_ = false;        // the store thread's
  boost::asio::steady_timer hourly_;
  std::atomic<bool> writing_ = false;  // a snapshot, into the store's folder
  std::atomic<std::uint64_t> max_snapshot_bytes_;
  Catalogue catalogue_;          // the store thread's
  StoreBudget budget_;           // the store thread's
  std::size_t store_calls_ = 0;  // event loop
  boost::asio::thread_pool store_{1};
};

}  // namespace flight
