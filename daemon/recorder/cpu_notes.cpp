// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/cpu_notes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace flight::daemon {

std::vector<std::string> notes_with_times(const Manifest& manifest, const ClockHistory& clock) {
  std::vector<std::string> out = manifest.notes;
  for (const ManifestGap& gap : manifest.gaps) {
    if (gap.end_ns != 0) continue;
    const auto note = std::find(out.begin(), out.end(), gone_cpu_text(gap.cpu));
    if (note != out.end())
      *note = fmt::format("CPU {} went offline at about {}: its history until then is kept", gap.cpu,
                          to_rfc3339(clock.wall_at(gap.begin_ns)));
  }
  return out;
}

}  // namespace flight::daemon
