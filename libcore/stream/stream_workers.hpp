// SPDX-License-Identifier: Apache-2.0
// The threads that read the rings of a running recording, and its rounds. Each worker owns rings by a mask of CPUs,
// like perf-record(1)'s --threads, and looks at all of them once a round.
//
//   tick ─▶ round k: worker 0 ═══ looks ═══▶ ┐                    ┌─▶ round k + 1, at the earliest 50 ms later
//                    worker 1 ═════ looks ═══▶ ┴ closed: deliver ──┘
//                    worker 2 ════════ 1 s later: it leaves the round ═════▶ its blocks go into a later one
//
// No worker begins round k + 1 before all have finished round k or left it. This gives perf's order (round.hpp),
// together with the 50 ms between two rounds, by which records can be late in a ring. If a worker has left a round, its
// records belong to the next round that is closed after its look; those that are older than that round's floor are a
// hole with the cause `late`. A worker closes the round: one that has finished it, or the first one that does. A single
// worker never leaves a round.
//
// No timer of its own: tick() is called by the thread that polls the rings' heads. It never waits, neither for a lock
// nor for the sink of the rounds, and begins a round only if something is new; on an idle machine nothing happens. All
// threads are made by start(), which takes their memory, too, less than 4 MiB each at level 1. Each touches its own;
// SCHED_BATCH, nice 5, pinned by the plan.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/stream/block_pool.hpp"
#include "libcore/stream/round.hpp"
#include "libcore/stream/sink.hpp"
#include "libcore/sysinfo/worker_plan.hpp"

namespace flight {

// One ring to read. `head` reads data_head, load-acquire; any thread may call it, and it keeps `data` mapped.
struct StreamRing {
  int cpu = 0;
  std::span<const std::byte> data;  // a power of two
  std::function<std::uint64_t()> head;
  // The position up to which earlier workers have read this ring (StreamWorkers::read_to). nullopt: there were none.
  std::optional<std::uint64_t> read_to{};
};

struct StreamSettings {
  std::vector<PlannedWorker> plan = std::vector<PlannedWorker>(1);
  int level = 1;           // of zstd; 0: no compression
  bool past = true;        // round 0 begins with what the rings hold, else with what is written from now on
  EventTime since_ns = 0;  // older records are left out
  bool all_since = false;  // what a ring had of the time since then, and has overwritten before the start, is a hole
  EventTime begun_ns = 0;  // when the recording began, for a hole before the first record; 0: now
  std::vector<MakeFilter> filters;
  std::function<EventTime()> clock = monotonic_now;  // any thread calls it; tests have their own
};

struct StreamTotals {
  std::uint64_t rounds = 0;
  std::uint64_t events = 0, bytes = 0, foreign = 0;  // read from the rings
  std::uint64_t lost_events = 0, lost_bytes = 0;     // of all holes in rounds that were delivered
  std::uint64_t left = 0;                            // how often a worker left a round
};

class StreamWorkers {
 public:
  static constexpr EventTime kRoundGap = kSettleNs;  // ns between the end of a round and the next
  // Between rounds, if no ring turned by a quarter. Less than a second: a tick of 1 s may come a little early.
  static constexpr EventTime kSlowRound = 900'000'000;
  static constexpr EventTime kLateAfter = 1'000'000'000;        // then a worker leaves the round,
  static constexpr EventTime kFirstLateAfter = 10'000'000'000;  // and that of the held past

  // Called with the rounds in their order, from a worker's thread or in finish(), with a lock held: it must not call
  // back, and should not wait.
  using Deliver = std::function<void(Round)>;

