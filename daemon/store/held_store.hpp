// SPDX-License-Identifier: Apache-2.0
// The directory of the snapshots that flightd uses, held open: a file system that is mounted on it later, or taken
// away, makes its name lead to another one. Held, because FUSE can give another inode number to a directory that nobody
// has open. Store thread only.
#pragma once

#include <cstdint>
#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

// Whether `path` leads to the open file (device and inode).
[[nodiscard]] bool leads_to(const std::string& path, const UniqueFd& file);

class HeldStore {
 public:
  // What is there now, in place of what was held. Nothing if it cannot be opened.
  void hold(const std::string& folder);
  [[nodiscard]] bool holds() const { return static_cast<bool>(folder_); }
  // Whether another directory is there. False: nothing is, or it cannot be looked at.
  [[nodiscard]] bool is_another(const std::string& folder) const;
  // The largest number of a snapshot in the held one.
  [[nodiscard]] Result<std::uint64_t> last_seq() const;

 private:
  UniqueFd folder_;
};

}  // namespace flight::daemon
