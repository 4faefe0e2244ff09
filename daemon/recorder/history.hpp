// SPDX-License-Identifier: Apache-2.0
// How far back a ring reaches, without reading its data: notes of (time, head), once a second. A backward ring's head
// only decreases; the difference of two heads is what was written between them.
#pragma once

#include <cstdint>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight::daemon {

class History {
 public:
  History(std::uint64_t ring_bytes, EventTime enabled_ns) : ring_bytes_(ring_bytes), enabled_ns_(enabled_ns) {}

  void note(EventTime now_ns, std::uint64_t head);

  // No record in the ring is older than this; too early by at most the distance of two notes.
  [[nodiscard]] EventTime oldest_bound_ns() const;
  // The best estimate of the oldest record's time.
  [[nodiscard]] EventTime oldest_ns() const;
  // The ring has been full: new records overwrite the oldest.
  [[nodiscard]] bool overwrites() const {
    return !notes_.empty() && notes_.front().head - notes_.back().head >= ring_bytes_;
  }
  // Nothing was written so far.
  [[nodiscard]] bool empty() const { return notes_.empty() || notes_.back().head == 0; }
  // Bytes written per second, over the last `seconds` notes.
  [[nodiscard]] double bytes_per_second(double seconds = 10) const;

 private:
  struct Note {
    EventTime time_ns;
    std::uint64_t head;
  };
  void thin();
  std::uint64_t ring_bytes_;
  EventTime enabled_ns_;
  std::vector<Note> notes_;  // oldest first; the first may already be overwritten
};

}  // namespace flight::daemon