  // `events`: of all rings. `pool` must outlive this object and its rounds, and needs space for all blocks of a round,
  // which is delivered when it is closed, beside what the disk has not taken yet. The largest one is round 0, all that
  // the rings hold: about an eighth of their bytes.
  [[nodiscard]] static Result<std::unique_ptr<StreamWorkers>> start(std::vector<StreamRing> rings, EventTable events,
                                                                    StreamSettings settings, BlockPool& pool,
                                                                    Deliver deliver);
  StreamWorkers(const StreamWorkers&) = delete;
  StreamWorkers& operator=(const StreamWorkers&) = delete;
  // If finish() was not called, it waits for the looks that are under way, and what they read is lost.
  ~StreamWorkers();

  // One thread, which is also the one of `now_ns`. Begins a round if it is time for one, and lets a worker close one
  // for which another worker is too late. True: it began one. Never waits: if a worker holds the lock just now, it does
  // nothing.
  bool tick(EventTime now_ns);
  // Any thread that may wait for a time slice of a worker, which closes a round; the same for all below. Nothing was
  // recorded from `from_ns` to `until_ns`. A hole of each ring in the next round.
  void paused(EventTime from_ns, EventTime until_ns);
  // Any thread that may wait, once: ends the round, takes a last one, which no worker leaves, and ends the threads.
  // tick() does nothing more. `others_follow`: records of events that are newer than `events` are left in the rings for
  // the next workers.
  void finish(bool others_follow = false);

  // After finish(): where the next workers go on, for each ring, so that each record is in one round of either.
  [[nodiscard]] std::vector<std::uint64_t> read_to() const;
  // After finish(): no record that was left for them is older; UINT64_MAX: none was left.
  [[nodiscard]] EventTime left_from_ns() const;

  // Any thread.
  [[nodiscard]] StreamTotals totals() const;
  // Any thread: which workers could not be pinned, and where zstd refused.
  [[nodiscard]] std::vector<std::string> warnings() const;
  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  // Any thread: of how many workers the round that was begun last waits; 0: it is closed.
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Worker;
  StreamWorkers(std::vector<StreamRing> rings, EventTable events, StreamSettings settings, Deliver deliver);
  [[nodiscard]] Result<void> start_workers(BlockPool& pool);
  [[nodiscard]] std::size_t worker_of(std::size_t ring) const;
  void run(Worker& worker);
  // All of these with mutex_ held.
  [[nodiscard]] bool is_due(EventTime now_ns) const;
  bool begin(EventTime now_ns);
  void close(EventTime now_ns);
  void add_pauses(std::vector<RingRound>& rings);
  void count(const Round& round);
  [[nodiscard]] EventTime late_after() const { return number_ == 1 ? kFirstLateAfter : kLateAfter; }
  void run_anywhere();
  void join();

  // Constant after start().
  const std::vector<StreamRing> rings_;
  const EventTable events_;
  const StreamSettings settings_;
  const Deliver deliver_;
  std::vector<std::unique_ptr<Worker>> workers_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;     // the workers: a round begins, or they end
  std::condition_variable changed_;  // finish(): a round was closed
  // All of these under mutex_.
  std::uint64_t number_ = 0;                             // of the last round that was begun, from 1; in Round from 0
  bool open_ = false;                                    // it is not closed yet
  bool overdue_ = false;                                 // it is open, and the next worker that can closes it
  std::size_t waiting_ = 0;                              // so many workers have not finished it
  EventTime begun_ns_ = 0;                               // when it began, and
  EventTime closed_ns_ = 0;                              // when the last one was closed
  EventTime floor_ns_ = 0;                               // of the last round that was begun
  EventTime newest_ns_ = 0;                              // of all rounds that had records and were closed, and
  EventTime newest_before_ns_ = 0;                       // of those before the last one of them
  bool last_round_ = false;                              // of finish()
  bool others_follow_ = false;                           // its parameter
  bool ending_ = false;                                  // finish() was called
  bool stopping_ = false;                                // the threads end
  std::vector<std::pair<EventTime, EventTime>> pauses_;  // for the next round
  StreamTotals totals_;
  std::vector<std::string> warnings_;
};

}  // namespace flight
