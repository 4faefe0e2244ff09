// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/cpu_gaps.hpp"

namespace flight::daemon {

std::vector<std::string> cpu_gap_warnings(const Manifest& manifest, EventTime begin_ns, EventTime end_ns,
                                          const ClockHistory& clock) {
  std::vector<std::string> out;
  for (const ManifestGap& gap : manifest.gaps) {
    if (!any_channel_records(manifest, gap.cpu)) continue;
    if (gap.begin_ns > end_ns || (gap.end_ns != 0 && gap.end_ns < begin_ns)) continue;
    const std::string begin = to_rfc3339(clock.wall_at(gap.begin_ns));
    if (gap.end_ns == 0)
      out.push_back(fmt::format("CPU {} went offline at about {}: its history ends there", gap.cpu, begin));
    else
      out.push_back(
          fmt::format("CPU {} was offline or suspended between {} and {}: records from before its events were "
                      "opened again are missing",
                      gap.cpu, begin, to_rfc3339(clock.wall_at(gap.end_ns))));
  }
  return out;
}

}  // namespace flight::daemon
