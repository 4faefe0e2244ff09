// SPDX-License-Identifier: Apache-2.0
// The rounds of StreamWorkers: when one begins, what a worker adds to it, and what is delivered when it is closed.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "libcore/stream/stream_worker.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxPauses = 16;  // of one round; beyond, the last one grows

}  // namespace

std::vector<RingRound> StreamWorkers::Worker::look(EventTime floor_ns, std::optional<EventTime> now_ns,
                                                   std::optional<EventTime> end_ns) {
  for (std::size_t i = 0; i < readers.size(); ++i) {
    intakes[i].begin(floor_ns, now_ns);
    static_cast<void>(readers[i].look(intakes[i]));
    if (end_ns) intakes[i].end(*end_ns);
  }
  chain.first().end_of_round();
  for (std::size_t i = 0; i < intakes.size(); ++i) {
    const RingIntake::Counts counts = intakes[i].take_counts();
    builder.count(i, counts.events, counts.bytes, counts.foreign);
  }
  return builder.take();
}

bool StreamWorkers::tick(EventTime now_ns) {
  // A worker has a low priority, and may lose its CPU while it holds the lock: the next tick is soon enough.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || ending_) return false;
  if (open_) {
    if (overdue_ || now_ns < begun_ns_ + late_after()) return false;
    overdue_ = true;
    wake_.notify_all();
    return false;
  }
  return is_due(now_ns) && begin(now_ns);
}

// Only rings of idle workers are looked at: the others are read just now.
bool StreamWorkers::is_due(EventTime now_ns) const {
  if (number_ != 0 && now_ns < closed_ns_ + kRoundGap) return false;
  bool news = false;
  for (const auto& worker : workers_) {
    if (!worker->idle()) continue;
    news = news || !worker->held.empty();
    for (std::size_t i = 0; i < worker->readers.size(); ++i) {
      const std::uint64_t bytes = worker->readers[i].news();
      if (bytes >= worker->quarters[i]) return true;
      news = news || bytes > 0;
    }
  }
  return news && (number_ == 0 || now_ns >= begun_ns_ + kSlowRound);
}

bool StreamWorkers::begin(EventTime now_ns) {
  // The last one is also for a worker that is still in an older look: it takes one more.
  const auto takes_part = [this](const auto& worker) { return last_round_ || worker->idle(); };
  waiting_ = static_cast<std::size_t>(std::count_if(workers_.begin(), workers_.end(), takes_part));
  if (waiting_ == 0) return false;
  ++number_;
  for (const auto& worker : workers_)
    if (takes_part(worker)) worker->asked = number_;
  floor_ns_ = newest_before_ns_;
  begun_ns_ = now_ns;
  open_ = true;
  wake_.notify_all();
  return true;
}

void StreamWorkers::close(EventTime now_ns) {
  Round round{.number = number_ - 1, .rings = {}, .newest_ns = 0};
  for (const auto& worker : workers_) {
    if (worker->asked == number_ && !worker->idle()) ++totals_.left;
    for (RingRound& ring : worker->held) {
      ring.drop_older(floor_ns_);
      round.rings.push_back(std::move(ring));
    }
    worker->held.clear();
  }
  add_pauses(round.rings);
  std::sort(round.rings.begin(), round.rings.end(), [](const RingRound& left, const RingRound& right) {
    return std::tie(left.cpu, left.ring) < std::tie(right.cpu, right.ring);
  });
  EventTime newest_ns = newest_ns_;
  bool has_records = false;
  for (const RingRound& ring : round.rings)
    for (const Block& block : ring.blocks) {
      newest_ns = std::max(newest_ns, block.newest_ns);
      has_records = true;
    }
  // A round without records has no FINISHED_ROUND in the file, so it does not move the floor.
  if (has_records) newest_before_ns_ = std::exchange(newest_ns_, newest_ns);
  round.newest_ns = newest_ns;
  open_ = overdue_ = false;
  closed_ns_ = now_ns;
  changed_.notify_all();
  if (round.rings.empty()) return;
  count(round);
  deliver_(std::move(round));
}

void StreamWorkers::count(const Round& round) {
  ++totals_.rounds;
  for (const RingRound& ring : round.rings) {
    totals_.events += ring.events;
    totals_.bytes += ring.bytes;
    totals_.foreign += ring.foreign;
    for (const Hole& hole : ring.holes) {
      totals_.lost_events += hole.events;
      totals_.lost_bytes += hole.bytes;
    }
  }
}

void StreamWorkers::add_pauses(std::vector<RingRound>& rings) {
  if (pauses_.empty()) return;
  std::vector<RingRound> paused_rings(rings_.size());
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    paused_rings[i].ring = i;
    paused_rings[i].cpu = rings_[i].cpu;
    paused_rings[i].worker = worker_of(i);
    for (const auto& [from_ns, until_ns] : pauses_)
      paused_rings[i].holes.push_back({.cause = HoleCause::paused, .from_ns = from_ns, .until_ns = until_ns});
  }
  pauses_.clear();
  append_rings(rings, std::move(paused_rings));
}

void StreamWorkers::paused(EventTime from_ns, EventTime until_ns) {
  const std::lock_guard lock(mutex_);
  if (pauses_.size() < kMaxPauses) {
    pauses_.emplace_back(from_ns, until_ns);
  } else {
    pauses_.back().second = until_ns;
  }
}

StreamTotals StreamWorkers::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

std::size_t StreamWorkers::waiting() const {
  const std::lock_guard lock(mutex_);
  return open_ ? waiting_ : 0;
}

}  // namespace flight
