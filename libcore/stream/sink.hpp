// SPDX-License-Identifier: Apache-2.0
// What a worker reads goes through filters to the last sink, which packs it: blocks are compressed after the last
// filter. A filter is a sink that has a next one; it may replace a round's records, and delay them until the end of the
// round. The chain belongs to one worker, and every call comes from that worker's thread, so no sink needs a lock.
//
//   RingIntake ──▶ filter ──▶ filter ──▶ RoundBuilder
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/stream/round.hpp"

namespace flight {

// Whole records of one ring, oldest first; at most kBytes, or one record.
struct RecordRun {
  static constexpr std::size_t kBytes = 16U << 10U;

  std::span<const std::byte> records;      // valid until the call returns
  std::uint64_t events = 0;                // the samples among them
  EventTime oldest_ns = 0, newest_ns = 0;  // of all of them
};

class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // `ring`: its number among the worker's. The runs and holes of one ring come in the order of its records.
  virtual void records(std::size_t ring, const RecordRun& run) = 0;
  virtual void hole(std::size_t ring, const Hole& hole) = 0;
  // Everything of this round came; what a filter has delayed goes on before it passes this on.
  virtual void end_of_round() = 0;
};

// Passes everything on unchanged.
class IdentityFilter : public StreamSink {
 public:
  explicit IdentityFilter(StreamSink& next) : next_(next) {}
  void records(std::size_t ring, const RecordRun& run) override { next_.records(ring, run); }
  void hole(std::size_t ring, const Hole& hole) override { next_.hole(ring, hole); }
  void end_of_round() override { next_.end_of_round(); }

 private:
  StreamSink& next_;
};

// Makes one filter for one worker; `next` outlives it.
using MakeFilter = std::function<std::unique_ptr<StreamSink>(StreamSink& next)>;

// The filters in front of a sink, which must outlive them.
class FilterChain {
 public:
  // The first of `makers` is the nearest to the reader.
  FilterChain(const std::vector<MakeFilter>& makers, StreamSink& last);
  [[nodiscard]] StreamSink& first() const { return *first_; }

 private:
  std::vector<std::unique_ptr<StreamSink>> filters_;  // from the last to the first
  StreamSink* first_;
};

}  // namespace flight
