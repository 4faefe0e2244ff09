// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/part_file.hpp"

#include <algorithm>
#include <utility>

#include "libcore/base/file_calls.hpp"
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

}  // namespace

PartFile::PartFile(PartStart start, FileWriter writer, Journal journal, Chunks& chunks)
    : data_(std::move(start.data)),
      writer_(std::move(writer)),
      journal_(std::move(journal)),
      chunks_(&chunks),
      sideband_ns_(start.sideband_from_ns) {}

Result<PartFile> PartFile::create(PartStart start, Chunks& chunks) {
  auto writer = FileWriter::create(start.data.get(), start.events);
  if (!writer) return propagate(writer.error());
  // At once, and not when all is recorded.
  if (auto checked = writer->check(start.features); !checked) return propagate(checked.error());
  if (chunks.level() > 0) start.features.compressed = compressed_feature(chunks.level(), 0, 0);
  auto journal = Journal::create(std::move(start.journal), start.events, encode_features(start.features, start.events));
  if (!journal) return propagate(journal.error());
  const RecordBuffer prologue = std::move(start.prologue);
  PartFile out(std::move(start), std::move(*writer), std::move(*journal), chunks);
  out.pack(prologue);
  out.write_out();
  if (!out.outcome_) return propagate(out.outcome_.error());
  out.facts_.file_bytes = out.writer_.file_bytes();
  out.facts_.expanded_bytes = out.expanded_bytes_;
  return out;
}

Result<void> PartFile::write(const Round& round, const SidebandSource& sideband) {
  for (const RingRound& ring : round.rings)
    for (const Hole& hole : ring.holes) add_hole(ring, hole);
  if (outcome_) {
    const std::uint64_t whole_bytes = writer_.data_bytes();
    if (auto written = write_round(round, sideband); !written) {
      outcome_ = written;
      waiting_.clear();
      // What was written of the round, also to have its space for the features. An error here is that of finish().
      static_cast<void>(writer_.cut(whole_bytes));
      facts_.file_bytes = writer_.file_bytes();
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
  std::uint64_t events = 0;
  EventTime first_ns = facts_.first_ns, newest_ns = facts_.newest_ns;
  for (const RingRound& ring : round.rings)
    for (const Block& block : ring.blocks) {
      block.bytes.append_to(waiting_);
      expanded_bytes_ += block.expanded_bytes;
      events += block.events;
      first_ns = first_ns == 0 ? block.oldest_ns : std::min(first_ns, block.oldest_ns);
      newest_ns = std::max(newest_ns, block.newest_ns);
      if (waiting_.size() >= kWriteBytes) write_out();
    }
  append_finished_round(waiting_);
  write_out();
  if (!outcome_) return outcome_;
  const JournalEntry entry{.data_bytes = writer_.data_bytes(),
                           .expanded_bytes = expanded_bytes_,
                           .first_ns = first_ns,
                           .newest_ns = newest_ns};
  if (auto noted = journal_.append(entry); !noted) return noted;
  unsynced_ = true;
  ++facts_.rounds;
  facts_.events += events;
  facts_.first_ns = first_ns;
  facts_.newest_ns = newest_ns;
  facts_.file_bytes = writer_.file_bytes();
  facts_.expanded_bytes = expanded_bytes_;
  return {};
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
}

void PartFile::lose(const Round& round) {
  for (const RingRound& ring : round.rings)
    for (const Block& block : ring.blocks)
      add_hole(ring, {.cause = HoleCause::disk,
                      .bytes = block.expanded_bytes,
                      .events = block.events,
                      .estimated = false,
                      .from_ns = block.oldest_ns,
                      .until_ns = block.newest_ns});
}

void PartFile::add_hole(const RingRound& ring, const Hole& hole) {
  facts_.lost_events += hole.events;
  facts_.lost_bytes += hole.bytes;
  if (facts_.holes.size() < PartFacts::kMaxHoles) {
    facts_.holes.push_back({.ring = ring.ring, .cpu = ring.cpu, .hole = hole});
  } else {
    ++facts_.holes_left_out;
  }
}

// After an error of the disk nobody knows which of the data are on it: nothing more is written.
Result<void> PartFile::sync() {
  unsynced_ = false;
  const auto synced = sync_data_now(data_.get());
  Result<void> done = synced ? journal_.sync() : Result<void>(wrap(synced.error(), "a part of a recording"));
  if (!done && outcome_) outcome_ = done;
  return done;
}

Result<void> PartFile::finish(Features features) {
  features.compressed.reset();
  if (chunks_->level() > 0)
    features.compressed = compressed_feature(chunks_->level(), facts_.expanded_bytes, writer_.data_bytes());
  features.sample_time.reset();
  if (facts_.newest_ns != 0) features.sample_time.emplace(facts_.first_ns, facts_.newest_ns);
  if (auto finished = writer_.finish(features); !finished) return finished;
  facts_.file_bytes = writer_.file_bytes();
  if (const auto synced = sync_data_now(data_.get()); !synced) return wrap(synced.error(), "a part of a recording");
  unsynced_ = false;
  return {};
}

}  // namespace flight
