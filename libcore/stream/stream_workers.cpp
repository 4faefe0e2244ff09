// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/stream_workers.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <thread>
#include <tuple>

#include "libcore/base/mapping.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/worker_thread.hpp"
#include "libcore/stream/chunks.hpp"
#include "libcore/stream/ring_intake.hpp"
#include "libcore/stream/ring_reader.hpp"
#include "libcore/stream/round_builder.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxPauses = 16;  // of one round; beyond, the last one grows

}  // namespace

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

StreamWorkers::StreamWorkers(std::vector<StreamRing> rings, EventTable events, StreamSettings settings, Deliver deliver)
    : rings_(std::move(rings)),
      events_(std::move(events)),
      settings_(std::move(settings)),
      deliver_(std::move(deliver)) {}

Result<std::unique_ptr<StreamWorkers>> StreamWorkers::start(std::vector<StreamRing> rings, EventTable events,
                                                            StreamSettings settings, BlockPool& pool, Deliver deliver) {
  assert(!settings.plan.empty());
  std::unique_ptr<StreamWorkers> out(
      new StreamWorkers(std::move(rings), std::move(events), std::move(settings), std::move(deliver)));
  if (auto started = out->start_workers(pool); !started)
    return wrap(started.error(), "the threads that read the rings of a recording");
  return out;
}

// The worker whose mask has the ring's CPU; rings of CPUs in no mask are divided among all.
std::size_t StreamWorkers::worker_of(std::size_t ring) const {
  const std::vector<PlannedWorker>& plan = settings_.plan;
  const auto serves = [&](const PlannedWorker& worker) {
    return std::find(worker.serves.begin(), worker.serves.end(), rings_[ring].cpu) != worker.serves.end();
  };
  const auto owner = std::find_if(plan.begin(), plan.end(), serves);
  return owner == plan.end() ? ring % plan.size() : static_cast<std::size_t>(owner - plan.begin());
}

Result<void> StreamWorkers::start_workers(BlockPool& pool) {
  const EventTime begin_ns = settings_.begun_ns != 0 ? settings_.begun_ns : settings_.clock();
  std::vector<std::vector<RoundBuilder::RingName>> names(settings_.plan.size());
  for (std::size_t i = 0; i < rings_.size(); ++i)
    names[worker_of(i)].push_back({.ring = i, .cpu = rings_[i].cpu, .worker = worker_of(i)});
  for (const auto& own : names) {
    auto chunks = Chunks::create(settings_.level);
    if (!chunks) return propagate(chunks.error());
    auto memory = Mapping::create(RingReader::kMemoryBytes);
    if (!memory) return propagate(memory.error());
    memory->leave_out_of_core();  // rings are, too
    workers_.push_back(std::make_unique<Worker>(std::move(*chunks), std::move(*memory), pool, own, settings_.filters));
    Worker& worker = *workers_.back();
    for (std::size_t i = 0; i < own.size(); ++i) {
      const StreamRing& ring = rings_[own[i].ring];
      worker.readers.emplace_back(ring.data, ring.head, settings_.past, worker.memory.bytes());
      worker.readers.back().recognise(events_);
      if (ring.read_to) worker.readers.back().go_on_from(*ring.read_to);
      worker.intakes.emplace_back(i, events_, worker.chain.first(), begin_ns, settings_.since_ns, settings_.all_since);
      worker.quarters.push_back(ring.data.size() / 4);
    }
  }
  // From here on the threads run; they read workers_, which does not change any more.
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const std::lock_guard lock(mutex_);  // for which the thread waits: it is pinned before it touches its memory
    auto thread = start_thread(fmt::format("stream-{}", i), [this, i] { run(*workers_[i]); });
    if (!thread) return propagate(thread.error());
    workers_[i]->thread = std::move(*thread);
    const std::vector<int>& cpus = settings_.plan[i].runs_on;
    const int refused = cpus.empty() ? 0 : keep_on_cpus(workers_[i]->thread, cpus);
    if (refused == 0) continue;
    warnings_.push_back(fmt::format("record.workers: worker {} could not be pinned to CPUs {} ({}) and runs on any CPU",
                                    i, format_cpu_list(cpus), std::generic_category().message(refused)));
  }
  return {};
}

