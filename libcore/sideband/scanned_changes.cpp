// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/scanned_changes.hpp"

#include <algorithm>
#include <unordered_set>

#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/notes.hpp"

namespace flight {
namespace {

// /proc shows a kernel worker with its last work item: "kworker/0:1-events".
bool same_name(std::string_view a, std::string_view b) {
  constexpr std::string_view kWorker = "kworker/";
  if (a == b) return true;
  return a.starts_with(kWorker) && b.starts_with(kWorker) &&
         a.substr(0, a.find_first_of("-+")) == b.substr(0, b.find_first_of("-+"));
}

bool is_lost(const ProcessMap& map) { return map.file->name == kLostName; }

bool overlaps_another(const Mmap2Record& map, const Incarnation& known) {
  if (!known.image.maps) return false;
  return std::any_of(known.image.maps->all().begin(), known.image.maps->all().end(), [&](const ProcessMap& old) {
    return old.address < map.address + map.bytes && map.address < old.end() && !is_lost(old) && !old.is_part_of(map);
  });
}

// An exec places [vdso] at a new address; without address space randomization the mappings are compared.
bool execed(const ScannedProcess& process, const Incarnation& known) {
  if (!known.image.maps || process.maps.empty()) return false;
  const auto& maps = known.image.maps->all();
  const auto still = [&](const Mmap2Record& map) {
    return std::any_of(maps.begin(), maps.end(),
                       [&](const ProcessMap& old) { return old.address == map.address && old.is_part_of(map); });
  };
  for (const Mmap2Record& map : process.maps)
    if (map.name == "[vdso]" && !still(map) &&
        std::any_of(maps.begin(), maps.end(), [](const ProcessMap& old) { return old.file->name == "[vdso]"; }))
      return true;
  return std::none_of(maps.begin(), maps.end(), is_lost) &&
         std::none_of(process.maps.begin(), process.maps.end(), still);
}

}  // namespace

bool is_called(const Comm& known, std::string_view name) { return !is_lost_comm(known) && name_of(known) == name; }

bool overlaps_lost(const Mmap2Record& map, const Incarnation& known) {
  if (!known.image.maps) return false;
  return std::any_of(known.image.maps->all().begin(), known.image.maps->all().end(), [&](const ProcessMap& old) {
    return old.address < map.address + map.bytes && map.address < old.end() && is_lost(old);
  });
}

bool differs(const ScannedProcess& process, const Incarnation& known) {
  if (is_lost_comm(known.image.comm) || !same_name(name_of(known.image.comm), process.comm) || execed(process, known))
    return true;
  return std::any_of(process.maps.begin(), process.maps.end(),
                     [&](const Mmap2Record& map) { return overlaps_another(map, known); });
}

void note_unnamed_threads(const ScannedProcess& process, const Incarnation& known, EventTime time_ns,
                          RecordBuffer& additions) {
  if (process.partly && process.threads_left_out == 0) return;  // they were not read
  std::uint64_t unnamed = process.threads_left_out;
  if (unnamed > 0) {
    std::unordered_set<std::uint32_t> listed;
    for (const ScannedThread& thread : process.threads) listed.insert(thread.tid);
    for (const Thread& thread : known.threads)
      if (thread.exit_ns == 0 && !listed.contains(thread.tid) && unnamed > 0) --unnamed;
  }
  if (unnamed == known.unnamed_threads) return;
  append_note(additions, {.kind = NoteKind::unnamed, .pid = process.pid, .count = unnamed},
              {.pid = process.pid, .tid = process.pid, .time_ns = time_ns});
}

}  // namespace flight
