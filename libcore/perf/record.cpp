// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/record.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "libcore/perf/sample_parts.hpp"

namespace flight {
namespace {

// Between STACK_USER and CGROUP. flightd never requests them: with one of them the cgroup stays unknown.
constexpr std::uint64_t kBeforeCgroup = PERF_SAMPLE_WEIGHT_TYPE | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_TRANSACTION |
                                        PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_PHYS_ADDR;

// The record's size from its header; 0 if that is not a record within `record`.
std::size_t stated_size(std::span<const std::byte> record) {
  if (record.size() < sizeof(perf_event_header)) return 0;
  const auto size = load<perf_event_header>(record.data()).size;
  return size < sizeof(perf_event_header) || size > record.size() ? 0 : size;
}

// The CGROUP field, which follows parts of variable length; nullopt if these exceed the record.
std::optional<std::uint64_t> cgroup_of(std::span<const std::byte> record, const RecordLayout& layout) {
  if ((layout.sample_type & PERF_SAMPLE_CGROUP) == 0) return 0;
  if ((layout.sample_type & (kBeforeCgroup | kUnmeasuredSampleFields)) != 0) return 0;
  const auto parts = sample_parts(record, layout);
  if (!parts || record.size() - parts->copies_end < 8) return std::nullopt;
  return load<std::uint64_t>(record.data() + parts->copies_end);
}

}  // namespace

RecordLayout RecordLayout::of(std::uint64_t sample_type, std::uint64_t user_registers) {
  RecordLayout layout;
  layout.sample_type = sample_type;
  layout.user_register_bytes = 8 * static_cast<std::uint64_t>(std::popcount(user_registers));
  const auto take = [&](int& at, std::uint64_t field) {
    const int here = at;
    if ((sample_type & field) == 0) return -1;
    at += 8;
    return here;
  };
  int at = static_cast<int>(kRecordHeaderBytes);
  take(at, PERF_SAMPLE_IDENTIFIER);
  layout.ip = take(at, PERF_SAMPLE_IP);
  layout.tid = take(at, PERF_SAMPLE_TID);
  layout.time = take(at, PERF_SAMPLE_TIME);
  take(at, PERF_SAMPLE_ADDR);
  take(at, PERF_SAMPLE_ID);
  take(at, PERF_SAMPLE_STREAM_ID);
  layout.cpu = take(at, PERF_SAMPLE_CPU);

  at = 0;
  layout.trailer_tid = take(at, PERF_SAMPLE_TID);
  layout.trailer_time = take(at, PERF_SAMPLE_TIME);
  const int id = take(at, PERF_SAMPLE_ID);
  take(at, PERF_SAMPLE_STREAM_ID);
  layout.trailer_cpu = take(at, PERF_SAMPLE_CPU);
  layout.trailer_id = take(at, PERF_SAMPLE_IDENTIFIER);
  if (layout.trailer_id < 0) layout.trailer_id = id;
  layout.trailer_bytes = at;
  return layout;
}

std::size_t EventTable::add_event(std::uint64_t sample_type, std::uint64_t user_registers) {
  assert((sample_type & PERF_SAMPLE_IDENTIFIER) != 0 && (sample_type & PERF_SAMPLE_TIME) != 0);
  layouts_.push_back(RecordLayout::of(sample_type, user_registers));
  return layouts_.size() - 1;
}

void EventTable::add_id(std::uint64_t id, std::size_t event) {
  assert(event < layouts_.size());
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id,
                                   [](const auto& known, std::uint64_t value) { return known.first < value; });
  const auto index = static_cast<std::uint32_t>(event);
  if (at != ids_.end() && at->first == id) {
    at->second = index;
  } else {
    ids_.emplace(at, id, index);
  }
}

std::optional<std::size_t> EventTable::find(std::uint64_t id) const {
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id,
                                   [](const auto& known, std::uint64_t value) { return known.first < value; });
  if (at == ids_.end() || at->first != id) return std::nullopt;
  return at->second;
}