StreamWorkers::~StreamWorkers() { join(); }

void StreamWorkers::join() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (const auto& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
}

void StreamWorkers::run(Worker& worker) {
  lower_this_thread();
  std::unique_lock lock(mutex_);
  lock.unlock();
  touch_pages(worker.memory.bytes());
  worker.chunks.begin();
  lock.lock();
  if (!worker.chunks.refused().empty())
    warnings_.push_back("the recording is not compressed: " + worker.chunks.refused());
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || overdue_ || !worker.idle(); });
    if (worker.idle()) {
      if (stopping_) return;
      close(settings_.clock());
      continue;
    }
    const std::uint64_t asked = worker.asked;  // finish() may ask again while it looks
    const EventTime floor_ns = floor_ns_;
    const auto now_ns = last_round_ && !others_follow_ ? std::nullopt : std::optional(begun_ns_);
    const auto end_ns = last_round_ ? std::optional(settings_.clock()) : std::nullopt;
    lock.unlock();
    std::vector<RingRound> found = worker.look(floor_ns, now_ns, end_ns);
    lock.lock();
    append_rings(worker.held, std::move(found));
    worker.done = asked;
    if (stopping_ || !open_) continue;  // nobody wants it, or the next round takes it
    if (asked == number_) --waiting_;   // else it left that round
    if (waiting_ == 0 || overdue_) close(settings_.clock());
  }
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

// A real-time task may have the CPUs of a mask for itself: the end of a recording does not wait for that.
void StreamWorkers::run_anywhere() {
  const auto online = online_cpus();
  if (!online || online->empty()) return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const std::vector<int>& own = settings_.plan[i].runs_on;
    if (own.empty() || !workers_[i]->thread.joinable()) continue;
    std::vector<int> others;
    for (const int cpu : *online)
      if (std::find(own.begin(), own.end(), cpu) == own.end()) others.push_back(cpu);
    // It moves at once only if the new mask does not have its CPU.
    if (!others.empty()) static_cast<void>(keep_on_cpus(workers_[i]->thread, others));
    static_cast<void>(keep_on_cpus(workers_[i]->thread, *online));
  }
}

void StreamWorkers::finish(bool others_follow) {
  run_anywhere();  // first: a worker may have lost its CPU while it holds the lock
  std::unique_lock lock(mutex_);
  if (ending_) return;
  ending_ = true;
  const auto closed = [this] { return !open_; };
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(late_after()), closed)) close(settings_.clock());
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::nanoseconds(kRoundGap));
  lock.lock();
  last_round_ = true;
  others_follow_ = others_follow;
  static_cast<void>(begin(settings_.clock()));
  // Without a limit: the threads end only after their looks, and no round comes for what is read later.
  changed_.wait(lock, closed);
  lock.unlock();
  join();
}

std::vector<std::uint64_t> StreamWorkers::read_to() const {
  std::vector<std::uint64_t> out;
  std::vector<std::size_t> next(workers_.size(), 0);  // as start_workers() divided them
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const std::size_t worker = worker_of(i);
    out.push_back(workers_[worker]->readers[next[worker]++].read_to());
  }
  return out;
}

EventTime StreamWorkers::left_from_ns() const {
  EventTime out = UINT64_MAX;
  for (const auto& worker : workers_)
    for (const RingIntake& intake : worker->intakes) out = std::min(out, intake.left_from_ns());
  return out;
}

StreamTotals StreamWorkers::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

std::size_t StreamWorkers::waiting() const {
  const std::lock_guard lock(mutex_);
  return open_ ? waiting_ : 0;
}

std::vector<std::string> StreamWorkers::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

}  // namespace flight
