// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/ring_intake.hpp"

#include <algorithm>
#include <utility>

#include "libcore/perf/headerless.hpp"
#include "libcore/perf/sample_parts.hpp"

namespace flight {
namespace {

// nullopt: perf could not read the record.
std::optional<std::uint64_t> readable_id(std::span<const std::byte> record) {
  const auto header = load<perf_event_header>(record.data());
  if (header.type == 0 || header.type > kNewestReadableType || record.size() < kRecordHeaderBytes + 8)
    return std::nullopt;
  const bool sample = header.type == PERF_RECORD_SAMPLE;
  return load<std::uint64_t>(&record[sample ? kRecordHeaderBytes : record.size() - 8]);
}

}  // namespace

RingIntake::RingIntake(std::size_t ring, const EventTable& events, StreamSink& next, EventTime begin_ns,
                       EventTime since_ns, bool all_since)
    : ring_(ring), events_(events), next_(next), since_ns_(since_ns), last_ns_(begin_ns), all_since_(all_since) {}

void RingIntake::begin(EventTime floor_ns, std::optional<EventTime> now_ns) {
  floor_ns_ = floor_ns;
  looked_before_ns_ = std::exchange(looked_ns_, now_ns).value_or(0);
  left_bytes_ = 0;
}

void RingIntake::records(std::span<const std::byte> records) {
  for (std::size_t at = 0; at + kRecordHeaderBytes <= records.size();) {
    const std::size_t size = load<perf_event_header>(&records[at]).size;
    if (size < kRecordHeaderBytes || size > records.size() - at) break;  // never of RingReader
    EventTime time_ns = 0;
    if (read_time(records.subspan(at, size), time_ns)) {
      if (cut_ && cut_->until_ns == 0) {
        cut_->until_ns = time_ns;
        cut_->known_bytes = overwritten_;
      }
      take(records, at, size, time_ns);
      note_pause(records, at, size, time_ns);
    } else {
      pass_on(records);
      if (leaves(records.subspan(at, size))) {
        left_bytes_ = records.size() - at;
        break;
      }
      ++counts_.foreign;
    }
    at += size;
  }
  pass_on(records);
  report_late();
  report_cut();
}

void RingIntake::take(std::span<const std::byte> records, std::size_t at, std::size_t size, EventTime time_ns) {
  if (time_ns < since_ns_) {
    pass_on(records);
    return;
  }
  const bool sample = load<perf_event_header>(&records[at]).type == PERF_RECORD_SAMPLE;
  counts_.events += sample ? 1 : 0;
  counts_.bytes += size;
  all_events_ += sample ? 1 : 0;
  all_bytes_ += size;
  if (time_ns < floor_ns_) {
    pass_on(records);
    late_ = {.cause = HoleCause::late,
             .bytes = late_.bytes + size,
             .events = late_.events + (sample ? 1 : 0),
             .estimated = false,
             .from_ns = late_.bytes == 0 ? time_ns : std::min(late_.from_ns, time_ns),
             .until_ns = std::max(late_.until_ns, time_ns)};
    return;
  }
  if (run_.end != 0 && at + size - run_.begin > RecordRun::kBytes) pass_on(records);
  if (run_.end == 0) run_ = {.begin = at, .end = at, .events = 0, .oldest_ns = time_ns, .newest_ns = time_ns};
  run_.end = at + size;
  run_.events += sample ? 1 : 0;
  run_.oldest_ns = std::min(run_.oldest_ns, time_ns);
  run_.newest_ns = std::max(run_.newest_ns, time_ns);
}

// While a ring is paused the kernel only counts. The first record behind the pause is followed by LOST (in a backward
// ring; __perf_output_begin() in kernel/events/ring_buffer.c).
void RingIntake::note_pause(std::span<const std::byte> records, std::size_t at, std::size_t size, EventTime time_ns) {
  const auto lost = lost_fields(records.subspan(at, size));
  if (!lost) {
    before_newest_ns_ = std::exchange(newest_ns_, time_ns);
    return;
  }
  if (time_ns < since_ns_) return;
  pass_on(records);
  next_.hole(ring_, {.cause = HoleCause::paused,
                     .bytes = 0,
                     .events = lost->lost,
                     .estimated = false,
                     .from_ns = std::max(before_newest_ns_, since_ns_),
                     .until_ns = std::max(newest_ns_, since_ns_)});
}

// Holes first: they are older.
void RingIntake::pass_on(std::span<const std::byte> records) {
  if (run_.end == 0) return;
  report_late();
  report_overwritten(run_.oldest_ns);
  const Run run = std::exchange(run_, {});
  note(run.newest_ns);
  next_.records(ring_, {.records = records.subspan(run.begin, run.end - run.begin),
                        .events = run.events,
                        .oldest_ns = run.oldest_ns,
                        .newest_ns = run.newest_ns});
}

// The mean size is that of all records of this ring; without any, nothing is known.
std::uint64_t RingIntake::events_in(std::uint64_t bytes) const {
  if (all_bytes_ == 0) return 0;
  const double each = static_cast<double>(all_events_) / static_cast<double>(all_bytes_);
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * each + 0.5);
}

