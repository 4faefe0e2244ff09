// SPDX-License-Identifier: Apache-2.0
// The threads: how they start, are pinned, and end. Their rounds are in stream_rounds.cpp.
#include "libcore/stream/stream_workers.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <thread>

#include "libcore/base/mapping.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/worker_thread.hpp"
#include "libcore/stream/stream_worker.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {

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

std::vector<std::string> StreamWorkers::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

}  // namespace flight
