// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/lost_counts.hpp"

#include <algorithm>
#include <map>

namespace flight::daemon {

std::vector<std::uint64_t> lost_between(const Counts& before, const Counts& after, const Manifest& manifest,
                                        const std::vector<std::size_t>& channel_rings) {
  std::vector<std::uint64_t> out(channel_rings.size(), 0);
  std::map<std::uint64_t, std::uint64_t> earlier;
  for (const EventCount& count : before.events) earlier[count.id] = count.lost;
  std::map<std::uint64_t, std::uint64_t> lost;
  for (const EventCount& count : after.events) lost[count.id] = count.lost - earlier[count.id];
  for (const ManifestEvent& event : manifest.events) {
    for (const ManifestId& id : event.ids) {
      const auto ring = std::find(channel_rings.begin(), channel_rings.end(), id.ring);
      if (ring == channel_rings.end()) continue;
      out[static_cast<std::size_t>(ring - channel_rings.begin())] += lost[id.id];
    }
  }
  return out;
}

}  // namespace flight::daemon
