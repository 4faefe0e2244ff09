// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/owner_queues.hpp"

#include <algorithm>
#include <utility>

#include "daemon/broker/files/file_table.hpp"

namespace flight::broker {

bool OwnerQueues::add(uid_t owner, MappedAt at) {
  constexpr std::size_t kShares = FileTable::kShares;
  if (queues_.size() >= FileTable::kMaxOwners && !queues_.contains(owner)) owner = kEndedOwner;
  const auto has = queues_.find(owner);
  const std::size_t bytes = at.name.size();
  const bool is_over =
      owner != 0 && has != queues_.end() &&
      (has->second.files.size() >= kMaxQueued / kShares || has->second.bytes + bytes > kMaxQueuedBytes / kShares);
  if (is_over || queued_ >= kMaxQueued || queued_bytes_ + bytes > kMaxQueuedBytes) return false;
  Queue& queue = has != queues_.end() ? has->second : queues_[owner];
  ++queued_;
  queued_bytes_ += bytes;
  queue.bytes += bytes;
  // Names can wait, and a process that has mapped a file may end soon.
  const bool is_check = at.by_name;
  queue.files.insert(is_check ? queue.files.end() : queue.files.end() - queue.checks, std::move(at));
  if (is_check) ++queue.checks;
  return true;
}

void OwnerQueues::note_used(uid_t owner, std::chrono::nanoseconds used, Time now) {
  std::erase_if(paid_until_, [now](const auto& one) { return one.second <= now; });
  if (owner == 0) return;
  Time& until = paid_until_[owner];
  until = std::max(until, now - used) + kPace * used;
}

std::optional<OwnerQueues::Time> OwnerQueues::begins(uid_t owner) const {
  const auto found = paid_until_.find(owner);
  return found != paid_until_.end() ? std::optional(found->second - kAhead) : std::nullopt;
}

std::optional<OwnerQueues::Time> OwnerQueues::goes_on(Time now) const {
  std::optional<Time> first;
  for (const auto& [owner, queue] : queues_)
    if (const auto begin = begins(owner); begin && *begin > now) first = std::min(first.value_or(*begin), *begin);
  return first;
}

bool OwnerQueues::all_wait(Time now) const {
  return std::all_of(queues_.begin(), queues_.end(), [&](const auto& one) {
    const auto begin = begins(one.first);
    return begin && *begin > now;
  });
}

std::optional<OwnerQueues::Task> OwnerQueues::take(const IsBusy& is_busy, Time now) {
  auto user = queues_.upper_bound(last_owner_);
  for (std::size_t i = 0; i < queues_.size(); ++i, ++user) {
    if (user == queues_.end()) user = queues_.begin();
    if (const auto begin = begins(user->first); begin && *begin > now) continue;
    Queue& queue = user->second;
    const std::size_t end = std::min(queue.files.size(), kLookAhead);
    for (std::size_t at = 0; at < end; ++at) {
      if (is_busy(queue.files[at], user->first)) continue;
      last_owner_ = user->first;
      Task task = take_from(user->first, queue, at);
      if (queue.files.empty()) queues_.erase(user);
      return task;
    }
  }
  return std::nullopt;
}

OwnerQueues::Task OwnerQueues::take_from(uid_t owner, Queue& queue, std::size_t first) {
  Task out{.owner = owner, .files = {}};
  const MappedAt like = queue.files[first];
  for (std::size_t i = first; i < std::min(queue.files.size(), kLookAhead) && out.files.size() < kMaxOfTask;) {
    const auto at = queue.files.begin() + static_cast<std::ptrdiff_t>(i);
    if (at->pid != like.pid || at->by_name != like.by_name || at->file.major != like.file.major ||
        at->file.minor != like.file.minor) {
      ++i;
      continue;
    }
    --queued_;
    queued_bytes_ -= at->name.size();
    queue.bytes -= at->name.size();
    if (at->by_name) --queue.checks;
    out.files.push_back(std::move(*at));
    queue.files.erase(at);
  }
  return out;
}

void OwnerQueues::each(const std::function<void(const MappedAt&)>& look) const {
  for (const auto& [owner, queue] : queues_)
    for (const MappedAt& at : queue.files) look(at);
}

}  // namespace flight::broker
