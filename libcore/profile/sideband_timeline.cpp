// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sideband_timeline.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

enum class Use { none, kept, malformed };

Use kept_if(bool valid) { return valid ? Use::kept : Use::malformed; }

Use use_of(std::span<const std::byte> record) {
  switch (load<std::uint32_t>(record.data())) {
    case PERF_RECORD_COMM:
      return kept_if(parse_comm(record).has_value());
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
      return kept_if(parse_task(record).has_value());
    case PERF_RECORD_MMAP:
      return kept_if(parse_mmap(record).has_value());
    case PERF_RECORD_MMAP2:
      return kept_if(parse_mmap2(record).has_value());
    case PERF_RECORD_KSYMBOL:
      return kept_if(parse_ksymbol(record).has_value());
    case PERF_RECORD_CGROUP:
      return kept_if(parse_cgroup(record).has_value());
    default:
      return Use::none;
  }
}

}  // namespace

void SidebandTimeline::add(std::span<const std::byte> record) {
  const Use use = use_of(record);
  if (use == Use::none) return;
  const auto trailer = parse_trailer(record);
  if (use == Use::malformed || !trailer || next_record(record).size() != record.size()) {
    ++malformed_;
    return;
  }
  if (record.size() > most_bytes_ - records_.prologue.size() - records_.log.size()) {
    ++left_out_;
    return;
  }
  const bool always = trailer->time_ns == 0 || trailer->time_ns == UINT64_MAX;
  RecordBuffer& to = always ? records_.prologue : records_.log;
  if (!always)
    log_.push_back({.time_ns = trailer->time_ns,
                    .offset = static_cast<std::uint32_t>(to.size()),
                    .bytes = static_cast<std::uint32_t>(record.size())});
  to.insert(to.end(), record.begin(), record.end());
}

void SidebandTimeline::sort_log() {
  const auto earlier = [](const Place& a, const Place& b) { return a.time_ns < b.time_ns; };
  if (std::is_sorted(log_.begin(), log_.end(), earlier)) return;
  std::stable_sort(log_.begin(), log_.end(), earlier);
  RecordBuffer sorted;
  sorted.reserve(records_.log.size());
  for (Place& place : log_) {
    const auto record = std::span<const std::byte>(records_.log).subspan(place.offset, place.bytes);
    place.offset = static_cast<std::uint32_t>(sorted.size());
    sorted.insert(sorted.end(), record.begin(), record.end());
  }
  records_.log = std::move(sorted);
}

void SidebandTimeline::apply(std::span<const std::byte> records) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    spaces_.apply(record, next_);
    tasks_.apply(record, next_);
    ++next_;
    records = records.subspan(record.size());
  }
}

void SidebandTimeline::close() {
  sort_log();
  apply(records_.prologue);
  log_begin_ = next_;
  apply(records_.log);
}

SidebandPosition SidebandTimeline::position_at(EventTime time_ns) const {
  const auto after = std::upper_bound(log_.begin(), log_.end(), time_ns,
                                      [](EventTime time, const Place& place) { return time < place.time_ns; });
  return log_begin_ + static_cast<SidebandPosition>(after - log_.begin());
}

}  // namespace flight