bool EventTable::copies_user() const {
  return std::any_of(layouts_.begin(), layouts_.end(), [](const RecordLayout& one) { return one.copies_user(); });
}

std::optional<RecordKey> record_key(std::span<const std::byte> record, const EventTable& events) {
  const std::size_t size = stated_size(record);
  if (size < sizeof(perf_event_header) + 8) return std::nullopt;
  const bool sample = load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE;
  const auto id = load<std::uint64_t>(record.data() + (sample ? sizeof(perf_event_header) : size - 8));
  const auto event = events.find(id);
  if (!event) return std::nullopt;
  const RecordLayout& layout = events.layout(*event);
  const auto trailer_bytes = static_cast<std::size_t>(layout.trailer_bytes);
  if (!sample && size < sizeof(perf_event_header) + trailer_bytes) return std::nullopt;
  const std::size_t time_at = sample ? static_cast<std::size_t>(layout.time)
                                     : size - trailer_bytes + static_cast<std::size_t>(layout.trailer_time);
  if (time_at + 8 > size) return std::nullopt;
  return RecordKey{id, *event, load<EventTime>(record.data() + time_at)};
}

std::optional<SampleFields> sample_fields(std::span<const std::byte> record, const RecordLayout& layout) {
  const std::size_t size = stated_size(record);
  if (size == 0 || load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return std::nullopt;
  record = record.first(size);
  const auto here = [&](int at) { return static_cast<std::size_t>(at) + 8 <= size; };
  SampleFields fields;
  if (layout.ip >= 0) {
    if (!here(layout.ip)) return std::nullopt;
    fields.ip = load<std::uint64_t>(record.data() + layout.ip);
  }
  if (layout.tid >= 0) {
    if (!here(layout.tid)) return std::nullopt;
    fields.pid = load<std::uint32_t>(record.data() + layout.tid);
    fields.tid = load<std::uint32_t>(record.data() + layout.tid + 4);
  }
  if (layout.cpu >= 0) {
    if (!here(layout.cpu)) return std::nullopt;
    fields.cpu = load<std::uint32_t>(record.data() + layout.cpu);
  }
  const auto cgroup = cgroup_of(record, layout);
  if (!cgroup) return std::nullopt;
  fields.cgroup = *cgroup;
  return fields;
}

std::optional<SampleCalls> sample_calls(std::span<const std::byte> record, std::uint64_t sample_type) {
  const std::size_t size = stated_size(record);
  if (size == 0 || load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return std::nullopt;
  std::size_t at = kRecordHeaderBytes + 8 * static_cast<std::size_t>(std::popcount(sample_type & kFixedSampleFields));
  if (at > size) return std::nullopt;
  SampleCalls calls;
  // PERIOD is the last of the fixed fields.
  if ((sample_type & PERF_SAMPLE_PERIOD) != 0) calls.period = load<std::uint64_t>(record.data() + at - 8);
  if ((sample_type & PERF_SAMPLE_CALLCHAIN) == 0 || (sample_type & PERF_SAMPLE_READ) != 0) return calls;
  if (size - at < 8) return std::nullopt;
  const auto frames = load<std::uint64_t>(record.data() + at);
  at += 8;
  if (frames > (size - at) / 8) return std::nullopt;
  calls.chain = record.subspan(at, 8 * static_cast<std::size_t>(frames));
  return calls;
}

std::optional<LostFields> lost_fields(std::span<const std::byte> record) {
  const std::size_t size = stated_size(record);
  if (size < sizeof(perf_event_header) + 16) return std::nullopt;
  if (load<perf_event_header>(record.data()).type != PERF_RECORD_LOST) return std::nullopt;
  const std::byte* body = record.data() + sizeof(perf_event_header);
  return LostFields{load<std::uint64_t>(body), load<std::uint64_t>(body + 8)};
}

}  // namespace flight
