// SPDX-License-Identifier: Apache-2.0
// The files that are to be read, in one queue for each user. The users take turns, and one other than root has a share
// of the space. Main thread only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "libcore/broker/build_ids.hpp"
#include "libcore/sysinfo/mapped_file.hpp"

namespace flight::broker {

class OwnerQueues {
 public:
  // Of all users; one other than root may have a quarter.
  static constexpr std::size_t kMaxQueued = kMaxKnownFiles, kMaxQueuedBytes = 8U << 20U;
  static constexpr std::size_t kLookAhead = 64;  // positions in a user's queue, to find a file on another disk
  static constexpr std::size_t kMaxOfTask = 16;

  // Files of one process on one disk: each end of a task wakes the main thread.
  struct Task {
    uid_t owner = 0;
    std::vector<MappedAt> files;
  };
  using IsBusy = std::function<bool(const MappedAt& at, uid_t owner)>;

  // False: there is no space.
  [[nodiscard]] bool add(uid_t owner, MappedAt at);
  // Of the user whose turn it is, and who has a file that is not busy.
  [[nodiscard]] std::optional<Task> take(const IsBusy& is_busy);

  [[nodiscard]] bool empty() const { return queues_.empty(); }
  // Calls `look` for each file.
  void each(const std::function<void(const MappedAt&)>& look) const;

 private:
  struct Queue {
    std::deque<MappedAt> files;
    std::size_t bytes = 0;  // of their names
  };
  [[nodiscard]] Task take_from(uid_t owner, Queue& queue, std::size_t first);

  std::map<uid_t, Queue> queues_;  // none is empty
  uid_t last_owner_ = 0;
  std::size_t queued_ = 0, queued_bytes_ = 0;
};

}  // namespace flight::broker
