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

void describe_cgroups(Sidecar& out, const Selection& selection, const TrackerExport& sideband) {
  constexpr std::uint64_t kFew = 100;  // fewer than one in this many samples
  const auto known = cgroups_in(sideband);
  std::unordered_set<std::uint32_t> without;
  std::uint64_t samples = 0;
  for (const RingSelection& ring : selection.rings)
    for (const auto& [source, tally] : ring.tallies) {
      if (source.cgroup == 0 || known.contains(source.cgroup)) continue;
      if (source.pid == 0 || source.pid == kKernelPid) continue;  // not one process, so it has no unit
      without.insert(source.pid);
      samples += tally.window.samples;
    }
  if (without.empty()) return;
  const std::string what =
      fmt::format("units: the cgroups of {} are unknown, so the unit of these samples is unknown: ",
                  counted(without.size(), "process"));
  if (sideband.forgotten.cgroups > 0) {
    out.warnings.push_back(fmt::format("{}a cgroup's name was forgotten {} (limit reached)", what,
                                       counted(sideband.forgotten.cgroups, "time")));
    return;
  }
  if (samples * kFew < selection.samples) return;
  if (has_gap(sideband.gaps, selection.begin_ns, selection.end_ns))
    out.warnings.push_back(what +
                           "they were made while records were lost or recording was off, and removed before flightd "
                           "looked");
  else
    out.notes.push_back(what +
                        "flightd-broker cannot list them (it is in a cgroup namespace, or no cgroup file system is "
                        "mounted where it runs), or they were removed before it looked");
}

}  // namespace flight
