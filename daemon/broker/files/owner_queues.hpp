// SPDX-License-Identifier: Apache-2.0
// The files that are to be read, in one queue for each user. The users take turns, and one other than root has a share
// of the space and of a CPU, so that a user who maps files faster than they can be read does not occupy a helper. Main
// thread only.
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
  using Time = std::chrono::steady_clock::time_point;
  // After a task that took the CPU time t, the user's next task begins kPace * t after the first one's beginning, or
  // later. Up to kAhead is granted in advance, so that a program with many files is read without a pause.
  static constexpr int kPace = 4;
  static constexpr std::chrono::milliseconds kAhead{400};
  using IsBusy = std::function<bool(const MappedAt& at, uid_t owner)>;

  // False: there is no space.
  [[nodiscard]] bool add(uid_t owner, MappedAt at);
  // The next task: of the user whose turn it is, among those with a file that is not busy.
  [[nodiscard]] std::optional<Task> take(const IsBusy& is_busy, Time now);
  // Called when a task has ended. `used`: the CPU time that it took.
  void note_used(uid_t owner, std::chrono::nanoseconds used, Time now);
  // When the next task may begin of a user who took more than their share of a CPU; nullopt: there is no such user.
  [[nodiscard]] std::optional<Time> goes_on(Time now) const;

  [[nodiscard]] bool empty() const { return queues_.empty(); }
  // There is nothing that may be read now: nothing at all, or only files of users who are kept waiting.
  [[nodiscard]] bool all_wait(Time now) const;
  // Calls `look` for each file.
  void each(const std::function<void(const MappedAt&)>& look) const;

 private:
  struct Queue {
    std::deque<MappedAt> files;  // those by_name are last
    std::ptrdiff_t checks = 0;   // the number of these
    std::size_t bytes = 0;       // of their names
  };
  [[nodiscard]] std::optional<Time> begins(uid_t owner) const;
  [[nodiscard]] Task take_from(uid_t owner, Queue& queue, std::size_t first);

  std::map<uid_t, Queue> queues_;  // none is empty
  uid_t last_owner_ = 0;
  std::map<uid_t, Time> paid_until_;  // of those who took more than their share of late
  std::size_t queued_ = 0, queued_bytes_ = 0;
};

}  // namespace flight::broker
