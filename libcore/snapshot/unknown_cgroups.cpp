// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/unknown_cgroups.hpp"

#include <linux/perf_event.h>

#include <unordered_set>

#include "libcore/base/units.hpp"
#include "libcore/perf/record.hpp"

namespace flight {
namespace {

std::unordered_set<std::uint64_t> cgroups_in(const TrackerExport& sideband) {
  std::unordered_set<std::uint64_t> out;
  for (const auto* records : {&sideband.prologue, &sideband.log}) {
    std::span<const std::byte> rest(*records);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      if (load<perf_event_header>(record.data()).type != PERF_RECORD_CGROUP) continue;
      if (const auto cgroup = parse_cgroup(record)) out.insert(cgroup->id);
    }
  }
  return out;
}

}  // namespace

std::string warn_of_cgroups(const Selection& selection, const TrackerExport& sideband) {
  if (sideband.forgotten.cgroups == 0) return {};
  const auto known = cgroups_in(sideband);
  std::unordered_set<std::uint32_t> without;
  for (const RingSelection& ring : selection.rings)
    for (const auto& [source, tally] : ring.tallies)
      if (source.cgroup != 0 && !known.contains(source.cgroup)) without.insert(source.pid);
  if (without.empty()) return {};
  return fmt::format(
      "units: the cgroups of {} are unknown, so these samples have no unit: a cgroup's name was forgotten {} "
      "(limit reached)",
      counted(without.size(), "process"), counted(sideband.forgotten.cgroups, "time"));
}

}  // namespace flight
