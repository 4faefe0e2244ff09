// SPDX-License-Identifier: Apache-2.0
// The store of snapshots: answers the control calls about it and keeps it within its budget. All disk work runs in
// order on a thread of its own, because a disk may block:
//
//   event loop, snapshot ── task ──▶ thread "store": Catalogue, StoreBudget ── answer ──▶ event loop
//
// Functions are called on the event loop, except where noted; each `done` is called once, on the event loop. The calls
// have ControlBackend's parameters and texts.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/control/backend.hpp"
#include "daemon/folders.hpp"
#include "daemon/store/age_clock.hpp"
#include "daemon/store/budget.hpp"
#include "daemon/store/held_store.hpp"
#include "daemon/store/made_room.hpp"
#include "daemon/store/trigger_state.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/base/task_thread.hpp"
#include "libcore/config/config.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight::daemon {

class StoreService {
 public:
  using Done = ControlBackend::Done;
  using Opened = ControlBackend::Opened;
  // Limit of calls that wait for the disk; one more gets EBUSY. If a client disconnects, its call stays.
  static constexpr std::size_t kMaxCalls = 256;

  // How long something is waited for, and after what time it is done again.
  struct Times {
    std::chrono::milliseconds vacuum_every = std::chrono::hours(1);
    std::chrono::milliseconds take_again = std::chrono::seconds(10);  // STATE, until it was taken
    std::chrono::milliseconds save_again = std::chrono::seconds(10);  // after a failure to save the triggers' state
    // A snapshot must not be lost because the store's thread is busy.
    std::chrono::milliseconds room_wait = std::chrono::seconds(5);
    // A call that only reads: a script must not wait for ever. The store's thread may work for a while on a slow disk.
    std::chrono::milliseconds answer_within = std::chrono::minutes(2);
  };
  struct Setup {
    std::string folder;     // STATE/snapshots
    std::string state_dir;  // STATE
    std::string boot_id;    // of this boot
    StoreConfig config;
    // Takes STATE; store's thread. Called again until it succeeds, and nothing is written before. Empty: STATE was
    // taken.
    std::function<Result<StateFolder>()> take_state = {};
    // Called on the event loop if STATE was not taken in open(), but later; with its triggers.state.
    std::function<void(std::string saved)> opened_late = {};
    // Called on the event loop after another directory was found under the store's name, and is used from now on.
    std::function<void()> moved = [] {};
    Times times;
  };
  // Vacuums and repairs now, and then once an hour. `use_changed` is called on the event loop after each refresh of
  // use().
  StoreService(boost::asio::io_context& loop, std::unique_ptr<TaskThread> thread, Setup setup,
               std::function<void()> use_changed);
  StoreService(const StoreService&) = delete;
  StoreService& operator=(const StoreService&) = delete;
  ~StoreService();  // waits for the posted tasks; their results need a running loop

  // Once, at start: takes STATE, and returns the triggers' state in it. Waits for the disk for `most`; then, and if the
  // disk is missing or broken, the text is empty, trouble() has the reason, and the store's thread tries again. An
  // error: flightd must not start.
  [[nodiscard]] Result<std::string> open(std::chrono::milliseconds most);
  // Any thread. Whether STATE was taken; after that it stays true.
  [[nodiscard]] bool usable() const { return usable_; }
  // Any thread. Why STATE was not taken yet; nullopt: it was.
  [[nodiscard]] std::optional<Error> trouble() const;
  // The same for people: "degraded (disk): …", or empty.
  [[nodiscard]] std::string trouble_text() const;
  // Any thread: a snapshot was written. False: the file system cannot sync. Logged once, and in state_warnings().
  void snapshot_synced(bool synced);
  // Warnings about the file system of STATE: what it refused when STATE was taken, and that it cannot sync.
  [[nodiscard]] std::vector<std::string> state_warnings() const;
  // Any thread. A warning while another directory has the store's name than the first one; else empty. It is one of
  // state_warnings(), too.
  [[nodiscard]] std::string moved_warning() const;

