// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot_worker.hpp"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <utility>

#include "libcore/base/steps.hpp"
#include "libcore/base/units.hpp"
#include "libcore/snapshot/commit.hpp"

namespace flight {
namespace {

// Spare files are asked for when nothing else was wanted for so long.
constexpr std::chrono::milliseconds kSpareAfter(200);
constexpr std::chrono::milliseconds kTellWaitingEvery(500);

// Where the staged rings of `old` are in newer's manifest; nullopt: they are not all there.
std::optional<std::vector<std::size_t>> rings_in(const Attached& newer, const Attached& old) {
  std::vector<std::size_t> out;
  for (const auto& ring : old.rings) {
    const auto at = std::find(newer.rings.begin(), newer.rings.end(), ring);
    if (at == newer.rings.end()) return std::nullopt;
    out.push_back(newer.channel_rings[static_cast<std::size_t>(at - newer.rings.begin())]);
  }
  return out;
}

// What the window lacks because a CPU was not there.
std::vector<std::string> cpu_warnings(const Manifest& manifest, EventTime begin_ns, EventTime end_ns) {
  std::vector<std::string> out;
  const ClockPair clock = ClockPair::now();
  for (const ManifestGap& gap : manifest.gaps) {
    if (gap.begin_ns > end_ns || (gap.end_ns != 0 && gap.end_ns < begin_ns)) continue;
    const std::string begin = to_rfc3339(clock.wall_at(gap.begin_ns));
    if (gap.end_ns == 0)
      out.push_back(fmt::format("CPU {} went offline at about {}: its history ends there", gap.cpu, begin));
    else
      out.push_back(
          fmt::format("CPU {} was offline or suspended between {} and {}: what it ran before its events were "
                      "opened again is missing",
                      gap.cpu, begin, to_rfc3339(clock.wall_at(gap.end_ns))));
  }
  return out;
}

}  // namespace

SnapshotWorker::SnapshotWorker(RecorderThread& recorder, FreezeThread& freezer, const SnapshotConfig& config,
                               const HostFacts& host, std::string folder, std::vector<CrewWorker> crew,
                               std::function<void(Error)> warn)
    : recorder_(recorder),
      freezer_(freezer),
      host_(host),
      files_(recorder, std::move(folder), warn),
      warn_(std::move(warn)),
      crew_(std::move(crew)),
      config_(config),
      thread_([this] { run(); }) {}

SnapshotWorker::~SnapshotWorker() { stop(); }

void SnapshotWorker::watch(std::function<void(const std::string& trigger)> begun,
                           std::function<void(const Result<Sidecar>&)> ended) {
  const std::lock_guard lock(mutex_);
  begun_ = std::move(begun);
  ended_ = std::move(ended);
}

void SnapshotWorker::budget_with(MakeRoom make_room, std::function<void()> symbols_kept) {
  const std::lock_guard lock(mutex_);
  make_room_ = std::move(make_room);
  symbols_kept_ = std::move(symbols_kept);
}

void SnapshotWorker::configure(const SnapshotConfig& config) {
  const std::lock_guard lock(mutex_);
  config_ = config;
}

void SnapshotWorker::broker_is_back() {
  const std::lock_guard lock(mutex_);
  refill_ = true;
  wake_.notify_all();
}

void SnapshotWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SnapshotWorker::run() {
  ::pthread_setname_np(::pthread_self(), "snapshot");
  if (auto counts = recorder_.counts()) counts_ = std::move(*counts);
  refill_ = true;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [this] { return stopping_ || waiting_; };
      // Of a new broker they are asked for before anything else: it may not live long.
      if (refill_) {
        files_.broker_is_new();
        last_taken_ = false;
      }
      if (std::exchange(refill_, false) || !wake_.wait_for(lock, kSpareAfter, wanted)) {
        lock.unlock();
        files_.fill_spare();
        lock.lock();
        wake_.wait(lock, [&] { return wanted() || refill_; });
      }
      if (refill_ || !wanted()) continue;
      if (stopping_) return refuse_waiting();
      running_ = std::move(waiting_);
      wait_until_due(lock);
    }
    begun_(running_->trigger);
    const Result<Sidecar> result = take(*running_);
    writing_since_ns_ = 0;
    if (!result && recorder_.broker_gone() && hand_to_last()) continue;
    last_taken_ = running_->trigger == kBrokerLost || (last_taken_ && recorder_.broker_gone());
    ended_(result);
    if (result) learn(*result);
    std::unique_ptr<Job> finished;
    {
      const std::lock_guard lock(mutex_);
      finished = std::move(running_);
    }
    answer(*finished, result);
    after_step(Step::answered);
    if (result) keep_symbols();
  }
}

