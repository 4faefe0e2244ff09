// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/known_files.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/sysinfo/mapped_file.hpp"

namespace flight {
namespace {

class Namer {
 public:
  Namer(const KnownFiles& known, TrackerExport& window, const EachMapping& each)
      : window_(window), each_(each), forgotten_ns_(known.forgotten_ns), left_out_ns_(known.left_out_ns) {
    files_.reserve(known.files.size());
    for (const KnownFile& file : known.files) files_[numbers_of(file.file)].push_back(&file);
    unanswered_.insert(known.unanswered.begin(), known.unanswered.end());
    for (const ServedDisk& disk : known.served) served_.emplace(disk.disk, disk.type);
    for (const WaitingFile& one : known.waiting) {
      Waits& worst = waiting_.try_emplace(numbers_of(one.file), Waits{.from_ns = one.from_ns}).first->second;
      worst.from_ns = std::min(worst.from_ns, one.from_ns);
      worst.is_next = worst.is_next && one.is_next;
    }
    for (const TrackerExport::UserBuildId& there : window.build_ids) listed_.insert(key(there.id, there.name));
  }

  // Returns the same records, in the same order. `mapped_ns`: as in TrackerExport; empty: the records have their times.
  [[nodiscard]] RecordBuffer rewrite(const RecordBuffer& records, std::span<const EventTime> mapped_ns) {
    RecordBuffer out;
    out.reserve(records.size());
    std::span<const std::byte> rest = records;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      bool is_put = false;
      if (load<perf_event_header>(record.data()).type == PERF_RECORD_MMAP2) {
        is_put = put(record, mapped_ns.empty() ? nullptr : mapped_ns.data(), out);
        if (!mapped_ns.empty()) mapped_ns = mapped_ns.subspan(1);
      }
      if (!is_put) out.insert(out.end(), record.begin(), record.end());
    }
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }
  [[nodiscard]] NamedFiles counts() const {
    NamedFiles out{.without = without_.size(), .served_types = {}};
    for (const FileIdentity& file : with_)
      if (!without_.contains(file)) ++out.with;
    for (const auto& [file, why] : without_) {
      const DeviceNumber disk{.major = file.major, .minor = file.minor};
      if (why == Why::changed) {
        ++out.changed;
      } else if (why == Why::replaced) {
        ++out.replaced;
      } else if (why == Why::touched) {
        ++out.touched;
      } else if (why == Why::two) {
        ++out.two;
      } else if (why == Why::forgotten) {
        ++out.forgotten;
      } else if (why == Why::waiting) {
        ++out.waiting;
      } else if (why == Why::left_out) {
        ++out.left_out;
      } else if (const auto served = served_.find(disk); served != served_.end()) {
        ++out.served;
        out.served_types.insert(served->second);
      } else if (unanswered_.contains(disk)) {
        ++out.unanswered;
      }
    }
    return out;
  }

 private:
  enum class Why { unread, changed, replaced, touched, two, forgotten, waiting, left_out };
  struct Found {
    const KnownFile* file = nullptr;
    Why why = Why::unread;
    std::uint64_t generation = 0;  // 0: unknown
    bool is_old = false;           // something else was read of the file later
  };

  // False: the entry only has a name, and nothing could be read by that name. Such an entry has no end.
  static bool was_read(const KnownFile& file) { return !file.build_id.empty() || file.to_ns != UINT64_MAX; }

  static std::pair<std::string, std::string> key(const BuildId& id, std::string_view name) {
    return {std::string(id.bytes.begin(), id.bytes.begin() + id.size), std::string(name)};
  }

  // As in WaitingFile; of several ones of a file, the worst.
  struct Waits {
    EventTime from_ns = 0;
    bool is_next = true;
  };
  // The broker has not looked at it yet.
  [[nodiscard]] bool waits(const FileIdentity& identity, EventTime mapped_ns) const {
    const auto found = waiting_.find(numbers_of(identity));
    return found != waiting_.end() && mapped_ns >= found->second.from_ns;
  }
  // Whether the file waits only for its turn, and its user is not held: then its path is used, as that of any file that
  // is not read yet.
  [[nodiscard]] bool is_next(const FileIdentity& identity) const {
    const auto found = waiting_.find(numbers_of(identity));
    return found != waiting_.end() && found->second.is_next;
  }

  // The reason why no content of this file was read, or none of this time.
  [[nodiscard]] Why why_unread(const FileIdentity& identity, EventTime mapped_ns, bool is_known) const {
    if (waits(identity, mapped_ns)) return Why::waiting;
    // No file of a disk that waits for a server is read, so none was forgotten or left out.
    const DeviceNumber disk{.major = identity.major, .minor = identity.minor};
    if (served_.contains(disk)) return Why::unread;
    // This comes before a disk that did not answer: a needless " (not verified)" is better than a missing one.
    if (!is_known && forgotten_ns_ != 0 && mapped_ns <= forgotten_ns_) return Why::forgotten;
    return left_out_ns_ != 0 && mapped_ns <= left_out_ns_ ? Why::left_out : Why::unread;
  }

