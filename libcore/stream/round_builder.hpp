// SPDX-License-Identifier: Apache-2.0
// The last sink of a worker: packs the records of its rings into blocks, and collects what a round has of each ring.
// While the pool has no free block, the records become a hole with the cause `disk`. The worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libcore/stream/block_pool.hpp"
#include "libcore/stream/chunks.hpp"
#include "libcore/stream/round.hpp"
#include "libcore/stream/sink.hpp"

namespace flight {

class RoundBuilder : public StreamSink {
 public:
  struct RingName {
    std::size_t ring = 0;  // among all rings
    int cpu = 0;
    std::size_t worker = 0;
  };
  // `rings`: the worker's. `chunks` and `pool` must outlive it; it is the only user of `chunks`.
  RoundBuilder(Chunks& chunks, BlockPool& pool, const std::vector<RingName>& rings);

  void records(std::size_t ring, const RecordRun& run) override;
  void hole(std::size_t ring, const Hole& hole) override;
  void end_of_round() override { pack(); }

  // What was read from a ring, before any filter.
  void count(std::size_t ring, std::uint64_t events, std::uint64_t bytes, std::uint64_t foreign);
  // After end_of_round(): the rings that have something.
  [[nodiscard]] std::vector<RingRound> take();

 private:
  struct Ring {
    RingRound round;
    std::size_t enough = kFirstChunkBytes;  // of a chunk
  };
  void pack();
  void keep(const Chunks::Packed& packed);

  Chunks& chunks_;
  BlockPool& pool_;
  std::vector<Ring> rings_;
  // The ring of the chunk that is being filled, and the counts and times of its records.
  std::size_t ring_ = 0;
  std::uint64_t events_ = 0;
  EventTime oldest_ns_ = 0, newest_ns_ = 0;
};

}  // namespace flight
