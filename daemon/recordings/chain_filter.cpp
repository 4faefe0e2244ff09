// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/chain_filter.hpp"

#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight::daemon {

ChainFilter::ChainFilter(std::shared_ptr<const Attached> attached, StreamSink& next)
    : attached_(std::move(attached)), chains_(attached_->manifest, attached_->events), next_(next) {
  filled_.reserve(RecordRun::kBytes + kMaxRecordBytes);
}

// A run may become larger than one may be: then it becomes several.
void ChainFilter::records(std::size_t ring, const RecordRun& run) {
  std::span<const std::byte> rest = run.records;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    const auto filled = chains_.fill(record);
    if (!filled_.empty() && filled_.size() + filled.size() > RecordRun::kBytes) pass_on(ring, run);
    filled_.insert(filled_.end(), filled.begin(), filled.end());
    events_ += load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE ? 1 : 0;
  }
  if (!filled_.empty()) pass_on(ring, run);
}

void ChainFilter::pass_on(std::size_t ring, const RecordRun& run) {
  next_.records(ring, {.records = filled_,
                       .events = std::exchange(events_, 0),
                       .oldest_ns = run.oldest_ns,
                       .newest_ns = run.newest_ns});
  filled_.clear();
}

}  // namespace flight::daemon