// After the answer: nobody waits for the kernel's names. Behind the next freeze, too, should the disk be slow.
void SnapshotWorker::keep_symbols() {
  if (attached_->kallsyms_frame->empty()) return;
  crew_.write([this, attached = attached_] {
    auto kept = keep_kallsyms(files_.folder(), attached->manifest.boot_id, *attached->kallsyms_frame);
    if (!kept) warn_(kept.error());
    if (kept && *kept) symbols_kept_();
  });
}

// Waits for what was asked to be in it (`post`). Who is due earlier goes first; on stop the wait is cut short.
void SnapshotWorker::wait_until_due(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (waiting_ && waiting_->due_ns < running_->due_ns) std::swap(waiting_, running_);
    if (waiting_ && waiting_->askers.empty()) waiting_.reset();  // they are with the last snapshot
    const EventTime now_ns = monotonic_now();
    if (stopping_ && now_ns < running_->due_ns) running_->cut_short_ns = running_->due_ns - now_ns;
    if (stopping_ || now_ns >= running_->due_ns) break;
    tell_waiting(*running_, now_ns);
    wake_.wait_for(lock, std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(running_->due_ns - now_ns),
                                                            kTellWaitingEvery));
  }
  running_->frozen = true;  // from here on nobody joins
}

void SnapshotWorker::follow_attached() {
  std::shared_ptr<Attached> next = recorder_.attached();
  if (next == attached_) return;
  BlackoutLog blackouts(next->rings.size());
  if (attached_)
    for (std::size_t i = 0; i < next->rings.size(); ++i) {
      const auto old = std::find(attached_->rings.begin(), attached_->rings.end(), next->rings[i]);
      if (old != attached_->rings.end())
        blackouts[i] = std::move(blackouts_[static_cast<std::size_t>(old - attached_->rings.begin())]);
    }
  blackouts_ = std::move(blackouts);
  attached_ = std::move(next);
}

// Cuts every ring.
EventTime SnapshotWorker::freeze(const Job& job) {
  follow_attached();
  recorder_.hold_fold(true);
  return freezer_.freeze(attached_->staging, job.capture);
}

