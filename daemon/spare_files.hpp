// SPDX-License-Identifier: Apache-2.0
// Two empty files for one snapshot, asked of the broker while it lives: the last snapshot, after its death, must be
// root's like all others (perf opens a file only if root or the caller owns it). Their names are fixed, so that those
// that a killed flightd left behind are replaced by the next one's. They are not kept open for writing: nobody could
// remount the disk read-only.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "libcore/broker/client.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight {

class SpareFiles {
 public:
  explicit SpareFiles(std::string folder) : folder_(std::move(folder)) {}
  SpareFiles(const SpareFiles&) = delete;
  SpareFiles& operator=(const SpareFiles&) = delete;
  ~SpareFiles();  // removes what was not taken

  // `ask`: one file of the broker's.
  [[nodiscard]] Result<void> fill(const std::function<Result<PartialFile>()>& ask);
  // Without its number. Whoever takes it removes it.
  [[nodiscard]] Result<SnapshotOutput> take();

 private:
  std::string folder_;
  std::optional<SnapshotOutput> files_;  // O_PATH
};

// The files of a last snapshot were spare ones, which the group may write: each is replaced by one of `ask`'s with the
// same bytes. At once for whoever reads them: the old or the new.
[[nodiscard]] Result<void> make_final(const std::string& folder, const std::function<Result<PartialFile>()>& ask);

}  // namespace flight
