// SPDX-License-Identifier: Apache-2.0
// What the folder holds, for the decision about what goes (retention.hpp), and the deed itself. Only regular files with
// exactly a snapshot's name are counted or touched. No sidecar is read: ten thousand snapshots cost their stat(2)s.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/retention.hpp"

namespace flight {

struct Inventory {
  std::vector<SnapshotName> names;
  std::vector<StoredSnapshot> snapshots;  // in the same order
  std::uint64_t kallsyms_bytes = 0;

  [[nodiscard]] std::uint64_t disk_bytes() const;
};
[[nodiscard]] Result<Inventory> take_inventory(const std::string& folder);

struct VacuumedSnapshot {
  std::string id, path;  // of the data file, there or not
  VacuumReason reason = VacuumReason::max_use;
  std::uint64_t bytes = 0;  // st_blocks of its files
};
// A row of Vacuum's reply.
[[nodiscard]] std::string to_json(const std::vector<VacuumedSnapshot>& removed);
[[nodiscard]] Result<std::vector<VacuumedSnapshot>> parse_vacuumed(std::string_view text);

// What would go by this plan.
[[nodiscard]] std::vector<VacuumedSnapshot> foretell_vacuum(const std::string& folder, const Inventory& inventory,
                                                            const VacuumPlan& plan);
// Data first, so that whatever stops us in between leaves a snapshot that is listed as `missing` and goes the next
// time; the folder is synced at the end. What cannot be removed is left out of `removed`, and the rest is removed all
// the same.
struct VacuumDone {
  std::vector<VacuumedSnapshot> removed;
  std::optional<Error> error;  // the first
};
[[nodiscard]] VacuumDone vacuum(const std::string& folder, const Inventory& inventory, const VacuumPlan& plan);

}  // namespace flight
