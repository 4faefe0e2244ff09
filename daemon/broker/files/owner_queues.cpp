// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/owner_queues.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/broker/files/file_table.hpp"

namespace flight::broker {

uid_t OwnerQueues::queue_of(uid_t owner) const {
  return queues_.size() >= FileTable::kMaxOwners && !queues_.contains(owner) ? kEndedOwner : owner;
}

// `bytes`: of one more.
bool OwnerQueues::is_over(const Queue& queue, std::size_t bytes) {
  constexpr std::size_t kShares = FileTable::kShares;
  return queue.count >= kMaxQueued / kShares || queue.bytes + bytes > kMaxQueuedBytes / kShares;
}

bool OwnerQueues::are_all_over(std::size_t bytes) const {
  return queued_ >= kMaxQueued || queued_bytes_ + bytes > kMaxQueuedBytes;
}

// A name that is not checked must wait here: then the answer says so.
bool OwnerQueues::has_space(uid_t owner, const MappedAt& at) const {
  owner = queue_of(owner);
  const auto has = queues_.find(owner);
  if (at.by_name) return has == queues_.end() || has->second.of(Rank::name).size() < kMaxNames;
  if (owner != 0 && has != queues_.end() && is_over(has->second, at.name.size())) return false;
  return !are_all_over(at.name.size());
}

bool OwnerQueues::add(uid_t owner, MappedAt at, bool again) {
  if (!has_space(owner, at)) return false;
  Queue& queue = queues_[queue_of(owner)];
  // Names can wait, and a process that has mapped a file may end soon.
  if (at.by_name) {
    queue.of(Rank::name).push_front(std::move(at));
    return true;
  }
  ++queued_;
  ++queue.count;
  queued_bytes_ += at.name.size();
  queue.bytes += at.name.size();
  queue.of(again ? Rank::again : Rank::fresh).push_back(std::move(at));
  return true;
}

MappedAt OwnerQueues::remove(Queue& queue, Rank rank, std::size_t position) {
  Files& files = queue.of(rank);
  const auto at = files.begin() + static_cast<std::ptrdiff_t>(position);
  MappedAt out = std::move(*at);
  files.erase(at);
  if (rank == Rank::name) return out;
  --queued_;
  --queue.count;
  queued_bytes_ -= out.name.size();
  queue.bytes -= out.name.size();
  return out;
}

std::optional<OwnerQueues::Task> OwnerQueues::drop_oldest(uid_t owner, std::size_t bytes) {
  auto user = queues_.find(queue_of(owner));
  if (user == queues_.end() || !is_over(user->second, bytes)) {
    if (!are_all_over(bytes)) return std::nullopt;
    user = std::max_element(queues_.begin(), queues_.end(), [](const auto& a, const auto& b) {
      constexpr std::size_t kBytes = kMaxQueuedBytes / kMaxQueued;  // a file counts as much as this
      return a.second.count * kBytes + a.second.bytes < b.second.count * kBytes + b.second.bytes;
    });
  }
  if (user == queues_.end()) return std::nullopt;
  Queue& queue = user->second;
  const bool more_again = queue.of(Rank::again).size() > queue.of(Rank::fresh).size();
  for (const Rank rank :
       {Rank::ended, more_again ? Rank::again : Rank::fresh, more_again ? Rank::fresh : Rank::again}) {
    if (queue.of(rank).empty()) continue;
    Task out{.owner = user->first, .files = {}};
    out.files.push_back(remove(queue, rank, 0));
    if (queue.empty()) queues_.erase(user);
    return out;
  }
  return std::nullopt;
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

bool OwnerQueues::is_paced(uid_t owner, Time now) const {
  const auto begin = begins(owner);
  return begin && *begin > now;
}

ReadShare::Use OwnerQueues::use_of(Rank rank, bool asked) {
  if (asked) return ReadShare::Use::asked;
  return rank == Rank::fresh || rank == Rank::ended ? ReadShare::Use::fresh : ReadShare::Use::again;
}

bool OwnerQueues::is_held(uid_t owner, Rank rank, Time now, bool asked) const {
  return share_ != nullptr && !share_->may(owner, use_of(rank, asked), now);
}

bool OwnerQueues::waits(uid_t owner, Rank rank, Time now, bool asked) const {
  return is_paced(owner, now) || is_held(owner, rank, now, asked);
}

std::optional<OwnerQueues::Time> OwnerQueues::pace_ends(Time now) const {
  std::optional<Time> first;
  for (const auto& [owner, queue] : queues_)
    if (const auto begin = begins(owner); begin && *begin > now) first = std::min(first.value_or(*begin), *begin);
  return first;
}

std::optional<OwnerQueues::Time> OwnerQueues::goes_on(Time now) const {
  std::optional<Time> first = pace_ends(now);
  for (const auto& [owner, queue] : queues_) {
    for (const Rank rank : order_of(queue)) {
      if (share_ == nullptr || is_paced(owner, now) || queue.of(rank).empty()) continue;
      if (const auto begin = share_->goes_on(owner, use_of(rank, false), now))
        first = std::min(first.value_or(*begin), *begin);
    }
  }
  return first;
}

bool OwnerQueues::all_wait(Time now, bool asked) const {
  return std::all_of(queues_.begin(), queues_.end(), [&](const auto& one) {
    const auto order = order_of(one.second);
    return std::all_of(order.begin(), order.end(),
                       [&](Rank rank) { return one.second.of(rank).empty() || waits(one.first, rank, now, asked); });
  });
}

std::array<OwnerQueues::Rank, OwnerQueues::kRanks> OwnerQueues::order_of(const Queue& queue) {
  if (queue.again_is_next) return {Rank::again, Rank::fresh, Rank::ended, Rank::name};
  return {Rank::fresh, Rank::again, Rank::ended, Rank::name};
}

// The newest ones whose processes have ended, up to the first one that runs.
void OwnerQueues::set_aside_ended(Queue& queue) const {
  if (!is_there_) return;
  Files& fresh = queue.of(Rank::fresh);
  Files found;
  while (!fresh.empty() && !is_there_(fresh.back().pid)) {
    found.push_front(std::move(fresh.back()));
    fresh.pop_back();
  }
  Files& ended = queue.of(Rank::ended);
  std::move(found.begin(), found.end(), std::back_inserter(ended));
}

std::optional<OwnerQueues::Task> OwnerQueues::take(const IsBusy& is_busy, Time now, bool asked) {
  auto user = queues_.upper_bound(last_owner_);
  for (std::size_t i = 0; i < queues_.size(); ++i, ++user) {
    if (user == queues_.end()) user = queues_.begin();
    const uid_t owner = user->first;
    if (is_paced(owner, now)) continue;
    set_aside_ended(user->second);
    for (const Rank rank : order_of(user->second)) {
      const Files& files = user->second.of(rank);
      if (files.empty() || waits(owner, rank, now, asked)) continue;
      const std::size_t end = files.size() - std::min(files.size(), kLookAhead);
      std::size_t after = files.size();
      while (after > end && is_busy(files[after - 1], owner)) --after;
      if (after == end) continue;
      last_owner_ = owner;
      return take_from(user, rank, after - 1);
    }
  }
  return std::nullopt;
}

// In the order in which they were mapped.
OwnerQueues::Task OwnerQueues::take_from(Queues::iterator user, Rank rank, std::size_t first) {
  Task out{.owner = user->first, .files = {}};
  Queue& queue = user->second;
  const Files& files = queue.of(rank);
  const std::uint32_t pid = files[first].pid;
  const FileIdentity like = files[first].file;
  const std::size_t end = files.size() - std::min(files.size(), kLookAhead);
  for (std::size_t after = first + 1; after > end && out.files.size() < kMaxOfTask; --after) {
    const MappedAt& at = files[after - 1];
    if (at.pid == pid && at.file.major == like.major && at.file.minor == like.minor)
      out.files.push_back(remove(queue, rank, after - 1));
  }
  std::reverse(out.files.begin(), out.files.end());
  queue.again_is_next = rank == Rank::fresh;
  if (queue.empty()) queues_.erase(user);
  return out;
}

void OwnerQueues::each(Time now, bool asked, const std::function<void(const MappedAt&, bool is_held)>& look) const {
  for (const auto& [owner, queue] : queues_) {
    for (const Rank rank : order_of(queue)) {
      if (queue.of(rank).empty()) continue;
      const bool held = is_held(owner, rank, now, asked);
      for (const MappedAt& at : queue.of(rank)) look(at, held);
    }
  }
}

}  // namespace flight::broker
