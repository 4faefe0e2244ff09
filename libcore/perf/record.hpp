// SPDX-License-Identifier: Apache-2.0
// Where the fields of a perf record are. Source: perf_event_open(2) and include/uapi/linux/perf_event.h.
//
//   SAMPLE  | header 8 | IDENTIFIER | IP | TID | TIME | ADDR.. | CPU | PERIOD | CALLCHAIN | RAW | .. | CGROUP |
//                                                               fixed fields ◀─┴─▶ sample_parts.hpp
//   others  | header 8 | body …                                 | TID | TIME | CPU | IDENTIFIER |  <- trailer
//
// Records come from kernel rings, but also from images that may be torn: nothing here reads beyond `size`.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

// Byte offsets that follow from a sample_type. -1: the record does not have the field.
inline constexpr std::size_t kRecordHeaderBytes = 8;   // perf_event_header
inline constexpr std::size_t kMaxRecordBytes = 65536;  // its size has 16 bits

// Copies of the user's registers and stack.
inline constexpr std::uint64_t kUserCopies = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

struct RecordLayout {
  std::uint64_t sample_type = 0;
  int ip = -1;   // in a SAMPLE, from the record's beginning
  int tid = -1;  // u32 pid, u32 tid
  int time = -1;
  int cpu = -1;
  int trailer_bytes = 0;  // of all other records
  int trailer_tid = -1;   // from the trailer's beginning
  int trailer_time = -1;
  int trailer_cpu = -1;
  int trailer_id = -1;
  std::uint64_t user_register_bytes = 0;  // of REGS_USER, without its abi

  // Its samples have kUserCopies (sample_parts.hpp).
  [[nodiscard]] bool copies_user() const { return (sample_type & kUserCopies) != 0; }
  // `user_registers`: attr.sample_regs_user.
  [[nodiscard]] static RecordLayout of(std::uint64_t sample_type, std::uint64_t user_registers = 0);
};

// The ids of a recording: which event each belongs to.
class EventTable {
 public:
  // Returns the event's index. Its sample_type must contain PERF_SAMPLE_IDENTIFIER and PERF_SAMPLE_TIME.
  std::size_t add_event(std::uint64_t sample_type, std::uint64_t user_registers = 0);
  void add_id(std::uint64_t id, std::size_t event);
  // nullopt: the id is not in the table.
  [[nodiscard]] std::optional<std::size_t> find(std::uint64_t id) const;
  // The largest one; 0: there is none. An event that was opened later has a larger one (perf_event_alloc() in
  // kernel/events/core.c).
  [[nodiscard]] std::uint64_t newest_id() const { return ids_.empty() ? 0 : ids_.back().first; }
  [[nodiscard]] const RecordLayout& layout(std::size_t event) const { return layouts_[event]; }
  [[nodiscard]] std::size_t size() const { return layouts_.size(); }
  // Whether samples of any event have kUserCopies.
  [[nodiscard]] bool copies_user() const;

 private:
  std::vector<RecordLayout> layouts_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> ids_;  // sorted by id
};

// The id, event and time of a whole record; nullopt if the id is unknown or the record too short for its fields.
struct RecordKey {
  std::uint64_t id = 0;
  std::size_t event = 0;
  EventTime time_ns = 0;
};
[[nodiscard]] std::optional<RecordKey> record_key(std::span<const std::byte> record, const EventTable& events);

// The fields of a SAMPLE that `top` and the process tracker's selection need.
struct SampleFields {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::uint64_t ip = 0;
  std::uint64_t cgroup = 0;  // 0: not sampled
};
[[nodiscard]] std::optional<SampleFields> sample_fields(std::span<const std::byte> record, const RecordLayout& layout);

// The weight and the call chain of a SAMPLE.
struct SampleCalls {
  std::optional<std::uint64_t> period;  // nullopt: not recorded; the attribute's holds
  // u64 each, not aligned: addresses and the PERF_CONTEXT_* before them, the innermost first. Empty if READ is in the
  // sample_type: its length needs the read_format.
  std::span<const std::byte> chain;
};
// nullopt: not a SAMPLE, or these fields exceed it.
[[nodiscard]] std::optional<SampleCalls> sample_calls(std::span<const std::byte> record, std::uint64_t sample_type);

// The body of PERF_RECORD_LOST.
struct LostFields {
  std::uint64_t id = 0;
  std::uint64_t lost = 0;
};
[[nodiscard]] std::optional<LostFields> lost_fields(std::span<const std::byte> record);

// Reads an unaligned little-endian field; the caller has checked the bounds.
template <typename T>
[[nodiscard]] inline T load(const std::byte* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace flight
