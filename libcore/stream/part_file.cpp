// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/part_file.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

// Bytes that are collected for one write(2).
constexpr std::size_t kWriteBytes = 256U << 10U;

CompressedFeature compressed_feature(int level, std::uint64_t expanded_bytes, std::uint64_t data_bytes) {
  const std::uint64_t ratio = (expanded_bytes + data_bytes / 2) / std::max<std::uint64_t>(data_bytes, 1);
  return {.level = static_cast<std::uint32_t>(level),
          .ratio = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ratio, 1, UINT32_MAX)),
          .mmap_bytes = static_cast<std::uint32_t>(kMaxExpandedBytes)};
}

// The records of a block, as the hole that they would leave.
Hole hole_of(const Block& block) {
  return {.cause = HoleCause::disk,
          .bytes = block.expanded_bytes,
          .events = block.events,
          .estimated = false,
          .from_ns = block.oldest_ns,
          .until_ns = block.newest_ns};
}

// Adds what a ring has in a round to what it had before.
void add_blocks(std::vector<PartFacts::RingHole>& rings, const RingRound& ring) {
  if (ring.blocks.empty()) return;
  auto known = std::find_if(rings.begin(), rings.end(), [&](const auto& other) { return other.ring == ring.ring; });
  if (known == rings.end()) {
    rings.push_back({.ring = ring.ring, .cpu = ring.cpu, .hole = hole_of(ring.blocks.front())});
    known = rings.end() - 1;
    known->hole.bytes = known->hole.events = 0;
  }
  for (const Block& block : ring.blocks) {
    known->hole.bytes += block.expanded_bytes;
    known->hole.events += block.events;
    known->hole.from_ns = std::min(known->hole.from_ns, block.oldest_ns);
    known->hole.until_ns = std::max(known->hole.until_ns, block.newest_ns);
  }
}

}  // namespace

PartFile::PartFile(PartStart start, FileWriter writer, Journal journal, Chunks& chunks)
    : data_(std::move(start.data)),
      sync_(std::move(start.sync)),
      writer_(std::move(writer)),
      bare_(std::move(start.more)),
      journal_(std::move(journal)),
      channels_(std::move(start.channels)),
      more_build_ids_(std::move(start.more_build_ids)),
      chunks_(&chunks),
      sideband_ns_(start.sideband_from_ns) {}

Result<PartFile> PartFile::create(PartStart start, Chunks& chunks) {
  auto writer = FileWriter::create(start.data.get(), start.events);
  if (!writer) return propagate(writer.error());
  // At once, and not when all is recorded.
  if (auto checked = writer->check(start.features); !checked) return propagate(checked.error());
  if (chunks.level() > 0) start.features.compressed = compressed_feature(chunks.level(), 0, 0);
  start.features.directory = !start.more.empty();
  auto journal = Journal::create(std::move(start.journal), start.events, encode_features(start.features, start.events),
                                 start.more.size());
  if (!journal) return propagate(journal.error());
  const RecordBuffer prologue = std::move(start.prologue);
  PartFile out(std::move(start), std::move(*writer), std::move(*journal), chunks);
  out.pack(prologue);
  out.write_out();
  if (!out.outcome_) return propagate(out.outcome_.error());
  out.synced_.journal = out.journal_.mark();
  out.go_to({.data_bytes = out.writer_.data_bytes(),
             .expanded_bytes = out.expanded_bytes_,
             .journal = out.journal_.mark(),
             .more_bytes = out.bare_.lengths()});
  out.begun_ = {.file_bytes = out.facts_.file_bytes, .expanded_bytes = out.facts_.expanded_bytes};
  return out;
}

Result<void> PartFile::write(const Round& round, const SidebandSource& sideband) {
  for (const RingRound& ring : round.rings)
    for (const Hole& hole : ring.holes) add_hole(ring.ring, ring.cpu, hole);
  if (outcome_) {
    if (auto written = write_round(round, sideband); !written) {
      outcome_ = written;
      waiting_.clear();
      // Cuts off what was written of the round. finish() does this again, and returns the error.
      static_cast<void>(writer_.cut(written_.data_bytes));
      static_cast<void>(bare_.cut(written_.more_bytes));
    }
  }
  if (!outcome_) lose(round);
  return outcome_;
}

Result<void> PartFile::write_round(const Round& round, const SidebandSource& sideband) {
  const auto has_records = [](const RingRound& ring) { return !ring.blocks.empty(); };
  if (std::none_of(round.rings.begin(), round.rings.end(), has_records)) return {};  // only holes
  if (sideband && round.newest_ns > sideband_ns_) {
    pack(sideband(sideband_ns_, round.newest_ns));
    sideband_ns_ = round.newest_ns;
  }
  Mark now = written_;
  for (const RingRound& ring : round.rings) {
    std::vector<std::byte>& waiting = bare_.empty() ? waiting_ : bare_.waiting(ring.worker);
    for (const Block& block : ring.blocks) {
      block.bytes.append_to(waiting);
      expanded_bytes_ += block.expanded_bytes;
      now.events += block.events;
      now.first_ns = now.first_ns == 0 ? block.oldest_ns : std::min(now.first_ns, block.oldest_ns);
      now.newest_ns = std::max(now.newest_ns, block.newest_ns);
      if (waiting.size() >= kWriteBytes) write_out();
    }
  }
  if (bare_.empty()) append_finished_round(waiting_);
  write_out();
  if (!outcome_) return outcome_;
  ++now.rounds;
  now.data_bytes = writer_.data_bytes();
  now.expanded_bytes = expanded_bytes_;
  now.more_bytes = bare_.lengths();
  const JournaledRound entry{.data_bytes = now.data_bytes,
                             .expanded_bytes = now.expanded_bytes,
                             .first_ns = now.first_ns,
                             .newest_ns = now.newest_ns,
                             .more_bytes = now.more_bytes};
  if (auto noted = journal_.append(entry, notes_for_journal()); !noted) return noted;
  journaled_holes_ = facts_.holes.size();
  journaled_left_out_ = facts_.holes_left_out;
  now.journal = journal_.mark();
  for (const RingRound& ring : round.rings) add_blocks(unsynced_, ring);
  go_to(now);
  return {};
}

