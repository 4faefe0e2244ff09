// SPDX-License-Identifier: Apache-2.0
// The user of each process, of exited ones, too: many exit before the broker looks. An exited process keeps the user
// that it had when it was last seen, else the user of the process that forked it. So a user's short programs count for
// that user, and not for all. A FORK begins a new process with its pid. If that record is lost, and the process has
// ended as well, it counts for the user of the one before: nothing but a share depends on that. Bounded. Main thread
// only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "daemon/broker/files/process_owner.hpp"

namespace flight::broker {

class RecentOwners {
 public:
  using OwnerOf = std::function<std::optional<uid_t>(std::uint32_t pid)>;
  // Those that forked or were looked at longest ago are forgotten first. More than fork on some CPUs between two looks.
  static constexpr std::size_t kMaxProcesses = 16'384;
  static constexpr int kMaxAncestors = 8;

  explicit RecentOwners(OwnerOf owner = owner_if_there) : owner_of_(std::move(owner)) {}

  // FORK records of the kernel; the others are ignored.
  void note(std::span<const std::byte> records);
  // A process that was looked at before can have another owner by now.
  void begin_look() { looked_at_.clear(); }
  // nullopt: it has ended, and its owner is not known. An ended process is root's only if it was seen to be:
  // services are forked by root's processes before they become their user's, and for some limits root is an exception.
  [[nodiscard]] std::optional<uid_t> of(std::uint32_t pid);
  // The next three take no look at /proc, and what they know can have changed since.
  // Whether there was a look at this process since begin_look(), so that of() need not look at it, either.
  [[nodiscard]] bool was_looked_at(std::uint32_t pid) const { return looked_at_.contains(pid); }
  // The user that this process had when it was last seen. nullopt: it was not.
  [[nodiscard]] std::optional<uid_t> own(std::uint32_t pid) const;
  // The same, or else the user that its parent had, if that was not root. A guess: it can be root's (sudo).
  [[nodiscard]] std::optional<uid_t> likely(std::uint32_t pid) const;

 private:
  struct Process {
    std::uint32_t parent = 0;
    std::optional<uid_t> owner;
    std::list<std::uint32_t>::iterator place;
  };
  Process& remember(std::uint32_t pid);
  [[nodiscard]] std::optional<uid_t> seen(std::uint32_t pid);
  [[nodiscard]] std::optional<uid_t> of_ended(std::uint32_t pid);

  OwnerOf owner_of_;
  std::map<std::uint32_t, std::optional<uid_t>> looked_at_;  // during one look
  std::unordered_map<std::uint32_t, Process> recent_;
  std::list<std::uint32_t> by_age_;  // the keys of recent_
};

}  // namespace flight::broker
