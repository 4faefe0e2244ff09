// SPDX-License-Identifier: Apache-2.0
// Remembers whether it helped to delete snapshots for the next one. If it did not, no more are deleted for the next
// ones until one was written: others take what becomes free, or the file system does not release it (a snapshot of its
// own has it), and further deletions would only empty the store. Any thread.
#pragma once

#include <atomic>
#include <optional>

#include "libcore/base/result.hpp"

namespace flight::daemon {

class MadeRoom {
 public:
  // A snapshot is about to be written.
  void begin() { made_ = false; }
  // Snapshots were deleted to make room while it was being written, or just before.
  void note_made() { made_ = true; }
  // Snapshots were deleted for it after its write had failed, and it is written again.
  void note_retry() { retried_ = true; }
  // It was written, or failed with `error`. True: this set in_vain().
  [[nodiscard]] bool end(const std::optional<Error>& error);

  // A snapshot failed because the disk is full, although room was made for it. None was written since.
  [[nodiscard]] bool in_vain() const { return in_vain_; }
  // The same for a second try: snapshots were deleted for the last one, and it failed for whatever reason.
  [[nodiscard]] bool retry_in_vain() const { return in_vain_ || retried_; }

 private:
  std::atomic<bool> made_ = false, retried_ = false, in_vain_ = false;
};

}  // namespace flight::daemon
