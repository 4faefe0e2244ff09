// SPDX-License-Identifier: Apache-2.0
// The files that are to be read, in one queue for each user. The users take turns, and one other than root has a share
// of the space and of a CPU, so that a user who maps files faster than they can be read does not occupy a helper. What
// all of them may use of a CPU over time is limited by ReadShare.
//
// Within a queue, the files of running processes come before those of exited ones, and the newest mapping comes first:
// a snapshot is about the present, and behind a long queue nothing of it would be read. So if there is no space, the
// oldest are dropped. Main thread only.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/broker/files/read_share.hpp"
#include "libcore/broker/build_ids.hpp"
#include "libcore/sysinfo/mapped_file.hpp"

namespace flight::broker {

class OwnerQueues {
 public:
  // The limits for all users together; a user other than root may have a quarter of each.
  static constexpr std::size_t kMaxQueued = kMaxKnownFiles, kMaxQueuedBytes = 8U << 20U;
  static constexpr std::size_t kMaxNames = 1024;  // of each user, to be checked; they take no space of the files
  static constexpr std::size_t kLookAhead = 64;   // positions in a user's queue, to find a file on another disk
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
  using IsThere = std::function<bool(std::uint32_t pid)>;

  // `share`: nullptr: without it. `is_there`: whether a process has not ended; empty: all are there.
  explicit OwnerQueues(ReadShare* share = nullptr, IsThere is_there = {})
      : share_(share), is_there_(std::move(is_there)) {}

  // The key of the queue that holds the files of `owner`. The number of queues is limited: all users beyond the limit
  // share one queue.
  [[nodiscard]] uid_t queue_of(uid_t owner) const;
  [[nodiscard]] bool has_space(uid_t owner, const MappedAt& at) const;
  // `again`: it was looked at before. False: there is no space.
  [[nodiscard]] bool add(uid_t owner, MappedAt at, bool again = false);
  // To make space for a file of this user, whose name has so many bytes: the oldest one of the user; or of the user
  // with the most, if this one is within their share and the space of all is used up. nullopt: there is none.
  [[nodiscard]] std::optional<Task> drop_oldest(uid_t owner, std::size_t bytes);
  // The next task: of the user whose turn it is, among those with a file that is not busy. `asked`: a snapshot waits.
  [[nodiscard]] std::optional<Task> take(const IsBusy& is_busy, Time now, bool asked = false);
  // Called when a task has ended. `used`: the CPU time that it took.
  void note_used(uid_t owner, std::chrono::nanoseconds used, Time now);
  // The time at which a user who uses more than a quarter of a CPU may begin the next task; nullopt: there is no such
  // user.
  [[nodiscard]] std::optional<Time> pace_ends(Time now) const;
  // As pace_ends(), but users who have used up what ReadShare permits count, too.
  [[nodiscard]] std::optional<Time> goes_on(Time now) const;

  [[nodiscard]] bool empty() const { return queues_.empty(); }
  // There is nothing that may be read now: nothing at all, or only files of users who are kept waiting.
  [[nodiscard]] bool all_wait(Time now, bool asked = false) const;
  // Calls `look` for each file. `is_held`: ReadShare does not permit to read it now.
  void each(Time now, bool asked, const std::function<void(const MappedAt&, bool is_held)>& look) const;

 private:
  // Files are read in this order, except that fresh ones and `again` ones (known, mapped again) take turns.
  enum class Rank : std::uint8_t { fresh, again, ended, name };
  static constexpr std::size_t kRanks = 4;
  using Files = std::deque<MappedAt>;  // the newest is last; of names, which are all of one moment, the first
  struct Queue {
    std::array<Files, kRanks> files;
    std::size_t count = 0, bytes = 0;  // of all but names; the bytes of their names
    bool again_is_next = false;
    [[nodiscard]] bool empty() const { return count == 0 && of(Rank::name).empty(); }
    [[nodiscard]] Files& of(Rank rank) { return files[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] const Files& of(Rank rank) const { return files[static_cast<std::size_t>(rank)]; }
  };
  using Queues = std::map<uid_t, Queue>;
  [[nodiscard]] static std::array<Rank, kRanks> order_of(const Queue& queue);
  [[nodiscard]] static bool is_over(const Queue& queue, std::size_t bytes);
  [[nodiscard]] bool are_all_over(std::size_t bytes) const;
  [[nodiscard]] std::optional<Time> begins(uid_t owner) const;
  [[nodiscard]] bool is_paced(uid_t owner, Time now) const;
  [[nodiscard]] static ReadShare::Use use_of(Rank rank, bool asked);
  [[nodiscard]] bool is_held(uid_t owner, Rank rank, Time now, bool asked) const;
  [[nodiscard]] bool waits(uid_t owner, Rank rank, Time now, bool asked) const;
  void set_aside_ended(Queue& queue) const;
  [[nodiscard]] MappedAt remove(Queue& queue, Rank rank, std::size_t position);
  [[nodiscard]] Task take_from(Queues::iterator user, Rank rank, std::size_t first);

  ReadShare* share_;
  IsThere is_there_;
  Queues queues_;  // none is empty
  uid_t last_owner_ = 0;
  std::map<uid_t, Time> paid_until_;           // of those who took more than their share of late
  std::size_t queued_ = 0, queued_bytes_ = 0;  // without names to be checked
};

}  // namespace flight::broker