  void list(Done done);
  void describe(std::string id, Done done);
  void remove(std::string id, Done done);
  void pin(std::string id, bool pinned, Done done);
  void read(std::string id, SnapshotFile file, Opened opened);
  void vacuum(bool dry_run, ControlBackend::Progress progress, Done done);
  // The sidecar of the newest snapshot; `found` is not called if none can be read.
  void find_newest(std::function<void(Sidecar)> found);

  // The space that the directory uses, as last measured.
  struct Use {
    Catalogue::Usage usage;
    std::uint64_t max_bytes = 0;  // 0: not known yet
    std::vector<std::string> warnings;
  };
  [[nodiscard]] const Use& use() const { return use_; }
  // Since when use() is being refreshed (monotonic); 0: it is not.
  [[nodiscard]] EventTime use_asked_ns() const { return use_asked_ns_; }
  // No-op while a refresh is running.
  void refresh_use();
  // Refreshes; `done` is called when use() is up to date, or after `most` if the disk hangs.
  void refresh_use(std::chrono::milliseconds most, std::function<void()> done);

  // The budget of a new configuration. Deletes nothing: a limit that was lowered by mistake can be raised again.
  void configure(const StoreConfig& config);
  // What the next vacuum will delete, for people; empty if that is nothing, or if the disk does not answer within
  // `most`. `done` is called once, on the event loop.
  void find_due(std::chrono::milliseconds most, std::function<void(std::string)> done);
  // Any thread: soon deletes what is over the budget.
  void keep_budget();
  // Snapshot worker's thread, before a snapshot of `trigger` with at most `most_bytes` is written: deletes what is
  // necessary, and returns the largest allowed file size (0: no separate limit). ENOSPC, EDQUOT: there is no space.
  // Waits for the store's thread, at most Times::room_wait; the writer reports a disk that does not answer. Tries to
  // take STATE if that was not possible before; if it fails again, that is the error. If the name leads to another
  // directory than before, that is used, and if it leads to none, one is made; ESTALE: it cannot be.
  [[nodiscard]] Result<std::uint64_t> make_room(const std::string& trigger, std::uint64_t most_bytes);
  // Snapshot worker's or merge's thread. The same after a write that failed because the disk or a quota is full,
  // although statvfs(3) reported space. True: snapshots were deleted for it, so it is worth another try.
  [[nodiscard]] bool make_more_room(const std::string& trigger, std::uint64_t needed_bytes);
  // A recording's thread, before a part that will have about `most_bytes`: the same. `begun_free_bytes`, `left_bytes`:
  // as of StoreBudget. nullopt: the disk does not answer, so nothing is known.
  struct PartLimit {
    std::uint64_t left_bytes = 0, free_bytes = 0;
    std::uint64_t max_files = 0;  // 0: no limit
  };
  [[nodiscard]] Result<std::optional<PartLimit>> make_part_room(
      std::uint64_t most_bytes, std::optional<std::uint64_t> begun_free_bytes = std::nullopt);
  // A recording's thread: as make_more_room(), for a part of about `bytes`.
  [[nodiscard]] bool make_more_part_room(std::uint64_t bytes);
  // Any thread. The parts of recordings that an earlier flightd could not finish, as found when STATE was taken; empty
  // from the second call on.
  [[nodiscard]] std::vector<std::uint64_t> take_left_parts();
  // Any thread: a part of a running recording, which is not vacuumed until it is released.
  void hold_part(std::uint64_t seq);
  void release_parts(const std::vector<std::uint64_t>& seqs);
  // Any thread: the snapshot was written, or failed. If deleting others for it did not help, no more are deleted for
  // the next ones until one was written (MadeRoom).
  void writing_ended(const std::optional<Error>& error);

  [[nodiscard]] const std::string& folder() const { return catalogue_.folder(); }
  [[nodiscard]] TriggerState& trigger_state() { return trigger_state_; }