void RingIntake::report_overwritten(EventTime until_ns) {
  if (overwritten_ == 0) return;
  const std::uint64_t bytes = std::exchange(overwritten_, 0);
  next_.hole(ring_, {.cause = HoleCause::overwritten,
                     .bytes = bytes,
                     .events = events_in(bytes),
                     .estimated = true,
                     .from_ns = std::min(last_ns_, until_ns),
                     .until_ns = until_ns});
}

// After the first records: their rate is the best that is known of those before them.
void RingIntake::report_cut() {
  if (!cut_ || cut_->until_ns == 0) return;
  const Cut cut = *cut_;
  cut_.reset();
  if (cut.until_ns <= since_ns_) return;
  double bytes = 0;
  if (last_ns_ > cut.until_ns)
    bytes = static_cast<double>(all_bytes_) / static_cast<double>(last_ns_ - cut.until_ns) *
            static_cast<double>(cut.until_ns - since_ns_);
  bytes -= std::min(bytes, static_cast<double>(cut.known_bytes));
  const auto at_most = static_cast<std::uint64_t>(std::min(bytes, static_cast<double>(cut.most_bytes)));
  next_.hole(ring_, {.cause = HoleCause::overwritten,
                     .bytes = at_most,
                     .events = events_in(at_most),
                     .estimated = true,
                     .from_ns = since_ns_,
                     .until_ns = cut.until_ns});
}

void RingIntake::report_late() {
  if (late_.bytes == 0) return;
  report_overwritten(late_.from_ns);  // it was before them: hole() comes between two calls of records()
  const Hole late = std::exchange(late_, {});
  note(late.until_ns);
  next_.hole(ring_, late);
}

// The first records may be older than the recording.
void RingIntake::note(EventTime newest_ns) {
  last_ns_ = has_read_ ? std::max(last_ns_, newest_ns) : newest_ns;
  has_read_ = true;
}

void RingIntake::end(EventTime now_ns) { report_overwritten(std::max(last_ns_, now_ns)); }

RingIntake::Counts RingIntake::take_counts() { return std::exchange(counts_, {}); }

const RecordLayout* RingIntake::layout_of(std::uint64_t id) {
  Known& known = known_[id % known_.size()];
  if (!known.filled || known.id != id) {
    const auto event = events_.find(id);
    known = {.id = id, .layout = event ? &events_.layout(*event) : nullptr, .filled = true};
  }
  return known.layout;
}

// True: its event is newer than those that are known. Before the look before this one there was no such record.
bool RingIntake::leaves(std::span<const std::byte> record) {
  if (!looked_ns_ || gave_up_) return false;
  const auto id = readable_id(record);
  if (!id || *id <= events_.newest_id()) return false;
  if (left_since_ns_ == 0) {
    left_since_ns_ = *looked_ns_;
    const EventTime known_ns = std::max(has_read_ ? last_ns_ : since_ns_, looked_before_ns_);
    left_from_ns_ = known_ns - std::min(known_ns, kSettleNs);
  }
  gave_up_ = *looked_ns_ - left_since_ns_ >= kKnownWithinNs;
  return !gave_up_;
}

// False: perf could not read the record in a file of these events.
bool RingIntake::read_time(std::span<const std::byte> record, EventTime& time_ns) {
  const auto id = readable_id(record);
  const RecordLayout* layout = id ? layout_of(*id) : nullptr;
  if (layout == nullptr) return false;
  const bool sample = load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE;
  const auto trailer_bytes = static_cast<std::size_t>(layout->trailer_bytes);
  if (!sample && record.size() < kRecordHeaderBytes + trailer_bytes) return false;
  const std::size_t time_at = sample ? static_cast<std::size_t>(layout->time)
                                     : record.size() - trailer_bytes + static_cast<std::size_t>(layout->trailer_time);
  if (time_at + sizeof(EventTime) > record.size()) return false;
  // Files have samples without these copies (libcore/snapshot/user_copies.hpp), which takes their sizes.
  if (sample && layout->copies_user() && !sample_parts(record, *layout)) return false;
  time_ns = load<EventTime>(&record[time_at]);
  return true;
}

}  // namespace flight
