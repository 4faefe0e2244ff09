// SPDX-License-Identifier: Apache-2.0
// Two empty files for the last snapshot, requested from the broker in advance. Files that flightd makes itself would
// belong to its user, and root's perf refuses them; an O_TMPFILE of the broker's could not be linked by flightd
// (fs.protected_hardlinks). The names are fixed, so the next flightd replaces those of a killed one. The files are
// closed until needed: an open file would prevent a read-only remount.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "libcore/broker/client.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight::daemon {

class SpareFiles {
 public:
  explicit SpareFiles(std::string folder) : folder_(std::move(folder)) {}
  SpareFiles(const SpareFiles&) = delete;
  SpareFiles& operator=(const SpareFiles&) = delete;
  ~SpareFiles();  // removes files that were not taken

  // `ask`: requests one file from the broker.
  [[nodiscard]] Result<void> fill(const std::function<Result<PartialFile>()>& ask);
  // The next fill() makes others; these stay where they are.
  void forget() { files_.reset(); }
  // The caller sets the number and removes the files.
  [[nodiscard]] Result<SnapshotOutput> take();

 private:
  std::string folder_;
  std::optional<SnapshotOutput> files_;  // O_PATH
};

// A last snapshot was written to spare files, which the group may write. Replaces each by a new file of `ask` with the
// same bytes, atomically for readers. ENOSPC: there is no space for both; nothing is written.
[[nodiscard]] Result<void> make_final(const std::string& folder, const std::function<Result<PartialFile>()>& ask);

}  // namespace flight::daemon
