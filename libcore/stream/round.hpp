// SPDX-License-Identifier: Apache-2.0
// One round: what each ring had since its last look, packed for the file, and what is missing of it.
//
//   round k   CPU 0: [block][block] hole [block]   CPU 1: –   CPU 2: [block]      then, in the file, FINISHED_ROUND
//
// perf's order (perf.data-file-format.txt, FINISHED_ROUND): after FINISHED_ROUND k no record may be older than the
// newest one before FINISHED_ROUND k - 1. So a round's records must not be older than the newest of the round before
// the last one: its floor. Plain values, passed from thread to thread; the blocks lie in their pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/stream/block_pool.hpp"

namespace flight {

// A record may be in its ring so much later than its time says.
inline constexpr EventTime kSettleNs = 50'000'000;

enum class HoleCause : std::uint8_t {
  overwritten,  // before it was read: the worker came too late, or the ring is too small
  disk,         // no block was free, or the file could not be written
  late,         // older than the round's floor: its worker left the round in which it read them
  paused,       // nothing was recorded: flightctl pause, or a snapshot that paused the ring
};
[[nodiscard]] std::string_view to_string(HoleCause cause);

// Records of one ring that are not in the file. Their times are in [from_ns, until_ns]: those of the records before and
// after it where they could not be read, else their own.
struct Hole {
  HoleCause cause = HoleCause::overwritten;
  std::uint64_t bytes = 0;   // as in the ring; of `paused` 0
  std::uint64_t events = 0;  // samples; of `paused` those of the ring's LOST record, 0 until that is read
  // `events` is `bytes` by the mean size of the ring's records. Of what was overwritten before the recording began,
  // `bytes` is by the rate of the records behind it.
  bool estimated = false;
  EventTime from_ns = 0, until_ns = 0;
};

// Bytes of the file: a COMPRESSED record, or records as they are.
struct Block {
  PooledBytes bytes;
  std::uint64_t expanded_bytes = 0;
  std::uint64_t events = 0;
  EventTime oldest_ns = 0, newest_ns = 0;  // of its records, or of the chunk of which it is a part
};

struct RingRound {
  static constexpr std::size_t kMaxHoles = 64;  // beyond, the last of each cause grows over what is between them

  std::size_t ring = 0;
  int cpu = 0;
  std::size_t worker = 0;     // that reads the ring
  std::vector<Block> blocks;  // oldest first
  std::vector<Hole> holes;
  // Read from the ring, before any filter; samples and their bytes with all other records'.
  std::uint64_t events = 0, bytes = 0;
  std::uint64_t foreign = 0;  // records that were dropped: of unknown ids or types, as in snapshots

  [[nodiscard]] bool empty() const;
  // Joins it with the last hole of its cause, if no block is between them.
  void add_hole(const Hole& hole);
  // Appends the blocks and holes that the same ring had in a later round.
  void append(RingRound&& later);
  // Gives up the blocks that may have records older than `floor_ns`: holes with the cause `late`.
  void drop_older(EventTime floor_ns);
};

// Appends each ring of `more` to the same ring in `rings`, or adds it.
void append_rings(std::vector<RingRound>& rings, std::vector<RingRound>&& more);

struct Round {
  std::uint64_t number = 0;      // 0: what the rings held
  std::vector<RingRound> rings;  // in the order of CPUs; only those with something
  EventTime newest_ns = 0;       // of the records of this and all earlier rounds

  // Joins a later round with this one: what is in the order of both is in the order of one.
  void append(Round&& later);
};

}  // namespace flight
