// SPDX-License-Identifier: Apache-2.0
// The samples of the rings as a file gets them: without the copies of the user's registers and stack
// (user_copies.hpp), without callers that are no code (garbage_frames.hpp), and, where other events have callchains,
// with an empty one (empty_chains.hpp). What is done to a sample leaves its id and time where they are, so that its
// event is looked up once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "libcore/snapshot/empty_chains.hpp"
#include "libcore/snapshot/garbage_frames.hpp"
#include "libcore/snapshot/user_copies.hpp"

namespace flight {

class FileSamples {
 public:
  // `events` is the recording's own table; it must outlive this object, and so must `code`. Null: all callers stay.
  FileSamples(const Manifest& manifest, const EventTable& events, const MappedCode* code = nullptr)
      : events_(events), copies_(events), garbage_(events, code), chains_(manifest) {}

  // Whether any sample is changed.
  [[nodiscard]] bool any() const { return copies_.any() || garbage_.any() || chains_.any(); }
  // The attributes of what file_record() returns; `events` are file_events(), in the manifest's order.
  void mark(std::vector<FileEvent>& events) const { chains_.mark(events); }
  // The record for the file; valid until the next call. Empty: it must not be written. One thread.
  [[nodiscard]] std::span<const std::byte> file_record(std::span<const std::byte> record) {
    if (!any() || record.size() < kRecordHeaderBytes) return record;
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return record;
    const auto key = record_key(record, events_);
    const auto cut = copies_.cut(record, key);
    return cut.empty() ? cut : chains_.fill(garbage_.drop(cut, key), key);
  }
  // Of all records until now.
  [[nodiscard]] const SidecarStacks& stacks() const { return garbage_.stacks(); }

 private:
  const EventTable& events_;
  UserCopies copies_;
  GarbageFrames garbage_;
  EmptyChains chains_;
};

}  // namespace flight
