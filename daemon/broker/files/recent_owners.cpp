// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/recent_owners.hpp"

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight::broker {

RecentOwners::Process& RecentOwners::remember(std::uint32_t pid) {
  const auto [at, is_new] = recent_.try_emplace(pid);
  if (!is_new) {
    by_age_.splice(by_age_.end(), by_age_, at->second.place);
    return at->second;
  }
  at->second.place = by_age_.insert(by_age_.end(), pid);
  if (by_age_.size() > kMaxProcesses) {
    recent_.erase(by_age_.front());
    by_age_.pop_front();
  }
  return at->second;
}

void RecentOwners::note(std::span<const std::byte> records) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_FORK) continue;
    const auto fork = parse_task(record);
    if (!fork || fork->pid == fork->ppid) continue;  // a thread
    Process& process = remember(fork->pid);
    process.parent = fork->ppid;
    process.owner.reset();
  }
}

// The owner of a process that exists, or that was seen after its pid was last given to a new process.
std::optional<uid_t> RecentOwners::seen(std::uint32_t pid) {
  const auto [at, is_new] = looked_at_.try_emplace(pid);
  if (!is_new) return at->second;
  at->second = owner_of_(pid);
  if (at->second)
    remember(pid).owner = at->second;
  else if (const auto known = recent_.find(pid); known != recent_.end())
    at->second = known->second.owner;
  return at->second;
}

std::optional<uid_t> RecentOwners::of_ended(std::uint32_t pid) {
  for (int i = 0; i < kMaxAncestors; ++i) {
    const auto child = recent_.find(pid);
    if (child == recent_.end() || child->second.parent == 0) return std::nullopt;
    pid = child->second.parent;
    const auto owner = seen(pid);
    if (owner) return *owner != 0 ? owner : std::nullopt;
  }
  return std::nullopt;
}

std::optional<uid_t> RecentOwners::own(std::uint32_t pid) const {
  const auto known = recent_.find(pid);
  return known != recent_.end() ? known->second.owner : std::nullopt;
}

std::optional<uid_t> RecentOwners::likely(std::uint32_t pid) const {
  for (int i = 0; i <= kMaxAncestors; ++i) {
    const auto known = recent_.find(pid);
    if (known == recent_.end()) return std::nullopt;
    const auto& owner = known->second.owner;
    if (owner) return i == 0 || *owner != 0 ? owner : std::nullopt;
    pid = known->second.parent;
  }
  return std::nullopt;
}

std::optional<uid_t> RecentOwners::of(std::uint32_t pid) {
  const auto owner = seen(pid);
  return owner ? owner : of_ended(pid);
}

}  // namespace flight::broker
