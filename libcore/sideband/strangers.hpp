// SPDX-License-Identifier: Apache-2.0
// Drained records whose trailer has the id of none of our sideband's events. The kernel has written a wrong size, or
// something else is wrong with them: what stands where the trailer should be is old memory of the ring. They must not
// be believed, so they are dropped and counted. LOST records are kept: nothing in them is read by position from the end
// but the time of the loss.
//
// A CPU that returns gets a new event, whose id comes with the broker's next manifest, maybe after its first records.
// So a record waits kHoldNs for its id. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>

#include "libcore/base/clock.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

class Strangers {
 public:
  static constexpr EventTime kHoldNs = 5'000'000'000;
  static constexpr std::size_t kMostHeldBytes = 256U << 10U;  // beyond, the oldest wait no longer

  // The ids of a recording's sideband, those of closed events included. Earlier ones stay known.
  void know(const Manifest& manifest);
  // Takes records with unknown ids out of `records`, and puts those back whose id is known by now. `records`: whole
  // ones, as drained at `now_ns`.
  void sift(RecordBuffer& records, EventTime now_ns);
  // Whether sift() would do something although nothing was drained.
  [[nodiscard]] bool due(EventTime now_ns) const;
  // Appends a note (notes.hpp) with the number of records that were dropped since the last call.
  void report(RecordBuffer& records);

 private:
  struct Held {
    EventTime drained_ns = 0;
    std::uint64_t id = 0;
    RecordBuffer record;
  };
  void drop_oldest();

  std::unordered_set<std::uint64_t> ids_;
  std::deque<Held> held_;
  std::size_t held_bytes_ = 0;
  bool learned_ = false;  // ids, since the last sift()
  std::uint64_t dropped_ = 0;
  EventTime dropped_ns_ = 0;  // when the newest of them was drained
};

}  // namespace flight
