// SPDX-License-Identifier: Apache-2.0
// Holds the directory of the snapshots open, to notice that its name leads to another directory: a file system may be
// mounted over it later, or unmounted. It must stay open for this, because FUSE can give a directory that no process
// has open another inode number. Store thread only.
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
  // Holds the directory that has this name now, in place of the former one. If it cannot be opened, nothing is held.
  void hold(const std::string& folder);
  [[nodiscard]] bool holds() const { return static_cast<bool>(folder_); }
  // True if the name leads to another directory now. False also if there is none, or if it cannot be looked at.
  [[nodiscard]] bool is_another(const std::string& folder) const;
  // The largest number of a snapshot in the held one.
  [[nodiscard]] Result<std::uint64_t> last_seq() const;

 private:
  UniqueFd folder_;
};

}  // namespace flight::daemon
