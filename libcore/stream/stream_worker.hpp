// SPDX-License-Identifier: Apache-2.0
// One worker of StreamWorkers: its rings, and what they pass through until they are blocks of a round. Only
// stream_workers.cpp, which makes the workers and has their threads, and stream_rounds.cpp use it.
//
//   ring ─▶ RingReader ─▶ RingIntake ─▶ FilterChain ─▶ RoundBuilder ─▶ blocks of the pool
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/stream/chunks.hpp"
#include "libcore/stream/ring_intake.hpp"
#include "libcore/stream/ring_reader.hpp"
#include "libcore/stream/round_builder.hpp"
#include "libcore/stream/stream_workers.hpp"

namespace flight {

// Everything of one thread. Its rings are read by its own thread between the begin of a round and `done`, and by tick()
// while it is idle: the two states change under mutex_.
struct StreamWorkers::Worker {
  Worker(Chunks its_chunks, Mapping its_memory, BlockPool& pool, const std::vector<RoundBuilder::RingName>& names,
         const std::vector<MakeFilter>& filters)
      : chunks(std::move(its_chunks)),
        memory(std::move(its_memory)),
        builder(chunks, pool, names),
        chain(filters, builder) {}

  std::vector<RingRound> look(EventTime floor_ns, std::optional<EventTime> now_ns, std::optional<EventTime> end_ns);
  [[nodiscard]] bool idle() const { return asked == done; }

  Chunks chunks;
  Mapping memory;  // the buffers that its readers share
  RoundBuilder builder;
  FilterChain chain;
  std::vector<RingReader> readers;
  std::vector<RingIntake> intakes;      // of the same rings
  std::vector<std::uint64_t> quarters;  // a quarter of each ring's size

  // Under StreamWorkers::mutex_:
  std::uint64_t asked = 0;      // the last round in which it was asked to take part
  std::uint64_t done = 0;       // the last one that it finished
  std::vector<RingRound> held;  // what it read and no round has yet

  std::thread thread;  // of start() and join()
};

}  // namespace flight
