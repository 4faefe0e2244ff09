// SPDX-License-Identifier: Apache-2.0
// Which snapshots go when the store is over its budget: a decision about plain values, which touches no file
// (vacuum.hpp does what it says).
//
//   goes first                                                                             never goes
//   older than max_age │ between, the oldest first │ second of a trigger │ first and last │ pinned, the newest
//                                                    (keep_first, keep_last: from inside out)
//
// Order is by SEQ, never by the clock: that may step. A snapshot from the future (the clock was wrong, then or now) is
// as old as the one before it, so it is neither too old at once nor there for ever.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

// A snapshot as the folder shows it, without a look into it.
struct StoredSnapshot {
  std::uint64_t seq = 0;
  std::string trigger;
  WallTime time{};               // by its name
  std::uint64_t disk_bytes = 0;  // st_blocks of all its files
  bool data = true;              // false: the data file is gone, only a sidecar is left
  bool pinned = false;
};

// 0: no such limit, but for the two kept ones.
struct StoreLimits {
  std::uint64_t max_use_bytes = 0, keep_free_bytes = 0, max_files = 0;
  std::chrono::nanoseconds max_age{};
  std::uint64_t keep_first = 0, keep_last = 0;
};

// One that is about to be written: the newest then, and the last of its trigger.
struct IncomingSnapshot {
  std::string trigger;
  std::uint64_t disk_bytes = 0;  // a guess
};

struct StoreNow {
  std::uint64_t free_bytes = 0;    // of the file system, for those who are not root
  std::uint64_t shared_bytes = 0;  // of ours that belong to no single snapshot: the boots' kernel symbols
  WallTime time{};
  std::optional<IncomingSnapshot> incoming;
  bool drop_missing = false;  // somebody cleans up: what has lost its data goes as well
  // A snapshot is being written. Its sidecar gets its name before its data does, so the newest that seems to have lost
  // its data is left alone.
  bool writing = false;
};

enum class VacuumReason { missing, max_age, max_files, max_use, keep_free };
[[nodiscard]] std::string_view to_string(VacuumReason reason);  // as the configuration calls it

struct VacuumVictim {
  std::size_t index = 0;  // of the snapshots that were given
  VacuumReason reason = VacuumReason::max_use;
};
struct VacuumPlan {
  std::vector<VacuumVictim> victims;  // in the order in which they go
  // What is over its limit even then, because nothing more may go; nullopt: all is well.
  std::optional<VacuumReason> still_over;
};

// `snapshots` in any order.
[[nodiscard]] VacuumPlan plan_vacuum(const std::vector<StoredSnapshot>& snapshots, const StoreLimits& limits,
                                     const StoreNow& now);

}  // namespace flight
