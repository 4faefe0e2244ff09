// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/file_table.hpp"

#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

namespace flight::broker {
namespace {

// A step of the wall clock, or a suspend: the file's times cannot be converted to those of records.
constexpr std::chrono::milliseconds kSameClock{50};

bool same_clock(const ClockPair& a, const ClockPair& b) {
  const WallTime difference = a.wall_at(b.monotonic_ns) - b.wall;
  return difference < kSameClock && difference > -kSameClock;
}

// Unlink, rename and chmod change ctime as well.
bool same_content(const FileStamp& a, const FileStamp& b) { return a.bytes == b.bytes && a.modified == b.modified; }

bool can_be(std::uint64_t one, std::uint64_t other) { return one == 0 || other == 0 || one == other; }

}  // namespace

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

std::optional<FileStamp> FileTable::stamp_of(const MappedAt& at) const {
  const auto found = files_.find(numbers_of(at.file));
  if (found == files_.end() || found->second.readings.empty()) return std::nullopt;
  const Reading& last = found->second.readings.back();
  if (!last.stamp_proves || last.name != at.name || !can_be(last.generation, at.file.generation)) return std::nullopt;
  return last.stamp;
}

// The earliest time at which the file can have had this content, which was not known before. If the clock was set since
// then, a time of the file can have been more than once: the latest one counts.
EventTime FileTable::begin_of(const Entry& entry, const MappedFileFacts& facts) const {
  const EventTime looked_ns = facts.looked.monotonic_ns;
  const auto last_shown = [&](WallTime time) { return clock_.latest_at(time, facts.looked); };
  const WallTime changed = facts.stamp.changed, oldest = std::min(changed, facts.stamp.modified);
  const auto written_ns = last_shown(facts.unlinked ? oldest : changed);
  if (!entry.readings.empty()) {
    const Reading& before = entry.readings.back();
    if (changed > facts.looked.wall || !same_clock(before.looked, facts.looked)) return looked_ns;
    // Another file with the same inode number: a mapping's generation shows which of the two it is of.
    if (!can_be(before.generation, facts.generation)) return std::max(written_ns.value_or(0), before.to_ns);
    return std::max(last_shown(changed).value_or(looked_ns) + kFileTimeTickNs, before.to_ns);
  }
  // All mappings that are older than the first sighting are those of processes that ran then. A time that never was
  // since the boot is of an earlier one.
  if (written_ns && *written_ns > entry.first_ns) return *written_ns;
  return saw_all_ ? 0 : last_shown(oldest).value_or(oldest > facts.looked.wall ? looked_ns : 0);
}

void FileTable::put_content(Entry& entry, const std::string& name, MappedFileFacts facts) {
  const EventTime looked_ns = facts.looked.monotonic_ns;
  Reading* last = entry.readings.empty() ? nullptr : &entry.readings.back();
  if (last == nullptr || facts.build_id != last->build_id || !same_content(last->stamp, facts.stamp) ||
      !can_be(last->generation, facts.generation)) {
    const bool same_place =
        last == nullptr || (last->stamp.device == facts.stamp.device && last->stamp.inode == facts.stamp.inode);
    if (!same_place && facts.build_id != last->build_id) {
      entry.is_two = true;
      entry.readings.clear();
      entry.names.clear();
      return;
    }
    const EventTime from_ns = begin_of(entry, facts);
    entry.names.clear();
    if (entry.readings.size() >= kMaxReadings) entry.readings.erase(entry.readings.begin());
    entry.readings.push_back({.build_id = std::move(facts.build_id), .from_ns = from_ns, .to_ns = looked_ns});
    last = &entry.readings.back();
  }
  last->stamp = facts.stamp;
  last->stamp_proves = facts.stamp_proves;
  last->looked = facts.looked;
  last->generation = facts.generation;
  last->to_ns = std::max(last->to_ns, looked_ns);
  if (last->build_id.empty())
    entry.note_name(name, facts.host_path, entry.looked);
  else
    entry.names.clear();
  entry.unread.host_path.clear();
  // The name from the host's root stays when the file is seen from there.
  if (last->host_path.empty() || !facts.host_path.empty()) {
    last->name = name;
    last->host_path = std::move(facts.host_path);
  }
}

void FileTable::put_unread(Entry& entry, const MappedAt& at, MappedFileFacts facts) {
  if (entry.readings.empty()) {
    if (entry.note_name(at.name, std::move(facts.host_path), entry.looked)) ++version_;
    return;
  }
  const Reading& last = entry.readings.back();
  if (facts.host_path.empty() || (at.seen_ns <= last.to_ns && can_be(last.generation, at.file.generation))) return;
  entry.unread.name = at.name;
  entry.unread.host_path = std::move(facts.host_path);
  entry.unread.generation = at.file.generation != 0 ? at.file.generation : last.generation;
  ++version_;
}

void FileTable::put(const MappedAt& at, MappedFileFacts facts) {
  const auto found = files_.find(numbers_of(at.file));
  if (found == files_.end()) return;  // it was removed meanwhile
  found->second.is_read = false;
  put_facts(found->second, at, std::move(facts));
  list_later(found->second, found->first);
}

void FileTable::put_facts(Entry& entry, const MappedAt& at, MappedFileFacts facts) {
  if (entry.is_two) return;
  if (!facts.was_read) {
    put_unread(entry, at, std::move(facts));
    charge_names(entry);
    return;
  }
  // Where fstat(2) has another device than the records (btrfs, overlayfs), another name can be another file, which a
  // scan reports at the same time: it is read, too.
  const bool may_be_two =
      entry.waits && entry.later.name != at.name && facts.stamp.device != ::makedev(at.file.major, at.file.minor);
  if (!facts.unchanged) {
    put_content(entry, at.name, std::move(facts));
  } else if (!entry.readings.empty() && entry.readings.back().stamp == facts.stamp) {
    Reading& last = entry.readings.back();
    last.looked = facts.looked;
    last.to_ns = std::max(last.to_ns, facts.looked.monotonic_ns);
    entry.unread.host_path.clear();
  }
  ++version_;
  charge_names(entry);
  if (entry.is_two || (!may_be_two && !entry.readings.empty() && entry.later.seen_ns <= entry.readings.back().to_ns))
    entry.waits = false;
}

// Keeps what earlier readings found.
void FileTable::put_failed(const FileIdentity& file) {
  const auto at = files_.find(numbers_of(file));
  if (at == files_.end()) return;
  at->second.is_read = false;
  list_later(at->second, at->first);
}

KnownFiles FileTable::known(std::size_t waiting) const {
  const std::size_t all = kMaxKnownReadings - std::min(waiting, kMaxKnownFiles);
  KnownFiles out{.files = {}, .forgotten_ns = forgotten_ns_, .unanswered = {}, .served = {}};
  NameSpace space;
  const auto add = [&](uid_t owner, const FileIdentity& numbers, const Reading& reading) {
    KnownFile known{.file = numbers, .build_id = reading.build_id, .from_ns = reading.from_ns, .to_ns = reading.to_ns};
    known.file.generation = reading.generation;
    if (!reading.host_path.empty() && !reading.build_id.empty() &&
        space.take(owner, reading.name.size() + reading.host_path.size())) {
      known.recorded_name = reading.name;
      known.host_path = reading.host_path;
    }
    out.files.push_back(std::move(known));
  };
  for (const auto& [owner, files] : by_use_) {
    for (const FileIdentity& file : files) {
      const Entry& entry = files_.at(file);
      if (!entry.readings.empty()) {
        add(owner, file, entry.readings.back());
        if (entry.has_one_name() && !entry.names[0].host_path.empty() &&
            space.take(owner, entry.names[0].recorded.size() + entry.names[0].host_path.size())) {
          out.files.back().recorded_name = entry.names[0].recorded;
          out.files.back().host_path = entry.names[0].host_path;
        }
      } else if (entry.is_two) {
        out.files.push_back({.file = file, .is_two = true});
      }
    }
  }
  add_names(out, space, all);
  // The earlier ones, as far as they fit; root's first.
  for (const auto& [owner, files] : by_use_) {
    for (const FileIdentity& file : files) {
      const Entry& entry = files_.at(file);
      for (std::size_t i = 1; i < entry.readings.size() && out.files.size() < all; ++i)
        add(owner, file, entry.readings[entry.readings.size() - 1 - i]);
    }
  }
  return out;
}

}  // namespace flight::broker
