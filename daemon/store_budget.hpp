// SPDX-License-Identifier: Apache-2.0
// Keeps the store within what the configuration gives it (`store.*`): asks what is there, decides (libcore/store's
// retention), deletes. On the store's thread only, because a disk may take its time; what a status wants to know is
// handed out as plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcore/config/config.hpp"
#include "libcore/store/vacuum.hpp"

namespace flight {

struct FileSystemSpace {
  std::uint64_t total_bytes = 0, free_bytes = 0;  // free for those who are not root
};
// nullopt: it does not say.
[[nodiscard]] std::optional<FileSystemSpace> space_of(const std::string& folder);
// As bytes; the shares and the defaults are of the file system's size.
[[nodiscard]] StoreLimits limits_of(const StoreConfig& config, std::uint64_t total_bytes);

struct VacuumOutcome {
  std::vector<VacuumedSnapshot> removed;  // or would be, in a dry run
  std::uint64_t freed_bytes = 0;          // of those
  std::optional<Error> error;
};

class StoreBudget {
 public:
  // `writing`: whether a snapshot is being written now; any thread.
  StoreBudget(std::string folder, const StoreConfig& config, std::function<bool()> writing)
      : folder_(std::move(folder)), config_(config), writing_(std::move(writing)) {}

  void use(const StoreConfig& config) { config_ = config; }
  [[nodiscard]] std::uint64_t max_use_bytes() const;

  struct Order {
    bool dry_run = false;
    bool drop_missing = false;
    std::optional<IncomingSnapshot> incoming;
  };
  [[nodiscard]] VacuumOutcome vacuum(const Order& order);
  // Before a snapshot of `trigger`, which would have at most `most_bytes`. ENOSPC: there is hardly any room at all, so
  // it is not worth the work.
  [[nodiscard]] Result<VacuumOutcome> make_room(const std::string& trigger, std::uint64_t most_bytes);
  // How the store is not what its configuration says: over a limit with nothing left to delete, or too small for a
  // handful of snapshots. As the last vacuum but for a dry one found it.
  [[nodiscard]] std::vector<std::string> warnings() const { return warnings_; }

 private:
  [[nodiscard]] std::vector<std::string> judge(const Inventory& inventory, const VacuumPlan& plan,
                                               const StoreLimits& limits) const;
  std::string folder_;
  StoreConfig config_;
  std::function<bool()> writing_;
  std::vector<std::string> warnings_;
};

}  // namespace flight
