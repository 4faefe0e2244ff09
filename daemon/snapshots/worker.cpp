// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/worker.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "libcore/base/steps.hpp"

namespace flight::daemon {
namespace {

// Spare files are requested after this long without a request.
constexpr std::chrono::milliseconds kSpareAfter(200);
constexpr std::chrono::seconds kSpareRetry(5);  // after the disk was full or did not answer
constexpr EventTime kNotifyWaitingEveryNs = 500'000'000;

}  // namespace

SnapshotWorker::SnapshotWorker(RecorderThread& recorder, FreezeThread& freezer, const SnapshotConfig& config,
                               const HostFacts& host, std::string folder, std::unique_ptr<WorkerPool> workers,
                               StreamMemory memory, Callbacks callbacks, const WaitingClock& clock)
    : recorder_(recorder),
      freezer_(freezer),
      host_(host),
      files_(recorder, std::move(folder), callbacks.warn),
      callbacks_(std::move(callbacks)),
      workers_(std::move(workers)),
      memory_(std::move(memory)),
      clock_(clock),
      config_(config) {}

Result<std::unique_ptr<SnapshotWorker>> SnapshotWorker::start(RecorderThread& recorder, FreezeThread& freezer,
                                                              const SnapshotConfig& config, const HostFacts& host,
                                                              std::string folder, std::vector<PlannedWorker> plan,
                                                              Callbacks callbacks, const WaitingClock& clock) {
  auto workers = WorkerPool::start(std::move(plan));
  if (!workers) return propagate(workers.error());
  auto memory = StreamMemory::create((*workers)->size(), config.compression_level);
  if (!memory) return propagate(memory.error());
  std::unique_ptr<SnapshotWorker> out(new SnapshotWorker(recorder, freezer, config, host, std::move(folder),
                                                         std::move(*workers), std::move(*memory), std::move(callbacks),
                                                         clock));
  auto thread = start_thread("snapshot", [self = out.get()] { self->run(); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  return out;
}

SnapshotWorker::~SnapshotWorker() { stop(); }

void SnapshotWorker::configure(const SnapshotConfig& config) {
  const std::lock_guard lock(mutex_);
  config_ = config;
  configured_ = true;
  wake_.notify_all();
}

void SnapshotWorker::broker_is_back() {
  const std::lock_guard lock(mutex_);
  refill_ = true;
  wake_.notify_all();
}

void SnapshotWorker::folder_changed() {
  const std::lock_guard lock(mutex_);
  moved_ = true;
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
  if (auto counts = recorder_.counts(kCountsWait)) counts_ = std::move(*counts);
  refill_ = true;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      take_memory(lock);
      wait_for_request(lock);
      if (refill_ || !(stopping_ || waiting_)) continue;
      if (stopping_) return refuse_waiting();
      running_ = std::move(waiting_);
      wait_until_due(lock);
    }
    callbacks_.begun(running_->trigger);
    const Result<Sidecar> result = take(*running_);
    writing_since_ns_ = 0;
    const bool nothing_recorded = !result && result.error().code == std::errc::no_message_available;
    if (!result && !nothing_recorded && recorder_.broker_gone() && hand_to_last()) continue;
    last_taken_ = running_->trigger == kBrokerLost || (last_taken_ && recorder_.broker_gone());
    callbacks_.ended(result);
    if (result) learn(*result);
    std::unique_ptr<Job> finished;
    {
      const std::lock_guard lock(mutex_);
      finished = std::move(running_);
    }
    answer(*finished, result);
    after_step(Step::answered);
    if (attached_ && attached_->events.copies_user()) attached_->staging.wipe();
    if (result) keep_symbols();
  }
}

// Until there is one, or something else to do. Between requests it has spare files made.
void SnapshotWorker::wait_for_request(std::unique_lock<std::mutex>& lock) {
  const auto wanted = [this] { return stopping_ || waiting_; };
  // Request them first from a new broker: it may die soon.
  if (refill_) {
    files_.broker_is_new();
    last_taken_ = false;
  }
  const bool moved = std::exchange(moved_, false);
  if (moved) files_.forget_spare();
  urgent_.begin();
  // A request that waits while the store has moved goes first: the disk may be slow, and the broker is the same one.
  const bool fill_first = std::exchange(refill_, false) || (moved && !wanted());
  if (!fill_first && clock_.wait_for(wake_, lock, kSpareAfter, wanted)) return;
  urgent_.end();
  lock.unlock();
  const bool filled = callbacks_.store_usable() && files_.fill_spare();
  lock.lock();
  const auto woken = [&] { return wanted() || refill_ || configured_ || moved_; };
  std::optional<std::chrono::nanoseconds> most = urgent_.begin();
  if (!filled) most = std::min<std::chrono::nanoseconds>(most.value_or(kSpareRetry), kSpareRetry);
  if (most)
    clock_.wait_for(wake_, lock, *most, woken);
  else
    wake_.wait(lock, woken);
  if (!waiting_) urgent_.end();
}

// If there is no memory for zstd, the next snapshot tries to take it again. If that fails too, it says that it is not
// compressed.
void SnapshotWorker::take_memory(std::unique_lock<std::mutex>& lock) {
  if (!std::exchange(configured_, false)) return;
  const int level = config_.compression_level;
  urgent_.end();
  lock.unlock();
  if (auto taken = memory_.set_level(level); !taken) callbacks_.warn(taken.error());
  lock.lock();
}

// After the reply, so that no caller waits for the kernel's symbols. With a slow disk this can end after the next
// freeze.
void SnapshotWorker::keep_symbols() {
  if (kernel_->frame == nullptr) return;
  workers_->write([this, kernel = kernel_, file = kernel_->file(attached_->manifest.boot_id)] {
    auto kept = keep_kallsyms(files_.folder(), file, *kernel->frame);
    if (!kept) callbacks_.warn(kept.error());
    if (kept && *kept) callbacks_.symbols_kept();
  });
}

// Waits for `post`. A job that is due earlier runs first; stop ends the wait.
void SnapshotWorker::wait_until_due(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (waiting_ && waiting_->due_ns < running_->due_ns) std::swap(waiting_, running_);
    if (waiting_ && waiting_->askers.empty()) waiting_.reset();  // the last snapshot answers them
    const EventTime now_ns = clock_.now();
    if (stopping_ && now_ns < running_->due_ns) running_->cut_short_ns = running_->due_ns - now_ns;
    if (stopping_ || now_ns >= running_->due_ns) break;
    notify_waiting(*running_, now_ns);
    clock_.wait_until(wake_, lock, std::min(running_->due_ns, now_ns + kNotifyWaitingEveryNs));
  }
  running_->frozen = true;  // requests that come later do not join
}

// Measures the size of a record in each channel, for the rates in the status.
void SnapshotWorker::learn(const Sidecar& sidecar) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> sums;  // records and bytes
  for (const SidecarRing& ring : sidecar.rings) {
    sums[ring.channel].first += ring.records;
    sums[ring.channel].second += ring.record_bytes;
  }
  constexpr std::uint64_t kEnoughRecords = 100;
  for (const auto& [channel, sum] : sums)
    if (sum.first >= kEnoughRecords)
      recorder_.note_record_bytes(channel, static_cast<double>(sum.second) / static_cast<double>(sum.first));
}

}  // namespace flight::daemon
