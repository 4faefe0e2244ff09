// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/strangers.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstring>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/notes.hpp"

namespace flight {

void Strangers::know(const Manifest& manifest) {
  const std::size_t before = ids_.size();
  if (!manifest.events.empty())
    for (const ManifestId& id : manifest.events.front().ids) ids_.insert(id.id);
  for (const ManifestRing& ring : manifest.rings) {
    if (ring.kind != RingKind::sideband) continue;
    ids_.insert(ring.owner_id);
    ids_.insert(ring.live_ids.begin(), ring.live_ids.end());
  }
  learned_ = learned_ || ids_.size() != before;
}

void Strangers::drop_oldest() {
  ++dropped_;
  dropped_ns_ = std::max(dropped_ns_, held_.front().drained_ns);
  held_bytes_ -= held_.front().record.size();
  held_.pop_front();
}

bool Strangers::due(EventTime now_ns) const {
  return !held_.empty() && (learned_ || now_ns - std::min(now_ns, held_.front().drained_ns) >= kHoldNs);
}

void Strangers::sift(RecordBuffer& records, EventTime now_ns) {
  std::size_t kept = 0, done = 0;
  std::uint64_t known = 0;  // the id of the last record of ours: those of one ring have the same
  for (auto record = next_record(records); !record.empty(); record = next_record(std::span(records).subspan(done))) {
    const std::size_t size = record.size();
    const auto trailer = parse_trailer(record);
    const bool is_known = trailer && ((known != 0 && trailer->id == known) || ids_.contains(trailer->id));
    if (is_known) known = trailer->id;
    const bool ours = is_known || load<perf_event_header>(record.data()).type == PERF_RECORD_LOST;
    if (!ours) {
      held_.push_back({now_ns, trailer ? trailer->id : 0, RecordBuffer(record.begin(), record.end())});
      held_bytes_ += size;
    } else if (kept != done) {
      std::memmove(records.data() + kept, records.data() + done, size);
    }
    if (ours) kept += size;
    done += size;
  }
  if (kept != done)
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(kept),
                  records.begin() + static_cast<std::ptrdiff_t>(done));
  if (std::exchange(learned_, false))
    std::erase_if(held_, [&](const Held& one) {
      if (!ids_.contains(one.id)) return false;
      records.insert(records.end(), one.record.begin(), one.record.end());
      held_bytes_ -= one.record.size();
      return true;
    });
  while (!held_.empty() && (held_bytes_ > kMostHeldBytes || now_ns - held_.front().drained_ns >= kHoldNs))
    drop_oldest();
}

void Strangers::report(RecordBuffer& records) {
  if (dropped_ == 0) return;
  append_note(records, {.kind = NoteKind::strangers, .count = dropped_}, {.time_ns = dropped_ns_});
  dropped_ = dropped_ns_ = 0;
}

}  // namespace flight