// Holes of rounds that had no records come with the next one that has some: until then nothing is behind them.
JournalNotes PartFile::notes_for_journal() const {
  JournalNotes out;
  for (std::size_t i = journaled_holes_; i < facts_.holes.size(); ++i) {
    const PartFacts::RingHole& one = facts_.holes[i];
    out.holes.push_back({.channel = one.ring < channels_.size() ? channels_[one.ring] : std::string(),
                         .cpu = one.cpu,
                         .hole = one.hole});
  }
  if (more_build_ids_) out.build_ids = encode_build_ids(more_build_ids_());
  if (facts_.holes_left_out != journaled_left_out_)
    out.loss =
        JournaledLoss{.left_out = facts_.holes_left_out, .events = facts_.lost_events, .bytes = facts_.lost_bytes};
  return out;
}

// The file is as after this round; behind it may be bytes that finish() cuts off.
void PartFile::go_to(const Mark& mark) {
  written_ = mark;
  facts_.file_bytes =
      std::accumulate(mark.more_bytes.begin(), mark.more_bytes.end(), writer_.data_offset() + mark.data_bytes);
  facts_.expanded_bytes = mark.expanded_bytes;
  facts_.events = mark.events;
  facts_.rounds = mark.rounds;
  facts_.first_ns = mark.first_ns;
  facts_.newest_ns = mark.newest_ns;
}

void PartFile::pack(std::span<const std::byte> records) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    if (!chunks_->fits(record.size())) put_chunk();
    chunks_->append(record);
    if (chunks_->size() >= enough_) put_chunk();
    records = records.subspan(record.size());
  }
  put_chunk();
}

void PartFile::put_chunk() {
  enough_ = chunks_->pack(enough_, [this](const Chunks::Packed& packed) {
    waiting_.insert(waiting_.end(), packed.head.begin(), packed.head.end());
    waiting_.insert(waiting_.end(), packed.body.begin(), packed.body.end());
    expanded_bytes_ += packed.records.size();
  });
  if (waiting_.size() >= kWriteBytes) write_out();
}

// After an error nothing is written any more.
void PartFile::write_out() {
  if (outcome_ && !waiting_.empty()) outcome_ = writer_.append(waiting_);
  waiting_.clear();
  if (outcome_) outcome_ = bare_.write_out();
  if (!outcome_) bare_.drop_waiting();
}

void PartFile::lose(const Round& round) {
  for (const RingRound& ring : round.rings)
    for (const Block& block : ring.blocks) add_hole(ring.ring, ring.cpu, hole_of(block));
}

// The journal's entries of these rounds go, too: until a restart of the machine, the file still seems to have them.
void PartFile::lose_unsynced() {
  for (const PartFacts::RingHole& lost : unsynced_) add_hole(lost.ring, lost.cpu, lost.hole);
  unsynced_.clear();
  go_to(synced_);
  static_cast<void>(journal_.cut(synced_.journal));
  static_cast<void>(writer_.cut(synced_.data_bytes));  // as in write()
  static_cast<void>(bare_.cut(synced_.more_bytes));
}

void PartFile::add_hole(std::size_t ring, int cpu, const Hole& hole) {
  facts_.lost_events += hole.events;
  facts_.lost_bytes += hole.bytes;
  if (facts_.holes.size() < PartFacts::kMaxHoles) {
    facts_.holes.push_back({.ring = ring, .cpu = cpu, .hole = hole});
  } else {
    ++facts_.holes_left_out;
  }
}

Result<void> PartFile::sync() {
  Result<void> done;
  Result<bool> synced = bare_.sync(sync_);
  if (synced) synced = sync_(data_.get());
  if (synced) {
    synced_ = written_;
    unsynced_.clear();
    done = journal_.sync();
  } else {
    lose_unsynced();
    done = wrap(synced.error(), "a part of a recording");
  }
  if (!done && outcome_) outcome_ = done;
  return done;
}

Result<void> PartFile::finish(Features features) {
  if (!finished_) return finished_;
  if (is_unsynced()) static_cast<void>(sync());  // an error is in outcome_
  if (!outcome_ && written_.data_bytes == 0) return outcome_;
  if (auto cut = writer_.cut(written_.data_bytes); !cut) return cut;
  if (auto cut = bare_.cut(written_.more_bytes); !cut) return cut;
  if (const auto synced = bare_.sync(sync_); !synced) {
    finished_ = wrap(synced.error(), "a part of a recording");
    return finished_;
  }
  features.directory = !bare_.empty();
  features.compressed.reset();
  if (chunks_->level() > 0)
    features.compressed =
        compressed_feature(chunks_->level(), facts_.expanded_bytes, writer_.data_bytes() + bare_.bytes());
  features.sample_time.reset();
  if (facts_.newest_ns != 0) features.sample_time.emplace(facts_.first_ns, facts_.newest_ns);
  if (auto finished = writer_.finish(features); !finished) return finished;
  facts_.file_bytes = writer_.file_bytes() + bare_.bytes();
  if (const auto synced = sync_(data_.get()); !synced) finished_ = wrap(synced.error(), "a part of a recording");
  return finished_;
}

}  // namespace flight
