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
  Namer(const KnownFiles& known, TrackerExport& window) : window_(window) {
    files_.reserve(known.files.size());
    for (const KnownFile& file : known.files) files_.emplace(file.file, &file);
    unanswered_.insert(known.unanswered.begin(), known.unanswered.end());
    for (const ServedDisk& disk : known.served) served_.emplace(disk.disk, disk.type);
    for (const TrackerExport::UserBuildId& there : window.build_ids) listed_.insert(key(there.id, there.name));
  }

  // Returns the same records, in the same order.
  [[nodiscard]] RecordBuffer rewrite(const RecordBuffer& records) {
    RecordBuffer out;
    out.reserve(records.size());
    std::span<const std::byte> rest = records;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      if (load<perf_event_header>(record.data()).type != PERF_RECORD_MMAP2 || !put(record, out))
        out.insert(out.end(), record.begin(), record.end());
    }
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }
  [[nodiscard]] NamedFiles counts() const {
    NamedFiles out{.with = with_.size(), .without = without_.size(), .served_types = {}};
    for (const FileIdentity& file : without_) {
      const DeviceNumber disk{.major = file.major, .minor = file.minor};
      if (const auto served = served_.find(disk); served != served_.end()) {
        ++out.served;
        out.served_types.insert(served->second);
      } else if (unanswered_.contains(disk)) {
        ++out.unanswered;
      }
    }
    return out;
  }

 private:
  static std::pair<std::string, std::string> key(const BuildId& id, std::string_view name) {
    return {std::string(id.bytes.begin(), id.bytes.begin() + id.size), std::string(name)};
  }

  // False: the record is not changed.
  bool put(std::span<const std::byte> record, RecordBuffer& out) {
    auto map = parse_mmap2(record);
    const auto trailer = parse_trailer(record);
    if (!map || !trailer || map->cpumode != PERF_RECORD_MISC_USER || map->build_id.size != 0 || map->inode == 0 ||
        !map->name.starts_with('/') || map->name.starts_with("//"))
      return false;
    const FileIdentity identity{
        .major = map->major, .minor = map->minor, .inode = map->inode, .generation = map->inode_generation};
    const auto found = files_.find(identity);
    const bool not_read = found == files_.end() || found->second->host_path.ends_with(kNotTheHosts);
    (not_read ? without_ : with_).insert(identity);
    if (found == files_.end()) return false;
    const KnownFile& file = *found->second;
    const bool renamed = !file.host_path.empty() && file.recorded_name == map->name;
    if (renamed) map->name = file.host_path;
    if (file.build_id.empty() && !renamed) return false;
    if (!file.build_id.empty()) {
      map->build_id.size = static_cast<std::uint8_t>(std::min(file.build_id.size(), map->build_id.bytes.size()));
      std::copy_n(file.build_id.begin(), map->build_id.size, map->build_id.bytes.begin());
      if (listed_.insert(key(map->build_id, map->name)).second)
        window_.build_ids.push_back({.id = map->build_id, .name = std::string(map->name)});
    }
    append_mmap2(out, *map, *trailer);
    return true;
  }

  TrackerExport& window_;
  std::unordered_map<FileIdentity, const KnownFile*, FileIdentityHash> files_;
  std::unordered_set<FileIdentity, FileIdentityHash> with_, without_;
  std::set<DeviceNumber> unanswered_;
  std::map<DeviceNumber, std::string> served_;
  std::set<std::pair<std::string, std::string>> listed_;
};

}  // namespace

NamedFiles add_build_ids(const KnownFiles& known, TrackerExport& window) {
  Namer namer(known, window);
  window.prologue = namer.rewrite(window.prologue);
  window.log = namer.rewrite(window.log);
  return namer.counts();
}

}  // namespace flight
