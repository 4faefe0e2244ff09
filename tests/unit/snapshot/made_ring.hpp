// SPDX-License-Identifier: Apache-2.0
// A backward ring built in memory, walked and selected completely, as the input of the pipeline after the freeze.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/snapshot/tally.hpp"

namespace flight {

class MadeRing {
 public:
  // Records are added oldest first.
  void add(const RecordBuffer& record) {
    head_ -= record.size();
    for (std::size_t i = 0; i < record.size(); ++i) bytes_[(head_ + i) & (kBytes - 1)] = record[i];
    ++records_;
  }
  void add_comm(EventTime time_ns, std::uint64_t id) {
    RecordBuffer record;
    append_comm(record, {.pid = 7, .tid = 7, .name = "made"}, {.time_ns = time_ns, .id = id});
    add(record);
  }
  // A sample of an event with kSidebandSampleType: IDENTIFIER, TID, TIME, CPU; and CGROUP, if it has one.
  void add_sample(EventTime time_ns, std::uint32_t tid, std::uint64_t id,
                  std::uint16_t cpumode = PERF_RECORD_MISC_KERNEL, std::optional<std::uint64_t> cgroup = std::nullopt) {
    struct {
      perf_event_header header = {.type = PERF_RECORD_SAMPLE, .misc = 1, .size = 40};
      std::uint64_t id = 0;
      std::uint32_t pid = 0, tid = 0;
      std::uint64_t time_ns = 0;
      std::uint32_t cpu = 0, reserved = 0;
      std::uint64_t cgroup = 0;
    } sample;
    sample.header.misc = cpumode;
    sample.id = id;
    sample.pid = sample.tid = tid;
    sample.time_ns = time_ns;
    if (cgroup) sample.cgroup = *cgroup, sample.header.size = sizeof sample;
    const auto bytes = std::as_bytes(std::span(&sample, 1)).first(sample.header.size);
    add({bytes.begin(), bytes.end()});
  }
  // Both keep references to the ring's bytes.
  [[nodiscard]] RingImage image() const { return {.bytes = bytes_, .head = head_, .valid_bytes = kBytes}; }
  [[nodiscard]] RingSelection selection(const EventTable& events) const {
    RingSelection out;
    out.image = image();
    out.walk = walk_ring(out.image, events);
    out.last = out.walk.records.size();
    EXPECT_EQ(out.last, records_) << "the ring is too small for its test";
    tally_records(out, events, std::vector<bool>(events.size(), true), {}, false);
    return out;
  }

 private:
  static constexpr std::size_t kBytes = 1U << 16U;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kBytes);
  std::uint64_t head_ = 0;
  std::size_t records_ = 0;
};

// One event, whose ids are [1, ids]. `more`: fields of its samples.
inline EventTable made_events(std::uint64_t ids, std::uint64_t more = 0) {
  EventTable events;
  const std::size_t event = events.add_event(kSidebandSampleType | more);
  for (std::uint64_t id = 1; id <= ids; ++id) events.add_id(id, event);
  return events;
}

}  // namespace flight
