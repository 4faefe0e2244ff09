// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/sample_filter.hpp"

#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight::daemon {

SampleFilter::SampleFilter(std::shared_ptr<const Attached> attached, StreamSink& next)
    : attached_(std::move(attached)), samples_(attached_->manifest, attached_->events), next_(next) {
  kept_.reserve(RecordRun::kBytes + kMaxRecordBytes);
}

// A run may become larger than one may be: then it becomes several.
void SampleFilter::records(std::size_t ring, const RecordRun& run) {
  std::span<const std::byte> rest = run.records;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    const auto kept = samples_.file_record(record);
    if (kept.empty()) continue;
    if (!kept_.empty() && kept_.size() + kept.size() > RecordRun::kBytes) pass_on(ring, run);
    kept_.insert(kept_.end(), kept.begin(), kept.end());
    events_ += load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE ? 1 : 0;
  }
  if (!kept_.empty()) pass_on(ring, run);
}

void SampleFilter::pass_on(std::size_t ring, const RecordRun& run) {
  next_.records(
      ring,
      {.records = kept_, .events = std::exchange(events_, 0), .oldest_ns = run.oldest_ns, .newest_ns = run.newest_ns});
  kept_.clear();
}

}  // namespace flight::daemon
