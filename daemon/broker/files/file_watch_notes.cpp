// SPDX-License-Identifier: Apache-2.0
// The part of FileWatch that notes mapped files. It decides which users are held back, because they have used up their
// share of a CPU, and leaves out older mappings of these users.
#include <linux/perf_event.h>

#include <algorithm>

#include "daemon/broker/files/file_watch.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight::broker {
namespace {

// nullopt: the mapping has no file, or the record has its build-id. `record`: MMAP2; the name is in it.
std::optional<Sighting> sighting_of(std::span<const std::byte> record) {
  const auto map = parse_mmap2(record);
  if (!map || map->cpumode != PERF_RECORD_MISC_USER || map->build_id.size != 0 || map->inode == 0 ||
      !map->name.starts_with('/') || map->name.starts_with("//"))
    return std::nullopt;
  const auto trailer = parse_trailer(record);
  return Sighting{
      .pid = map->pid,
      .address = map->address,
      .file = {.major = map->major, .minor = map->minor, .inode = map->inode, .generation = map->inode_generation},
      .name = map->name,
      .time_ns = trailer ? trailer->time_ns : 0};
}

}  // namespace

void FileWatch::look_who_is_held(Clock::time_point now) {
  held_at_ = now;
  lookups_left_ = kLookupsForHeld;
  any_held_ = share_.any_held(now);
}

bool FileWatch::is_held(uid_t user) { return any_held_ && !share_.may(user, ReadShare::Use::fresh, held_at_); }

// Limits the lookups in /proc while a user is held: a flood can have thousands of processes.
bool FileWatch::may_look_at(std::uint32_t pid) {
  if (!any_held_ || owners_.was_looked_at(pid)) return true;
  if (lookups_left_ == 0) return false;
  --lookups_left_;
  return true;
}

std::optional<uid_t> FileWatch::owner_of(std::uint32_t pid) {
  return owners_.own(pid).has_value() || may_look_at(pid) ? owners_.of(pid) : owners_.likely(pid);
}

// Called for each record of a flood, so it avoids /proc if possible. The user of its parent is the last guess: root's
// processes are forked by a user's sudo, too.
std::optional<uid_t> FileWatch::held_user_of(std::uint32_t pid) {
  if (!any_held_) return std::nullopt;
  auto owner = owners_.own(pid);
  if (!owner && may_look_at(pid)) owner = owners_.of(pid);
  if (!owner) owner = owners_.likely(pid);
  if (!owner && !owners_.was_looked_at(pid)) return std::nullopt;
  const uid_t user = owner.value_or(kEndedOwner);
  return is_held(user) ? std::optional(user) : std::nullopt;
}

// Whether files of this process wait even if a client asks for them.
bool FileWatch::is_held_even_asked(std::uint32_t pid) {
  const auto user = held_user_of(pid);
  return user && !share_.may(*user, ReadShare::Use::asked, held_at_);
}

// The time until which mappings of this process's user were passed over: earlier readings of its files may not be valid
// for them. 0: none were.
EventTime FileWatch::must_be_known_until(std::uint32_t pid) {
  if (scanned_for_.empty()) return 0;
  const auto owner = owner_of(pid);
  const bool is_scanned_for = !owner || scanned_for_.contains(*owner) || scanned_for_.contains(kEndedOwner);
  return is_scanned_for ? scanned_for_until_ns_ : 0;
}

// A held user's records only cost what it takes to pass over them, except for the newest.
void FileWatch::note(std::span<const std::byte> records, Source source) {
  const auto now = clocks_.now();
  const std::size_t most = source == Source::ring ? kNotedOfHeld : kScannedOfHeld;
  owners_.begin_look();
  look_who_is_held(now);
  std::map<uid_t, std::deque<std::span<const std::byte>>> newest;
  std::uint64_t others = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_MMAP2) {
      ++others;
      continue;
    }
    const bool has_pid = record.size() >= kRecordHeaderBytes + sizeof(std::uint32_t);
    const auto user = has_pid ? held_user_of(load<std::uint32_t>(record.data() + kRecordHeaderBytes)) : std::nullopt;
    if (!user) {
      note_record(record, source, now);
      continue;
    }
    auto& of_user = newest[*user];
    of_user.push_back(record);
    if (of_user.size() <= most) continue;
    leave_out(of_user.front(), *user, source);
    of_user.pop_front();
  }
  for (const auto& [user, some] : newest)
    for (const auto& record : some) note_record(record, source, now);
  if (others > 0) done_for_[ReadShare::kLooks] += others * kPassedOver;
}

void FileWatch::note_record(std::span<const std::byte> record, Source source, Clock::time_point now) {
  const auto seen = sighting_of(record);
  if (!seen) {
    done_for_[ReadShare::kLooks] += kPassedOver;
    return;
  }
  const bool is_known = source == Source::own_scan && table_.touch(*seen, must_be_known_until(seen->pid));
  if (!is_known && table_.wants(*seen, now))
    queue({.pid = seen->pid,
           .address = seen->address,
           .file = seen->file,
           .name = std::string(seen->name),
           .seen_ns = seen->time_ns});
  const auto owner = owners_.likely(seen->pid);
  done_for_[owner ? ReadShare::Account{*owner} : ReadShare::kLooks] += kNoted;
}

// touch() marks a file that a scan finds as used, even if it is not looked at now. Otherwise it would be forgotten
// first.
void FileWatch::leave_out(std::span<const std::byte> record, uid_t user, Source source) {
  done_for_[user] += kPassedOver;
  const auto seen = sighting_of(record);
  if (!seen) return;
  const bool is_known = source != Source::ring && table_.touch(*seen, must_be_known_until(seen->pid));
  if (!is_known || source != Source::own_scan) note_left_out(user, seen->time_ns);
}

void FileWatch::note_left_out(uid_t user, EventTime mapped_ns) {
  left_out_ns_ = std::max(left_out_ns_, mapped_ns);
  left_out_of_.insert(left_out_of_.size() < ReadShare::kMaxUsers ? user : kEndedOwner);
}

void FileWatch::leave_out(const OwnerQueues::Task& dropped) {
  for (const MappedAt& at : dropped.files) {
    if (!table_.leave_out(at)) continue;
    ++left_out_;
    note_left_out(dropped.owner, at.seen_ns);
  }
}

}  // namespace flight::broker
