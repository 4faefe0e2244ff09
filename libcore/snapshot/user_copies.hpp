// SPDX-License-Identifier: Apache-2.0
// Cuts the copies of the user's registers and stack from the samples that a file gets: contents of memory leave the
// rings for unwinding only. What remains is an ordinary sample with a callchain.
//
//   ring   | header | fixed fields | CALLCHAIN | RAW | REGS_USER | STACK_USER | CGROUP |
//   file   | header | fixed fields | CALLCHAIN | RAW | CGROUP |
//
// Its one rule: a sample that cannot be cut is not written.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libcore/perf/record.hpp"

namespace flight {

class UserCopies {
 public:
  // `events` is the recording's own table; it must outlive this object.
  explicit UserCopies(const EventTable& events);

  // Whether any sample is cut.
  [[nodiscard]] bool any() const { return any_; }
  // The record for the file; valid until the next call. Empty: it must not be written. `key`: record_key(), needed of a
  // SAMPLE. One thread.
  [[nodiscard]] std::span<const std::byte> cut(std::span<const std::byte> record, const std::optional<RecordKey>& key);

 private:
  const EventTable& events_;
  bool any_ = false;
  std::vector<std::byte> cut_;
};

// The attr of a file's samples.
void remove_user_copies(perf_event_attr& attr);
// How many bytes cut() removes from this sample.
[[nodiscard]] std::size_t user_copy_bytes(std::span<const std::byte> sample, const RecordLayout& layout);

}  // namespace flight
