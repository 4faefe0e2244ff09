// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/round_builder.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

// Counts the samples in a part of a chunk. A chunk is divided only if its frame did not fit into one record.
std::uint64_t count_samples(std::span<const std::byte> records) {
  std::uint64_t samples = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    samples += load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE ? 1 : 0;
    records = records.subspan(record.size());
  }
  return samples;
}

}  // namespace

RoundBuilder::RoundBuilder(Chunks& chunks, BlockPool& pool, const std::vector<RingName>& rings)
    : chunks_(chunks), pool_(pool), rings_(rings.size()) {
  for (std::size_t i = 0; i < rings.size(); ++i) {
    rings_[i].round.ring = rings[i].ring;
    rings_[i].round.cpu = rings[i].cpu;
    rings_[i].round.worker = rings[i].worker;
  }
}

void RoundBuilder::records(std::size_t ring, const RecordRun& run) {
  assert(ring < rings_.size());
  if (run.records.empty()) return;
  if (ring != ring_ || !chunks_.fits(run.records.size())) pack();
  if (chunks_.size() == 0) {
    ring_ = ring;
    events_ = 0;
    oldest_ns_ = run.oldest_ns;
    newest_ns_ = run.newest_ns;
  }
  chunks_.append(run.records);
  events_ += run.events;
  oldest_ns_ = std::min(oldest_ns_, run.oldest_ns);
  newest_ns_ = std::max(newest_ns_, run.newest_ns);
  if (chunks_.size() >= rings_[ring].enough) pack();
}

void RoundBuilder::hole(std::size_t ring, const Hole& hole) {
  assert(ring < rings_.size());
  pack();  // the order of a ring's blocks and holes is that of its records
  rings_[ring].round.add_hole(hole);
}

void RoundBuilder::pack() {
  if (chunks_.size() == 0) return;
  Ring& ring = rings_[ring_];
  if (pool_.free_bytes() == 0) {  // the disk is too slow: compressing it would be for nothing
    ring.round.add_hole({.cause = HoleCause::disk,
                         .bytes = chunks_.size(),
                         .events = events_,
                         .estimated = false,
                         .from_ns = oldest_ns_,
                         .until_ns = newest_ns_});
    chunks_.clear();
    return;
  }
  ring.enough = chunks_.pack(ring.enough, [this](const Chunks::Packed& packed) { keep(packed); });
}

void RoundBuilder::keep(const Chunks::Packed& packed) {
  RingRound& round = rings_[ring_].round;
  const std::uint64_t events = packed.records.size() == chunks_.size() ? events_ : count_samples(packed.records);
  auto bytes = pool_.keep(packed.head, packed.body);
  if (bytes) {
    round.blocks.push_back({.bytes = std::move(*bytes),
                            .expanded_bytes = packed.records.size(),
                            .events = events,
                            .oldest_ns = oldest_ns_,
                            .newest_ns = newest_ns_});
  } else {
    round.add_hole({.cause = HoleCause::disk,
                    .bytes = packed.records.size(),
                    .events = events,
                    .estimated = false,
                    .from_ns = oldest_ns_,
                    .until_ns = newest_ns_});
  }
}

void RoundBuilder::count(std::size_t ring, std::uint64_t events, std::uint64_t bytes, std::uint64_t foreign) {
  RingRound& round = rings_[ring].round;
  round.events += events;
  round.bytes += bytes;
  round.foreign += foreign;
}

std::vector<RingRound> RoundBuilder::take() {
  assert(chunks_.size() == 0);
  std::vector<RingRound> out;
  for (Ring& ring : rings_) {
    if (ring.round.empty()) continue;
    RingRound next;
    next.ring = ring.round.ring;
    next.cpu = ring.round.cpu;
    next.worker = ring.round.worker;
    out.push_back(std::exchange(ring.round, std::move(next)));
  }
  return out;
}

}  // namespace flight