 private:
  [[nodiscard]] std::optional<CallError> too_many_wait() const;
  [[nodiscard]] CallError not_found(const std::string& id, const Error& error) const;
  [[nodiscard]] std::optional<CallError> not_usable() const;
  // Runs `work` on the store's thread and passes its result to `done` on the event loop.
  template <typename Answer>
  void ask(std::function<CallResult<Answer>()> work, std::function<void(CallResult<Answer>)> done);
  // The same for a call that changes nothing: ETIMEDOUT after Times::answer_within. It still counts as a call.
  template <typename Answer>
  void ask_in_time(std::function<CallResult<Answer>()> work, std::function<void(CallResult<Answer>)> done);
  void keep_budget_hourly();
  // Store's thread: takes STATE if it was not taken. An error is what trouble() returns from now on.
  [[nodiscard]] Result<void> take_state();
  // Store's thread: uses another directory that has the store's name now, and makes one if none has. ESTALE: it cannot
  // be used.
  [[nodiscard]] Result<void> follow_folder();
  // Store's thread, before something is written: both of these, the clock, and leftovers.
  [[nodiscard]] Result<void> get_ready();
  // Store's thread: removes unfinished files that could not be removed before. A warning, logged once: some still
  // cannot; else empty.
  std::string remove_left_files();
  [[nodiscard]] Result<void> take_another(bool gone);
  [[nodiscard]] std::uint64_t continue_numbers(const Result<std::uint64_t>& before);
  void take_leftovers();
  void try_again();  // now and then, until STATE was taken
  void save_later();
  // Store's thread: the vacuum, and with it repairs.
  void vacuum_now();
  void tidy();
  [[nodiscard]] std::string due_text();      // store's thread
  void log_vacuumed(VacuumOutcome outcome);  // any thread
  // Store thread. Whether the last change is durable: logged once if it is not, and in use().
  void note(const Unsynced& unsynced);
  void note(const VacuumOutcome& outcome);
  // The same, and logs it. note_room(): it was for the snapshot that is being written.
  void report(VacuumOutcome outcome);
  void note_room(VacuumOutcome outcome);
  // Any thread that may wait: the store's thread deletes snapshots after a failed write. Whether it did.
  [[nodiscard]] bool delete_for(const std::string& trigger, std::uint64_t bytes);
  void sync_again();
  [[nodiscard]] std::string unsynced_text() const;

  boost::asio::io_context& loop_;
  std::function<void()> use_changed_;
  Use use_;                                                 // as last measured
  EventTime use_asked_ns_ = 0;                              // 0: no refresh is running
  std::map<std::uint64_t, std::function<void()>> waiting_;  // for the refresh; each is bounded by its caller's time
  std::uint64_t waiting_number_ = 0;
  std::size_t calls_ = 0;
  boost::asio::steady_timer hourly_;
  boost::asio::steady_timer again_;
  boost::asio::steady_timer save_again_;
  const Times times_;
  std::function<Result<StateFolder>()> take_;
  std::function<void(std::string)> opened_late_;
  std::function<void()> moved_;
  UniqueFd lock_;                  // of STATE; store thread only
  HeldStore held_;                 // store thread only
  std::uint64_t highest_seq_ = 0;  // of the directories before that had the store's name; store thread only
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  bool starting_ = true;                             // open() has not returned
  std::optional<Result<std::string>> first_answer_;  // for open()
  std::optional<Error> trouble_;
  std::vector<std::string> state_warnings_;
  std::string moved_warning_;
  std::vector<std::uint64_t> left_parts_;
  std::atomic<bool> usable_, trying_ = false;
  std::atomic<bool> writing_ = false;  // a snapshot is being written into the store
  MadeRoom made_room_;
  std::atomic<bool> never_syncs_ = false;  // its file system cannot sync
  std::atomic<std::uint64_t> max_snapshot_bytes_;
  std::mutex parts_mutex_;
  std::set<std::uint64_t> parts_;  // under parts_mutex_
  Catalogue catalogue_;            // store thread only
  AgeClock age_clock_;             // store thread only
  StoreBudget budget_;             // store thread only
  Unsynced unsynced_;              // store thread only
  bool left_files_said_ = false;   // store thread only
  TriggerState trigger_state_;
  std::unique_ptr<TaskThread> thread_;  // last member: it must end before the objects that its tasks use
};

}  // namespace flight::daemon