  // What was read of the file when it was mapped, under this name if there is something of its own.
  [[nodiscard]] Found find(const FileIdentity& identity, EventTime mapped_ns, std::string_view name) const {
    Found out{.generation = identity.generation};
    const auto found = files_.find(numbers_of(identity));
    if (found == files_.end()) {
      out.why = why_unread(identity, mapped_ns, false);
      return out;
    }
    // A scan reports no generation: of several files that had this inode one after the other, it saw the first or none.
    const auto first = std::min_element(found->second.begin(), found->second.end(),
                                        [](const KnownFile* a, const KnownFile* b) { return a->from_ns < b->from_ns; });
    const std::uint64_t first_generation = (*first)->file.generation;
    EventTime newest_ns = 0;  // of what was read
    for (const KnownFile* file : found->second)
      if (was_read(*file)) newest_ns = std::max(newest_ns, file->from_ns);
    for (const KnownFile* file : found->second) {
      if (file->is_two) return {.why = Why::two, .generation = identity.generation};
      const std::uint64_t generation = file->file.generation;
      if (generation != 0 && identity.generation != 0 && generation != identity.generation) continue;
      if (identity.generation == 0 && generation != first_generation) continue;
      if (mapped_ns < file->from_ns) out.why = Why::changed;
      if (mapped_ns < file->from_ns || mapped_ns > file->to_ns) continue;
      if (out.file != nullptr && file->recorded_name != name) continue;
      out.file = file;
      out.is_old = file->from_ns < newest_ns;
      if (out.generation == 0) out.generation = generation;
    }
    if (out.file != nullptr)
      out.why = Why::unread;
    else if (out.why == Why::unread)
      out.why = why_unread(identity, mapped_ns, true);
    return out;
  }

  // False: the record is not changed. `mapped_ns`: null: its time.
  bool put(std::span<const std::byte> record, const EventTime* mapped_ns, RecordBuffer& out) {
    auto map = parse_mmap2(record);
    const auto trailer = parse_trailer(record);
    if (!map || !trailer || map->cpumode != PERF_RECORD_MISC_USER || map->build_id.size != 0 || map->inode == 0 ||
        !map->name.starts_with('/') || map->name.starts_with("//"))
      return false;
    FileIdentity identity{
        .major = map->major, .minor = map->minor, .inode = map->inode, .generation = map->inode_generation};
    const EventTime mapped = mapped_ns != nullptr ? *mapped_ns : trailer->time_ns;
    Found found = find(identity, mapped, map->name);
    // A scan does not report generations: for perf these would be two files.
    const bool is_same = identity.generation == found.generation;
    map->inode_generation = identity.generation = found.generation;
    const bool renamed =
        found.file != nullptr && !found.file->host_path.empty() && found.file->recorded_name == map->name;
    std::string name(renamed ? found.file->host_path : map->name);
    // The content of a file without a build-id that was overwritten does not exist any more.
    const bool has_none = found.file != nullptr && found.file->build_id.empty();
    // The broker has seen that it may have been.
    const bool is_touched = has_none && renamed && name.ends_with(kNotVerified);
    if (has_none && found.is_old && !is_touched && !name.ends_with(kNotTheHosts) && !name.ends_with(kDeleted))
      name.append(kNotTheHosts);
    // Nobody has looked yet whether the name still leads to it.
    const bool is_unsure =
        has_none && !is_touched && !name.ends_with(kNotTheHosts) && waits(identity, mapped) && !is_next(identity);
    if (is_unsure) found.why = Why::waiting;
    if (is_unsure && !name.ends_with(kDeleted)) name.append(kNotVerified);
    const bool is_misled = has_none && name.ends_with(kNotTheHosts);
    if (is_misled && was_read(*found.file)) found.why = Why::replaced;
    if (is_touched) found.why = Why::touched;
    const bool is_known = found.file != nullptr && !is_misled && !is_touched && !is_unsure;
    if (is_known)
      with_.insert(identity);
    else
      without_.emplace(identity, found.why);
    const std::string_view recorded_name = map->name;
    const auto report = [&] {
      if (each_)
        each_({.file = identity,
               .mapped_ns = mapped,
               .recorded_name = recorded_name,
               .name = map->name,
               .build_id = map->build_id,
               .is_known = is_known});
    };
    if (found.file == nullptr) {
      // perf would silently use the file that has this path now. If two files have these numbers, it is unknown to
      // which of them the path leads from the host's root.
      const bool may_mislead = found.why != Why::unread && !(found.why == Why::waiting && is_next(identity));
      if (!may_mislead || map->name.ends_with(kDeleted)) {
        report();
        return false;
      }
      name.append(kNotVerified);
      map->name = name;
      report();
      append_mmap2(out, *map, *trailer);
      return true;
    }
    const KnownFile& file = *found.file;
    if (file.build_id.empty() && name == map->name && is_same) {
      report();
      return false;
    }
    map->name = name;
    if (!file.build_id.empty()) {
      map->build_id.size = static_cast<std::uint8_t>(std::min(file.build_id.size(), map->build_id.bytes.size()));
      std::copy_n(file.build_id.begin(), map->build_id.size, map->build_id.bytes.begin());
      if (listed_.insert(key(map->build_id, map->name)).second)
        window_.build_ids.push_back({.id = map->build_id, .name = std::string(map->name)});
    }
    report();
    append_mmap2(out, *map, *trailer);
    return true;
  }

  TrackerExport& window_;
  const EachMapping& each_;
  EventTime forgotten_ns_ = 0, left_out_ns_ = 0;
  std::unordered_map<FileIdentity, std::vector<const KnownFile*>, FileIdentityHash> files_;  // by numbers
  std::unordered_map<FileIdentity, Waits, FileIdentityHash> waiting_;                        // by numbers
  std::unordered_set<FileIdentity, FileIdentityHash> with_;
  std::unordered_map<FileIdentity, Why, FileIdentityHash> without_;
  std::set<DeviceNumber> unanswered_;
  std::map<DeviceNumber, std::string> served_;
  std::set<std::pair<std::string, std::string>> listed_;
};

}  // namespace

NamedFiles add_build_ids(const KnownFiles& known, TrackerExport& window, const EachMapping& each) {
  Namer namer(known, window, each);
  window.prologue = namer.rewrite(window.prologue, window.mapped_ns);
  window.log = namer.rewrite(window.log, {});
  return namer.counts();
}

}  // namespace flight