Result<Sidecar> SnapshotWorker::take(Job& job) {
  const EventTime frozen_ns = freeze(job);
  const EventTime recorded_until_ns = recorder_.recorded_until_ns();
  after_step(Step::frozen);
  const auto release = [this](void*) { recorder_.hold_fold(false); };
  const std::unique_ptr<void, decltype(release)> hold(this, release);

  for (std::size_t i = 0; i < attached_->rings.size(); ++i) {
    const RingCapture& cut = attached_->staging.result(i);
    if (cut.pause_begin_ns != 0) blackouts_[i].push_back({cut.pause_begin_ns, cut.pause_end_ns});
  }
  bool exact = attached_->manifest.lost_exact;
  const std::vector<std::uint64_t> lost = count_lost(attached_->manifest, attached_->channel_rings, exact);
  after_step(Step::counted);
  forget_old_blackouts();
  // A CPU may have come back just before the freeze: its new events are known to a newer set. The broker tells of it
  // before it answers, so it is here now.
  const std::shared_ptr<Attached> newest = recorder_.attached();
  const auto newest_rings = rings_in(*newest, *attached_);
  const Manifest& manifest = newest_rings ? newest->manifest : attached_->manifest;

  SnapshotOrder order{.trigger = job.trigger,
                      .reason = job.reason,
                      .fired = job.fired,
                      .metrics = metrics_(),
                      .requests = {},
                      .window = job.window,
                      .requested_ns = job.requested_ns,
                      .compression = job.config.compression,
                      .compression_level = job.config.compression_level,
                      .warnings = cpu_warnings(manifest, job.window.begin_ns, frozen_ns)};
  for (std::string& gap : recorder_.gaps().warnings(job.window.begin_ns, std::min(job.window.end_ns, frozen_ns),
                                                    recorder_.oldest_held_ns()))
    order.warnings.push_back(std::move(gap));
  order.requests = askers_of(job.askers, recorder_);
  if (recorder_.broker_gone())
    order.warnings.push_back(fmt::format("flightd-broker is gone: nothing after {} is in this snapshot",
                                         to_rfc3339(ClockPair::now().wall_at(recorded_until_ns))));
  if (job.cut_short_ns > 0)
    order.warnings.push_back(fmt::format("flightd was stopped: this ends {} before the aftermath that was asked for",
                                         format_duration(std::chrono::nanoseconds(job.cut_short_ns))));
  writing_since_ns_ = monotonic_now();
  const auto max_bytes = make_room_(job.trigger, attached_->ring_bytes());
  if (!max_bytes) return pass(max_bytes.error());
  order.max_bytes = *max_bytes;
  auto output = job.trigger == kBrokerLost ? files_.take_spare() : files_.make();
  if (!output) return pass(output.error());

  const RecordingFacts recording{.manifest = manifest,
                                 .channel_rings = newest_rings ? *newest_rings : attached_->channel_rings,
                                 .events = newest_rings ? newest->events : attached_->events,
                                 .host = host_};
  const CaptureFacts capture{.staging = attached_->staging,
                             .frozen_ns = frozen_ns,
                             .recorded_until_ns = recorded_until_ns,
                             .mode = job.capture,
                             .blackouts = blackouts_,
                             .lost = lost,
                             .lost_exact = exact};
  const LedgerQuery ledger = [this, once = order.max_bytes == 0](EventTime begin_ns, EventTime end_ns,
                                                                 std::unordered_set<std::uint32_t> pids) {
    auto window = recorder_.export_window(begin_ns, end_ns, std::move(pids));
    if (once) recorder_.hold_fold(false);  // however long the disk takes from here on
    return window;
  };
  const OnProgress progress = [&job](std::string_view step, unsigned percent) {
    for (const SnapshotRequest& asker : job.askers)
      if (asker.progress) asker.progress(step, percent);
  };
  Result<Sidecar> result = fail(std::errc::io_error, "the snapshot was not written");
  crew_.merge([&] { result = write_snapshot(order, recording, capture, std::move(*output), ledger, crew_, progress); });
  return result;
}

// An overwritten ring loses only while it is paused, so the difference of two counts, both outside a freeze, is what
// this blackout cost.
std::vector<std::uint64_t> SnapshotWorker::count_lost(const Manifest& manifest,
                                                      const std::vector<std::size_t>& channel_rings, bool& exact) {
  std::vector<std::uint64_t> out(channel_rings.size(), 0);
  auto counts = recorder_.counts();
  if (!counts) {
    exact = false;
    return out;
  }
  std::map<std::uint64_t, std::uint64_t> before;
  for (const EventCount& count : counts_.events) before[count.id] = count.lost;
  std::map<std::uint64_t, std::uint64_t> lost;
  for (const EventCount& count : counts->events) lost[count.id] = count.lost - before[count.id];
  for (const ManifestEvent& event : manifest.events) {
    for (const ManifestId& id : event.ids) {
      const auto ring = std::find(channel_rings.begin(), channel_rings.end(), id.ring);
      if (ring == channel_rings.end()) continue;
      out[static_cast<std::size_t>(ring - channel_rings.begin())] += lost[id.id];
    }
  }
  counts_ = std::move(*counts);
  return out;
}

// Of a blackout that no ring reaches back to nothing can be in a file.
void SnapshotWorker::forget_old_blackouts() {
  const EventTime oldest_ns = recorder_.oldest_held_ns();
  for (auto& ring : blackouts_)
    std::erase_if(ring, [&](const Blackout& blackout) { return blackout.end_ns < oldest_ns; });
}

// What a record of each channel takes, for the rates in the status.
void SnapshotWorker::learn(const Sidecar& sidecar) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> sums;  // records, bytes
  for (const SidecarRing& ring : sidecar.rings) {
    sums[ring.channel].first += ring.records;
    sums[ring.channel].second += ring.record_bytes;
  }
  constexpr std::uint64_t kEnoughRecords = 100;
  for (const auto& [channel, sum] : sums)
    if (sum.first >= kEnoughRecords)
      recorder_.note_record_bytes(channel, static_cast<double>(sum.second) / static_cast<double>(sum.first));
}

}  // namespace flight
