// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/relabel.hpp"

#include <cstring>

namespace flight {

void relabel(RecordBuffer& log, const Manifest& manifest, const EventTable& events) {
  const ManifestEvent& dummy = manifest.events.front();
  if (dummy.ids.empty()) return;
  const std::uint64_t ours = dummy.ids.front().id;
  const auto trailer_bytes = static_cast<std::size_t>(events.layout(0).trailer_bytes);
  std::size_t end = 0;
  for (auto record = next_record(log); !record.empty(); record = next_record(std::span(log).subspan(end))) {
    end += record.size();
    if (record.size() < sizeof(perf_event_header) + trailer_bytes) continue;
    if (!events.find(load<std::uint64_t>(log.data() + end - sizeof ours)))
      std::memcpy(log.data() + end - sizeof ours, &ours, sizeof ours);
  }
}

}  // namespace flight
