// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/part_writer.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "libcore/base/thread.hpp"
#include "libcore/base/worker_thread.hpp"

namespace flight {
namespace {

void count_lost(PartFacts& facts, const Round& round) {
  for (const RingRound& ring : round.rings) {
    for (const Block& block : ring.blocks) {
      facts.lost_events += block.events;
      facts.lost_bytes += block.expanded_bytes;
    }
    for (const Hole& hole : ring.holes) {
      facts.lost_events += hole.events;
      facts.lost_bytes += hole.bytes;
    }
  }
}

}  // namespace

Result<std::unique_ptr<PartWriter>> PartWriter::start(Settings settings) {
  auto chunks = Chunks::create(settings.level);
  if (!chunks) return propagate(chunks.error());
  std::unique_ptr<PartWriter> out(new PartWriter(std::move(settings), std::move(*chunks)));
  auto thread = start_thread("stream-writer", [self = out.get()] { self->run(); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  return out;
}

PartWriter::~PartWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void PartWriter::write(Round round) {
  const std::lock_guard lock(mutex_);
  if (rounds_ >= kMaxQueuedRounds && !queue_.empty() && std::holds_alternative<Round>(queue_.back())) {
    std::get<Round>(queue_.back()).append(std::move(round));
    return;
  }
  queue_.emplace_back(std::move(round));
  ++rounds_;
  wake_.notify_one();
}

void PartWriter::begin(PartStart start, std::optional<PartEnd> before) {
  const std::lock_guard lock(mutex_);
  if (before) queue_.emplace_back(std::move(*before));
  queue_.emplace_back(std::move(start));
  wake_.notify_one();
}

void PartWriter::end(PartEnd end) {
  const std::lock_guard lock(mutex_);
  queue_.emplace_back(std::move(end));
  wake_.notify_one();
}

PartProgress PartWriter::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void PartWriter::run() {
  lower_this_thread();
  chunks_.begin();
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto wanted = [this] { return stopping_ || !queue_.empty(); };
    // Without unsynced data the wait has no limit.
    if (part_ && part_->is_unsynced()) {
      wake_.wait_until(lock, synced_ + settings_.sync_every, wanted);
    } else {
      wake_.wait(lock, wanted);
    }
    if (queue_.empty() && stopping_) return;
    std::optional<Item> item;
    if (!queue_.empty()) {
      item.emplace(std::move(queue_.front()));
      queue_.pop_front();
      if (std::holds_alternative<Round>(*item)) --rounds_;
    }
    lock.unlock();
    if (item) std::visit([this](auto& what) { handle(what); }, *item);
    item.reset();  // its blocks are free again
    sync_if_due();
    note_progress();
    lock.lock();
  }
}

void PartWriter::handle(Round& round) {
  if (part_) {
    SidebandSource sideband;
    if (settings_.sideband)
      sideband = [this](EventTime from_ns, EventTime until_ns) { return settled_sideband(from_ns, until_ns); };
    outcome_ = part_->write(round, sideband);
  } else {
    count_lost(without_file_, round);
  }
}

// Never longer than that: the times are those of records, and may be wrong.
RecordBuffer PartWriter::settled_sideband(EventTime from_ns, EventTime until_ns) const {
  const EventTime now_ns = settings_.clock(), settled_ns = until_ns + kSettleNs;
  if (settled_ns > now_ns)
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(settled_ns - now_ns, kSettleNs)));
  return settings_.sideband(from_ns, until_ns);
}

void PartWriter::handle(PartStart& start) {
  assert(!part_);
  ++before_.parts;
  outcome_ = Result<void>();
  limits_ = settings_.limits;
  limits_.file_bytes = std::min(limits_.file_bytes, start.most_bytes.value_or(limits_.file_bytes));
  auto part = PartFile::create(std::move(start), chunks_);
  if (part) {
    part_.emplace(std::move(*part));
    synced_ = std::chrono::steady_clock::now();
  } else {
    outcome_ = propagate(part.error());
  }
}

void PartWriter::handle(PartEnd& end) {
  Result<void> finished = part_ ? part_->finish(end.features()) : outcome_;
  if (!part_ && finished) finished = fail(std::errc::invalid_argument, "no part of the recording was begun");
  add(before_);
  PartFacts facts = part_ ? part_->facts() : PartFacts();
  facts.lost_events += without_file_.lost_events;
  facts.lost_bytes += without_file_.lost_bytes;
  part_.reset();
  without_file_ = PartFacts();
  outcome_ = Result<void>();
  if (end.ended) end.ended(std::move(finished), std::move(facts));
}

void PartWriter::sync_if_due() {
  if (!part_ || !part_->is_unsynced()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < synced_ + settings_.sync_every) return;
  synced_ = now;
  if (auto synced = part_->sync(); !synced) outcome_ = synced;
}

// Adds what has become of the rounds since the last part ended.
void PartWriter::add(PartProgress& to) const {
  to.lost_events += without_file_.lost_events;
  to.lost_bytes += without_file_.lost_bytes;
  if (!part_) return;
  const PartFacts& facts = part_->facts();
  to.bytes += facts.file_bytes;
  to.expanded_bytes += facts.expanded_bytes;
  to.events += facts.events;
  to.lost_events += facts.lost_events;
  to.lost_bytes += facts.lost_bytes;
}

void PartWriter::note_progress() {
  PartProgress now = before_;
  add(now);
  now.full = part_ && part_->is_full(limits_);
  if (!outcome_) now.trouble = outcome_.error().what;
  {
    const std::lock_guard lock(mutex_);
    progress_ = std::move(now);
  }
  if (settings_.on_progress) settings_.on_progress();
}

}  // namespace flight
