// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/file_table.hpp"

#include <algorithm>
#include <utility>

namespace flight::broker {

// The user with the most files, if that is more than the user's share; else the user with the file that was not used
// for the longest time.
std::map<uid_t, FileTable::ByUse>::iterator FileTable::to_evict_from() {
  auto largest = by_use_.end(), oldest = by_use_.begin();
  for (auto user = by_use_.begin(); user != by_use_.end(); ++user) {
    const std::size_t files = user->second.size();
    if (user->first != 0 && files > most_ / kShares && (largest == by_use_.end() || files > largest->second.size()))
      largest = user;
    if (files_.at(user->second.back()).used < files_.at(oldest->second.back()).used) oldest = user;
  }
  return largest != by_use_.end() ? largest : oldest;
}

void FileTable::evict(uid_t newest_owner) {
  const auto user = to_evict_from();
  // A user whose new file replaces one of their own causes no scan: no other user's file was forgotten.
  if (user->first == newest_owner && newest_owner != 0) --new_files_;
  const auto last = files_.find(user->second.back());
  if (last->second.is_listed()) ++version_;
  if (last->second.is_listed_later) std::erase(later_, last->first);
  forgotten_ns_ = std::max(forgotten_ns_, last->second.last_ns);
  discharge_names(last->second);
  files_.erase(last);
  user->second.pop_back();
  if (user->second.empty()) by_use_.erase(user);
  saw_all_ = false;
}

void FileTable::use(Entry& entry, const Sighting& seen) {
  ByUse& files = by_use_[entry.owner];
  files.splice(files.begin(), files, entry.place);
  entry.used = ++uses_;
  entry.last_ns = std::max(entry.last_ns, seen.time_ns);
}

uid_t FileTable::owner_of(std::uint32_t pid) const {
  const uid_t owner = owner_of_(pid).value_or(kEndedOwner);
  return by_use_.size() < kMaxOwners || by_use_.contains(owner) ? owner : kEndedOwner;
}

// A file that several users map is charged to root, which has no limit. A process whose user is not known changes
// nothing.
void FileTable::look_at_owner(Entry& entry, std::uint32_t pid) {
  if (entry.owner == 0) return;
  const auto owner = owner_of_(pid);
  if (!owner || *owner == entry.owner) return;
  const auto from = by_use_.find(entry.owner);
  discharge_names(entry);
  entry.owner = entry.owner == kEndedOwner ? owner_of(pid) : 0;
  charge_names(entry);
  if (entry.owner == from->first) return;
  ByUse& files = by_use_[entry.owner];
  files.splice(files.begin(), from->second, entry.place);
  if (from->second.empty()) by_use_.erase(from);
}

bool FileTable::touch(const Sighting& seen, EventTime known_until) {
  const auto found = files_.find(numbers_of(seen.file));
  if (found == files_.end() || !found->second.is_listed()) return false;
  Entry& entry = found->second;
  look_at_owner(entry, seen.pid);
  use(entry, seen);
  if (known_until == 0 || entry.is_two) return true;
  return !entry.readings.empty() && entry.readings.back().to_ns >= known_until;
}

// Each entry at most once. One that is read now is listed afterwards, if it still waits.
void FileTable::list_later(Entry& entry, const FileIdentity& numbers) {
  if (entry.waits && !entry.is_read && !std::exchange(entry.is_listed_later, true)) later_.push_back(numbers);
}

// The mapping by which it is looked at later: the newest one, but none of a held user where there is another.
void FileTable::remember(Entry& entry, const FileIdentity& numbers, const Sighting& seen) {
  if (entry.waits && held_.process && held_.process(seen.pid) && !held_.process(entry.later.pid)) return;
  entry.waits = true;
  list_later(entry, numbers);
  entry.later.pid = seen.pid;
  entry.later.address = seen.address;
  entry.later.file = seen.file;
  entry.later.name = seen.name;
  entry.later.seen_ns = seen.time_ns;
}

// It waits in the queue of a held user, and another one's process has mapped it, too.
bool FileTable::takes_over(const Entry& entry, std::uint32_t pid) const {
  return entry.ticket != 0 && held_.queue && held_.queue(entry.queue) && !held_.process(pid);
}

bool FileTable::wants(const Sighting& seen, Time now) {
  const FileIdentity numbers = numbers_of(seen.file);
  const auto [at, is_new] = files_.try_emplace(numbers);
  Entry& entry = at->second;
  if (is_new) {
    entry.owner = owner_of(seen.pid);
    ByUse& files = by_use_[entry.owner];
    files.push_front(numbers);
    entry.place = files.begin();
    entry.looked = now;
    entry.first_ns = seen.time_ns;
    entry.is_read = true;
    use(entry, seen);
    ++new_files_;
    if (files_.size() > most_) evict(entry.owner);
    return true;
  }
  look_at_owner(entry, seen.pid);
  use(entry, seen);
  if (entry.is_two) return false;
  // Records of two rings are not in order.
  if (entry.readings.empty()) entry.first_ns = std::min(entry.first_ns, seen.time_ns);
  const Reading* last = entry.readings.empty() ? nullptr : &entry.readings.back();
  const bool is_known =
      last != nullptr && seen.time_ns <= last->to_ns && can_be(last->generation, seen.file.generation);
  // With another name it is the same file, perhaps in a process with another root, or (btrfs) another one.
  if (is_known && last->name == seen.name) return false;
  if (takes_over(entry, seen.pid)) {
    entry.looked = now;
    return true;
  }
  const auto again = last == nullptr || last->name != seen.name ? kRetryAfter : kLookAgainAfter;
  if (entry.is_read || now - entry.looked < again) {
    remember(entry, numbers, seen);
    return false;
  }
  entry.looked = now;
  entry.is_read = true;
  return true;
}

bool FileTable::wants_again(const MappedAt& at, Time now) {
  const auto found = files_.find(numbers_of(at.file));
  if (found == files_.end()) return false;
  Entry& entry = found->second;
  if (entry.is_read || entry.is_two || (!entry.readings.empty() && at.seen_ns <= entry.readings.back().to_ns))
    return false;
  entry.looked = now;
  entry.is_read = true;
  return true;
}

std::vector<MappedAt> FileTable::due(Time now, bool asked) {
  std::vector<MappedAt> out;
  std::erase_if(later_, [&](const FileIdentity& numbers) {
    Entry& entry = files_.at(numbers);
    const auto again = entry.readings.empty() ? kRetryAfter : std::chrono::milliseconds(kLookAgainAfter);
    const bool is_listed = entry.waits && !entry.is_read;
    // No client waits until it is time for a file that would not be read for the client, either.
    const bool is_held = asked && held_.even_asked && held_.even_asked(entry.later.pid);
    if (is_listed && !is_held && now - entry.looked < (asked ? kAskedAfter : again)) return false;
    entry.is_listed_later = false;
    if (!is_listed) return true;
    entry.waits = false;
    entry.looked = now;
    entry.is_read = true;
    out.push_back(std::exchange(entry.later, {}));
    return true;
  });
  return out;
}

bool FileTable::was_looked_at(const FileIdentity& file) const {
  const auto found = files_.find(numbers_of(file));
  return found != files_.end() && (!found->second.readings.empty() || !found->second.names.empty());
}

void FileTable::note_queued(const FileIdentity& file, uid_t queue, std::uint64_t ticket) {
  const auto found = files_.find(numbers_of(file));
  if (found == files_.end()) return;
  found->second.is_read = true;
  found->second.ticket = ticket;
  found->second.queue = queue;
}

bool FileTable::is_queued(const MappedAt& at) const {
  const auto found = files_.find(numbers_of(at.file));
  return found != files_.end() && at.ticket != 0 && found->second.ticket == at.ticket;
}

bool FileTable::begin_read(const MappedAt& at) {
  if (!is_queued(at)) return false;
  Entry& entry = files_.at(numbers_of(at.file));
  entry.ticket = 0;
  entry.is_read = true;
  return true;
}

bool FileTable::leave_out(const MappedAt& at) {
  if (!is_queued(at)) return false;
  Entry& entry = files_.at(numbers_of(at.file));
  entry.ticket = 0;
  entry.is_read = entry.waits = false;
  return true;
}

EventTime FileTable::unknown_from(const FileIdentity& file) const {
  const auto found = files_.find(numbers_of(file));
  if (found == files_.end() || found->second.readings.empty()) return 0;
  return found->second.readings.back().to_ns + 1;
}

}  // namespace flight::broker
