// SPDX-License-Identifier: Apache-2.0
// Selects the snapshots to delete when the store is over its budget: a decision about plain values, which touches no
// file (vacuum.hpp executes it).
//
//   deleted first                                                                          never deleted
//   older than max_age │ between, the oldest first │ second of a trigger │ first and last │ pinned, the newest
//                                                    (keep_first, keep_last: from inside out; not for room)
//
// Three goals, in this order:
//
//   own limits  max_age, max_files, max_use: the store is the only cause, so deleting reaches them. Not if the pinned
//               ones alone exceed max_files or max_use: then the first and last of each trigger go only if they exceed
//               it without the pinned ones. Nor if the newest one, or the incoming one, exceeds max_use alone: then it
//               does not count. One that is not the newest any more goes before all others then
//   room        for the snapshot that is about to be written: the oldest go, also the first and last of a trigger, but
//               only if that makes enough room
//   keep_free   others fill the disk, too: only snapshots outside of the kept ones go, and only if that reaches it
//
// A part of a running recording is never deleted, and counts as one that must be kept.
//
// For the last two, snapshots with other hard links go only if the others are not enough, and none goes that frees
// nothing of what is lacking.
//
// The order is that of SEQ, never of the clock, which may step. A snapshot with a time in the future counts as old as
// its predecessor, so it is neither deleted at once nor kept without limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

// A snapshot as listed in the directory, without reading it.
struct StoredSnapshot {
  std::uint64_t seq = 0;
  std::string trigger;
  WallTime time{};                // from its name
  std::uint64_t disk_bytes = 0;   // st_blocks of all its files
  std::uint64_t freed_bytes = 0;  // of those that have no other link: deleting the others frees nothing
  std::uint64_t inodes = 1;       // the number of these files
  bool data = true;               // false: the data file is missing, only a sidecar exists
  bool pinned = false;
  bool in_use = false;                      // a part of a recording that is still running, or it cannot be deleted
  std::optional<std::size_t> symbols = {};  // the kernel symbols that it needs, in StoreNow; nullopt: not known
};

// 0: no such limit, except for the two counts. max_use includes the kernel's symbols, which belong to many snapshots: a
// file of them becomes free with the last one that needs it. Those that stay in any case do not count if they exceed
// max_use alone: all snapshots would be deleted without freeing them.
struct StoreLimits {
  std::uint64_t max_use_bytes = 0, keep_free_bytes = 0, max_files = 0;
  std::chrono::nanoseconds max_age{};
  std::uint64_t keep_first = 0, keep_last = 0;
};

inline constexpr std::uint64_t kNeededInodes = 8;  // two files of a snapshot, its pin, files being replaced
inline constexpr std::uint64_t kLeastInodes = 2;   // its data file and its sidecar

// A snapshot that is about to be written: it will be the newest, and the last of its trigger.
struct IncomingSnapshot {
  std::string trigger;
  std::uint64_t disk_bytes = 0;  // an estimate
  // The size of unfinished files that are being written at the same time. They count for max_use, but their space is
  // already in use, so nothing is deleted to make room for them.
  std::uint64_t beside_bytes = 0;
  std::uint64_t least_inodes = kLeastInodes;
};

struct StoreNow {
  std::uint64_t free_bytes = 0;  // of the file system, for users other than root
  // The free inodes, if the file system has a fixed number. With fewer than kNeededInodes there is no room for a
  // snapshot, whatever space is free. If deletions would not give so many, with fewer than its least_inodes.
  std::optional<std::uint64_t> free_inodes;
  WallTime time{};
  std::optional<IncomingSnapshot> incoming;
  bool drop_missing = false;  // a user cleans up: also delete snapshots without data
  // A snapshot is being written. Its sidecar gets its name before its data, so the newest one is not deleted if its
  // data seems missing.
  bool writing = false;
  // Deletions for room did not help the last time: nothing is deleted for it.
  bool room_in_vain = false;
  std::vector<std::uint64_t> symbols_bytes{};  // of each file of kernel symbols
};

enum class VacuumReason { missing, max_age, max_files, max_use, room, keep_free };
[[nodiscard]] std::string_view to_string(VacuumReason reason);  // as in the configuration

struct VacuumVictim {
  std::size_t index = 0;  // in the list of snapshots
  VacuumReason reason = VacuumReason::max_use;
};
struct VacuumPlan {
  std::vector<VacuumVictim> victims;  // in the order of deletion
  // The limit that is still exceeded, because nothing more may be deleted, or because deleting would not reach it;
  // nullopt: none.
  std::optional<VacuumReason> still_over;
  std::uint64_t keep_free_counted_bytes = 0;  // what the victims for keep_free should free
  // The limit that the pinned ones exceed, even if all others were deleted but the newest or the incoming one; nullopt:
  // none.
  std::optional<VacuumReason> over_by_pinned;
};

// `snapshots` in any order.
[[nodiscard]] VacuumPlan plan_vacuum(const std::vector<StoredSnapshot>& snapshots, const StoreLimits& limits,
                                     const StoreNow& now);

}  // namespace flight
