// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written as FILE.partial beside its place, synced and renamed by keep(). It
// is the caller's own, mode 0640, so that perf opens it. Until then nothing stays of it, whatever happens: it goes with
// the object, and on SIGINT, SIGTERM and SIGHUP. One at a time.
#pragma once

#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::ctl {

class NewFile {
 public:
  // A symbolic link at `target` stays one: what it points to is replaced. EBUSY: another flightctl writes it now.
  [[nodiscard]] static Result<NewFile> create(const std::string& target);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Result<void> keep();

 private:
  NewFile(std::string path, std::string partial, UniqueFd fd);
  std::string path_, partial_;  // partial_ empty: kept, or moved from
  UniqueFd fd_;                 // locked: who cannot lock it does not write it
};

}  // namespace flight::ctl
