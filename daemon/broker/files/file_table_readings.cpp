// SPDX-License-Identifier: Apache-2.0
// The readings of each file: what each look at a file changes, and the reply that is made of all of them.
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "daemon/broker/files/file_table.hpp"

namespace flight::broker {
namespace {

// If the two clocks differ by more than this between two looks, the wall clock was set or the machine was suspended.
// Then the times of a file cannot be converted to those of records.
constexpr std::chrono::milliseconds kSameClock{50};

bool same_clock(const ClockPair& a, const ClockPair& b) {
  const WallTime difference = a.wall_at(b.monotonic_ns) - b.wall;
  return difference < kSameClock && difference > -kSameClock;
}

bool same_content(const FileStamp& a, const FileStamp& b) { return a.bytes == b.bytes && a.modified == b.modified; }

// Unlink, rename, link and chmod change ctime as well: so the build-id decides where there is one. Of a file without
// one, which perf(1) takes by its name, ctime alone shows that it was overwritten and its mtime set back. The name of a
// deleted file leads to nothing.
bool may_be_overwritten(const FileStamp& before, const MappedFileFacts& now) {
  return now.build_id.empty() && !now.unlinked && before.changed != now.stamp.changed;
}

}  // namespace

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
  const bool is_other = last == nullptr || facts.build_id != last->build_id ||
                        !same_content(last->stamp, facts.stamp) || !can_be(last->generation, facts.generation);
  if (is_other || may_be_overwritten(last->stamp, facts)) {
    const bool same_place =
        last == nullptr || (last->stamp.device == facts.stamp.device && last->stamp.inode == facts.stamp.inode);
    if (!same_place && facts.build_id != last->build_id) {
      entry.is_two = true;
      entry.readings.clear();
      entry.names.clear();
      return;
    }
    const EventTime from_ns = begin_of(entry, facts);
    if (!is_other) last->is_touched = true;
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
    const std::string& path = reading.host_path.empty() ? reading.name : reading.host_path;
    if (reading.is_touched && !path.ends_with(kNotTheHosts) && !path.ends_with(kDeleted) &&
        space.take(owner, reading.name.size() + path.size() + kNotVerified.size())) {
      known.recorded_name = reading.name;
      known.host_path = path + std::string(kNotVerified);
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
