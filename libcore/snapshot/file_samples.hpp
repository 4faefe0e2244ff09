// SPDX-License-Identifier: Apache-2.0
// The samples of the rings as a file gets them: without the copies of the user's registers and stack
// (user_copies.hpp), without callers that are no code (garbage_frames.hpp), and, where other events have callchains,
// with an empty one (empty_chains.hpp).
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
      : copies_(events), garbage_(events, code), chains_(manifest, events) {}

  // Whether any sample is changed.
  [[nodiscard]] bool any() const { return copies_.any() || garbage_.any() || chains_.any(); }
  // The attributes of what file_record() returns; `events` are file_events(), in the manifest's order.
  void mark(std::vector<FileEvent>& events) const { chains_.mark(events); }
  // The record for the file; valid until the next call. Empty: it must not be written. One thread.
  [[nodiscard]] std::span<const std::byte> file_record(std::span<const std::byte> record) {
    const auto cut = copies_.cut(record);
    return cut.empty() ? cut : chains_.fill(garbage_.drop(cut));
  }
  // Of all records until now.
  [[nodiscard]] const SidecarStacks& stacks() const { return garbage_.stacks(); }

 private:
  UserCopies copies_;
  GarbageFrames garbage_;
  EmptyChains chains_;
};

}  // namespace flight
