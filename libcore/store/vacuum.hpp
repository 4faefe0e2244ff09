// SPDX-License-Identifier: Apache-2.0
// Takes the inventory for a vacuum and deletes what retention.hpp decided. Only regular files and data directories with
// exactly a snapshot's name are counted or deleted. No sidecar is read: ten thousand snapshots cost one stat(2) per
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/retention.hpp"

namespace flight {

struct Inventory {
  std::vector<SnapshotName> names;
  std::vector<StoredSnapshot> snapshots;  // in the same order
  // The files with kernel symbols. Which snapshot needs which is not known without the sidecars.
  std::vector<std::string> symbols;
  std::vector<std::uint64_t> symbols_bytes;

  [[nodiscard]] std::uint64_t disk_bytes() const;  // of all, as store.max_use counts them
};
[[nodiscard]] Result<Inventory> take_inventory(const std::string& folder);

struct VacuumedSnapshot {
  std::string id, path;  // path of the data file, also if it is missing
  VacuumReason reason = VacuumReason::max_use;
  std::uint64_t bytes = 0;  // st_blocks of its files
};
// A row of Vacuum's reply.
[[nodiscard]] std::string to_json(const std::vector<VacuumedSnapshot>& removed);
[[nodiscard]] Result<std::vector<VacuumedSnapshot>> parse_vacuumed(std::string_view text);

// The snapshots that this plan would delete.
[[nodiscard]] std::vector<VacuumedSnapshot> predict_vacuum(const std::string& folder, const Inventory& inventory,
                                                           const VacuumPlan& plan);
// Deletes the data first: if flightd is stopped in between, the snapshot is listed as `missing` and the next vacuum
// deletes it. The directory is synced at the end. Files that cannot be removed are not in `removed`; the rest is
// removed anyway.
struct VacuumDone {
  std::vector<VacuumedSnapshot> removed;
  std::vector<std::size_t> removed_at;  // their indices in the inventory
  // The indices of snapshots that cannot be removed for a reason of their own: a user made one immutable, mounted
  // something on it, or put a file into its data directory. Each attempt fails, and nothing becomes free.
  std::vector<std::size_t> stuck_at;
  std::optional<Error> error;  // the first
  Unsynced unsynced;           // they were deleted, but the directory could not be synced
};
// `progress`: called after each victim, with its number and that of all.
[[nodiscard]] VacuumDone vacuum(const std::string& folder, const Inventory& inventory, const VacuumPlan& plan,
                                const std::function<void(std::size_t number, std::size_t all)>& progress = {});

}  // namespace flight
