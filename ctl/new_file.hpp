// SPDX-License-Identifier: Apache-2.0
// A file that appears complete or not at all: written as FILE.partial in its directory, synced and renamed by keep().
// It belongs to the caller, mode 0640, so that perf opens it. Without keep() it is removed with the object, and on
// SIGINT, SIGTERM and SIGHUP. Only one exists at a time.
#pragma once

#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::ctl {

class NewFile {
 public:
  // If `target` is a symbolic link, its target is replaced. EBUSY: another flightctl is writing it.
  [[nodiscard]] static Result<NewFile> create(const std::string& target);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Result<void> keep();

 private:
  NewFile(std::string path, std::string partial, UniqueFd fd);
  std::string path_, partial_;  // partial_ empty: kept, or moved from
  UniqueFd fd_;                 // locked: only the holder of the lock writes the file
};

}  // namespace flight::ctl
