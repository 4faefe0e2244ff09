// SPDX-License-Identifier: Apache-2.0
// The last step: a file named *.perf.data is complete, whichever process was killed at whichever step. The data is
// synced, the sidecar is written and synced, then the sidecar gets its final name, then the data, then the directory
// is synced. A crash in between leaves .partial files or a sidecar without data, never a partial file under a final
// name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/snapshot/snapshot.hpp"
#include "libcore/store/names.hpp"

namespace flight {

// Removes the .partial files and data directories when it goes out of scope, unless they were kept. What cannot be
// removed then is removed later (libcore/store/leftovers.hpp).
class PartialFiles {
 public:
  PartialFiles(std::string folder, std::vector<std::string> names)
      : folder_(std::move(folder)), names_(std::move(names)) {}
  PartialFiles(const PartialFiles&) = delete;
  PartialFiles& operator=(const PartialFiles&) = delete;
  ~PartialFiles();
  void add(std::string name) { names_.push_back(std::move(name)); }
  void keep() { names_.clear(); }

 private:
  std::string folder_;
  std::vector<std::string> names_;
};

// Why perf refuses this file without `-f`: it opens only files of root or the caller. Empty: root owns it.
[[nodiscard]] std::string owner_warning(int data);

// Call it when `output.data` is complete and synced. Writes the sidecar and renames both. `make_room`: as in
// SnapshotOrder. False: the file system cannot sync the sidecar.
[[nodiscard]] Result<bool> commit(const SnapshotOutput& output, const SnapshotName& name, std::string_view sidecar,
                                  const std::function<bool(std::uint64_t needed_bytes)>& make_room);
// Makes the new names durable. If it fails, both files are complete and have their names: the snapshot is kept.
// False: the file system cannot sync directories.
[[nodiscard]] Result<bool> sync_folder(const std::string& path);

}  // namespace flight
