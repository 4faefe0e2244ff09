// SPDX-License-Identifier: Apache-2.0
// Keeps the store within `store.*` of the configuration: takes an inventory, decides (libcore/store/retention.hpp),
// deletes. Store thread only, because a disk may block; the status reads plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/keep_free_state.hpp"
#include "daemon/store/keep_free_watch.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/config/config.hpp"
#include "libcore/store/doubtful_time.hpp"
#include "libcore/store/vacuum.hpp"

namespace flight::daemon {

struct FileSystemSpace {
  // Free for users other than root. A total of 0: it does not report its size, as many of FUSE; then free_bytes is more
  // than any snapshot needs.
  std::uint64_t total_bytes = 0, free_bytes = 0;
  std::optional<std::uint64_t> free_inodes;  // nullopt: the file system has no fixed number (btrfs)
};
// nullopt: the file system does not report it.
[[nodiscard]] std::optional<FileSystemSpace> space_of(const std::string& folder);
// The limits in bytes; percentages and defaults are relative to the file system's size. If that size is unknown (0),
// shares cannot be computed: max_use is then the largest default, and keep_free is 0.
[[nodiscard]] StoreLimits limits_of(const StoreConfig& config, std::uint64_t total_bytes);

struct VacuumOutcome {
  std::vector<VacuumedSnapshot> removed;  // or would be, in a dry run
  std::uint64_t freed_bytes = 0;          // of these snapshots
  std::optional<Error> error;
  Unsynced unsynced;                  // of these deletions
  std::vector<std::string> warnings;  // for the user who asked: as StoreBudget::warnings, and about the clock
};

class StoreBudget {
 public:
  // `writing`: whether a snapshot is being written now; any thread. `clock`: checked before anything is deleted
  // because of its age. `in_use`: whether a number is that of a part of a running recording; any thread. `state_dir`:
  // STATE, for what must be known after a restart; empty: nothing is kept. `name_symbols`: says which snapshot needs
  // which kernel symbols; called only if the store exceeds max_use, because it may read all sidecars. Empty: not known.
  StoreBudget(std::string folder, const StoreConfig& config, std::function<bool()> writing,
              std::function<StoreClock()> clock, std::function<bool(std::uint64_t seq)> in_use = {},
              std::string state_dir = "", std::function<void(Inventory&)> name_symbols = {})
      : folder_(std::move(folder)),
        config_(config),
        writing_(std::move(writing)),
        clock_(std::move(clock)),
        in_use_(std::move(in_use)),
        name_symbols_(std::move(name_symbols)),
        keep_free_state_(std::move(state_dir)) {}

  void use(const StoreConfig& config) { config_ = config; }
  [[nodiscard]] std::uint64_t max_use_bytes() const;

  struct Order {
    bool dry_run = false;
    bool assess = false;  // in a dry run: warnings() are those of its limits from now on
    bool by_hand =
        false;  // for a user: sidecars without data go as well, and old snapshots even if the clock is doubtful
    std::optional<IncomingSnapshot> incoming;
    bool full = false;          // nothing is free, whatever statvfs(3) reports: it does not know quotas
    bool room_in_vain = false;  // as StoreNow's
    KeepFreeWatch::Time now = std::chrono::steady_clock::now();
    std::function<void(std::size_t number, std::size_t all)> progress;  // as of flight::vacuum(); empty: not needed
  };
  [[nodiscard]] VacuumOutcome vacuum(const Order& order);
  // Called before a snapshot of `trigger`, which would have at most `most_bytes`. ENOSPC: there is hardly any space, so
  // flightd does not begin it. `in_vain`: as StoreNow::room_in_vain. After an error, take_deleted() returns what was
  // deleted.
  [[nodiscard]] Result<VacuumOutcome> make_room(const std::string& trigger, std::uint64_t most_bytes,
                                                bool in_vain = false);
  // The same before a part of a recording, which will have about `most_bytes`. ENOSPC: not even its beginning fits.
  // `begun_free_bytes`: what was free when the recording began; nullopt: it begins now.
  struct PartRoom {
    VacuumOutcome outcome;
    StoreLimits limits;
    std::uint64_t free_bytes = 0;  // afterwards
    // The largest size of the part. It fits into max_use, beside all snapshots and the parts that are being written,
    // and leaves keep_free free. On a disk with less than keep_free, a recording may use half of what it found.
    std::uint64_t left_bytes = 0;
  };
  [[nodiscard]] Result<PartRoom> make_part_room(std::uint64_t most_bytes,
                                                std::optional<std::uint64_t> begun_free_bytes = std::nullopt,
                                                bool in_vain = false);
  // Returns what the last make_room() or make_part_room() deleted before it returned an error. The next call returns
  // nothing.
  [[nodiscard]] VacuumOutcome take_deleted() { return std::exchange(deleted_, {}); }
  // A snapshot of `trigger` failed because the disk or a quota is full (is_full): the oldest ones go, but only if that
  // frees `needed_bytes` and the likely size.
  [[nodiscard]] VacuumOutcome make_more_room(const std::string& trigger, std::uint64_t needed_bytes);
  // Warnings if the store is over a limit with nothing left to delete, or too small for a few snapshots. They are from
  // the last vacuum that was not a dry run, or that had `assess`.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  struct Plan {
    VacuumPlan deletions;
    std::string age;  // how a doubtful clock changed it, or would have
  };
  // The results of those plans that one vacuum() has already executed.
  struct Progress {
    std::set<std::uint64_t> stuck;  // numbers of snapshots that could not be deleted
    std::uint64_t freed_bytes = 0;
    std::string age;  // the first Plan's
  };
  [[nodiscard]] VacuumOutcome vacuum_once(const Order& order, Progress& progress);
  void restore_keep_free(KeepFreeWatch::Time now);
  [[nodiscard]] Plan plan(const Inventory& inventory, StoreLimits limits, const StoreNow& now, const Order& order);
  // The disk space of parts of recordings that are no snapshots yet; `running`: only of recordings that run.
  [[nodiscard]] std::uint64_t part_bytes(bool running) const;
  [[nodiscard]] std::vector<std::string> assess(const Inventory& inventory, const VacuumPlan& plan,
                                                const StoreLimits& limits) const;
  std::string folder_;
  StoreConfig config_;
  std::function<bool()> writing_;
  std::function<StoreClock()> clock_;
  std::function<bool(std::uint64_t)> in_use_;  // empty: none is
  std::function<void(Inventory&)> name_symbols_;
  VacuumOutcome deleted_;  // for take_deleted()
  KeepFreeWatch keep_free_;
  KeepFreeState keep_free_state_;
  std::string kept_;                   // why snapshots older than max_age by the clock are kept; empty: there are none
  std::vector<std::string> warnings_;  // the others
};

}  // namespace flight::daemon
