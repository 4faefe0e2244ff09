// SPDX-License-Identifier: Apache-2.0
// Warnings about the store's limits.
#include <algorithm>
#include <numeric>

#include "daemon/store/budget.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

constexpr std::uint64_t kFewSnapshots = 4;  // warn if the budget holds fewer snapshots of the largest size

std::string over_limit(VacuumReason limit, const Inventory& inventory, const StoreLimits& limits) {
  switch (limit) {
    case VacuumReason::max_files:
      return fmt::format("it has {} of the {} that store.max_files allows",
                         counted(inventory.snapshots.size(), "snapshot"), limits.max_files);
    default: {
      const auto& symbols = inventory.symbols_bytes;
      const std::uint64_t symbols_bytes = std::accumulate(symbols.begin(), symbols.end(), std::uint64_t{0});
      return fmt::format(
          "it uses {}{}, but store.max_use allows {}", format_bytes(inventory.disk_bytes()),
          symbols_bytes == 0 ? "" : fmt::format(", {} of it for kernel symbols", format_bytes(symbols_bytes)),
          format_bytes(limits.max_use_bytes));
    }
  }
}

}  // namespace

std::vector<std::string> StoreBudget::warnings() const {
  std::vector<std::string> out;
  if (!kept_.empty()) out.push_back(kept_);
  out.insert(out.end(), warnings_.begin(), warnings_.end());
  return out;
}

std::vector<std::string> StoreBudget::assess(const Inventory& inventory, const VacuumPlan& plan,
                                             const StoreLimits& limits) const {
  std::vector<std::string> out;
  std::uint64_t largest = 0;
  std::size_t pinned = 0;
  for (const StoredSnapshot& snapshot : inventory.snapshots) {
    largest = std::max(largest, snapshot.disk_bytes);
    if (snapshot.pinned) ++pinned;
  }
  if (plan.still_over == VacuumReason::keep_free) {
    const FileSystemSpace space = space_of(folder_).value_or(FileSystemSpace{});
    const std::uint64_t used = space.total_bytes - std::min(space.total_bytes, space.free_bytes);
    const std::uint64_t own = inventory.disk_bytes();
    out.push_back(
        fmt::format("keep_free {} cannot be reached: {} free, others use {}, the store {}. No snapshot is deleted "
                    "for it: free some space, or lower store.keep_free.",
                    format_bytes(limits.keep_free_bytes), format_bytes(space.free_bytes),
                    format_bytes(used - std::min(used, own)), format_bytes(own)));
  } else if (plan.over_by_pinned)
    out.push_back(
        fmt::format("the store {} is over its budget because of pinned snapshots ({} of {} pinned): {}. The newest "
                    "one, and the first and last of each trigger, are kept in addition. Unpin or remove snapshots, "
                    "or raise the budget.",
                    folder_, pinned, inventory.snapshots.size(), over_limit(*plan.over_by_pinned, inventory, limits)));
  else if (plan.still_over && *plan.still_over != VacuumReason::room)
    out.push_back(
        fmt::format("the store {} is over its budget, and no snapshot may be deleted ({} of {} pinned, the newest "
                    "one is always kept): {}. Unpin or remove snapshots, or raise the budget.",
                    folder_, pinned, inventory.snapshots.size(), over_limit(*plan.still_over, inventory, limits)));
  if (limits.max_use_bytes / kFewSnapshots < largest)
    out.push_back(fmt::format("store.max_use is small: {} is less than {} snapshots of the size of the largest one, {}",
                              format_bytes(limits.max_use_bytes), kFewSnapshots, format_bytes(largest)));
  return out;
}

}  // namespace flight::daemon
