// SPDX-License-Identifier: Apache-2.0
// Holds the directory of the snapshots open, to notice that its name leads to another directory: a file system may be
// mounted over it later, or unmounted. It must stay open for this, because FUSE can give a directory that no process
// has open another inode number. Store thread only.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

// Whether `path` leads to the open file (device and inode).
[[nodiscard]] bool leads_to(const std::string& path, const UniqueFd& file);

// Why flightd, which runs as `self`, cannot rename files that root made in this directory; empty: it can. In a sticky
// directory, only the owner of the file or of the directory may rename it (sticky(7)).
[[nodiscard]] std::string sticky_trouble(const struct stat& folder, uid_t self);

class HeldStore {
 public:
  // Holds the directory that has this name now, in place of the former one. If it cannot be opened, nothing is held.
  void hold(const std::string& folder);
  [[nodiscard]] bool holds() const { return static_cast<bool>(folder_); }
  // Compares the directory that has the name now with the held one. The result is also `same` if nothing is held, or
  // if the name cannot be looked up.
  enum class Name { same, another, gone };
  [[nodiscard]] Name look(const std::string& folder) const;
  // Whether the held one is the first one that was held.
  [[nodiscard]] bool is_first() const;
  // The largest number of a snapshot in the held one.
  [[nodiscard]] Result<std::uint64_t> last_seq() const;

 private:
  UniqueFd folder_;
  dev_t first_device_ = 0;
  ino_t first_inode_ = 0;  // 0: none was held
};

}  // namespace flight::daemon
