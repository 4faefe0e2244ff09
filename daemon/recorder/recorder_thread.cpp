// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/recorder_thread.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/recorder/unwatched.hpp"
#include "libcore/base/poll.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/forker_cgroups.hpp"

namespace flight::daemon {
namespace {

constexpr EventTime kTickNs = 100'000'000;
// The interval while little is written (less per pass than the records of a few processes). A watermark, a task or a
// snapshot still drains at once.
constexpr EventTime kQuietTickNs = 1'000'000'000;
constexpr std::size_t kQuietBytes = 4096;
constexpr EventTime kNoteEveryNs = 1'000'000'000;
// After a ring's wakeup, while the last round is too young for another one.
constexpr EventTime kTryAgainNs = 10'000'000;
// After a change of the wall clock: if it is set all the time, the thread does not wake for each change.
constexpr EventTime kClockRestsNs = 100'000'000;

}  // namespace

Result<std::unique_ptr<RecorderThread>> RecorderThread::start(BrokerClient broker, std::shared_ptr<Attached> attached,
                                                              std::string broker_path,
                                                              BrokerThread::Callbacks callbacks,
                                                              std::optional<CheckpointFile> checkpoint,
                                                              const BesideRings& beside, std::string refusal,
                                                              const WaitingClock& clock) {
  auto wake = TaskQueue::make_wake("recorder");
  if (!wake) return propagate(wake.error());
  auto warn = callbacks.warn;
  auto broker_thread = BrokerThread::start(std::move(broker), std::move(attached), std::move(broker_path),
                                           std::move(callbacks), std::move(refusal), clock);
  if (!broker_thread) return propagate(broker_thread.error());
  std::unique_ptr<RecorderThread> out(new RecorderThread(std::move(*broker_thread), std::move(*wake),
                                                         std::move(checkpoint), beside, std::move(warn), clock));
  auto thread = start_thread("recorder", [self = out.get()] { self->run(); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  return out;
}

RecorderThread::RecorderThread(std::unique_ptr<BrokerThread> broker_thread, UniqueFd wake,
                               std::optional<CheckpointFile> checkpoint, const BesideRings& beside,
                               std::function<void(Error)> warn, const WaitingClock& clock)
    : broker_thread_(std::move(broker_thread)),
      tasks_(std::move(wake)),
      beside_(beside),
      tracker_(TrackerLimits::of(beside_, kDyingNs)),
      checkpoint_(std::move(checkpoint)),
      warn_(std::move(warn)),
      pace_clock_(clock) {
  // Without it, changes of the wall clock are seen at the next tick.
  if (auto opened = ClockAlarm::open()) clock_alarm_ = std::move(*opened);
  follow_attached();
  note_heads(monotonic_now());
}

RecorderThread::~RecorderThread() {
  broker_thread_->cut();
  tasks_.post([this] { stopping_ = true; });
  if (thread_.joinable()) thread_.join();
  broker_thread_.reset();  // its tasks run on this thread
}

TrackerExport RecorderThread::export_window(EventTime begin_ns, EventTime end_ns,
                                            const std::unordered_set<std::uint32_t>& pids,
                                            const std::unordered_set<std::uint64_t>& cgroups) {
  await_scan(pids);
  TrackerExport window = tasks_.ask([this, begin_ns, end_ns, &pids, &cgroups] {
    drain();
    TrackerExport found = tracker_.export_window(begin_ns, end_ns, pids);
    tracker_.mark_sampled(begin_ns, end_ns, pids, cgroups);
    return found;
  });
  clock_.look();
  read_forker_cgroups(window, pids, clock_.history());
  if (window.forker_cgroups.empty()) return window;
  tasks_.ask([this, &window] {
    drain();  // with the cgroups that were made until now
    tracker_.date_forker_cgroups(window);
  });
  return window;
}

std::vector<std::string> RecorderThread::comms_of(std::vector<ProcessAt> asked) {
  return tasks_.ask([this, asked = std::move(asked)] {
    drain();
    return tracker_.comms_of(asked);
  });
}

void RecorderThread::note_record_bytes(const std::string& channel, double bytes) {
  const std::lock_guard lock(mutex_);
  record_bytes_[channel] = bytes;
}

void RecorderThread::run() {
  replay();
  // No request is served before the first scan is finished.
  EventTime asked_ns = note_request();
  auto records = broker_thread_->processes();
  if (take_first_scan(records)) {
    asked_ns = note_request();
    records = broker_thread_->processes();
  }
  if (!take_scan(records, asked_ns)) scan(/*again=*/true);
  if (auto counts = broker_thread_->counts()) last_counts_ = std::move(*counts);
  EventTime next_tick_ns = monotonic_now() + kTickNs;
  EventTime next_note_ns = 0;
  while (!stopping_) {
    wait_for_work(next_tick_ns);
    tick_streams(monotonic_now());
    follow_attached();
    tasks_.run();
    drain();
    note_clock();
    const EventTime now_ns = monotonic_now();
    answer_late_statuses(now_ns);
    if (now_ns >= next_note_ns) {
      note_heads(now_ns);
      if (!fold_held_ && oldest_held_ns_ != UINT64_MAX) tracker_.fold(fold_horizon_ns(now_ns));
      next_note_ns = now_ns + kNoteEveryNs;
    }
    scan_if_due();
    const bool quiet = drained_bytes_ <= kQuietBytes && statuses_.empty() && !tracker_.stale();
    const EventTime tick_ns = quiet ? kQuietTickNs : kTickNs;
    if (now_ns >= next_tick_ns || next_tick_ns > now_ns + tick_ns) next_tick_ns = now_ns + tick_ns;
  }
}

// Takes over a new set of rings: rings that are in both sets keep their notes. A scan finds what CPUs did before they
// were recorded.
void RecorderThread::follow_attached() {
  std::shared_ptr<Attached> next = broker_thread_->attached();
  if (next == attached_) return;
  std::vector<History> histories;
  for (const auto& ring : next->rings) {
    const auto old = attached_ ? std::find(attached_->rings.begin(), attached_->rings.end(), ring) : next->rings.end();
    if (attached_ && old != attached_->rings.end())
      histories.push_back(std::move(histories_[static_cast<std::size_t>(old - attached_->rings.begin())]));
    else
      histories.emplace_back(ring->info().ring_bytes, ring->info().enabled_ns);
  }
  strangers_.know(next->manifest);
  if (attached_) drain();  // the last time for rings that are not in the new set
  const EventTime since_ns = attached_ ? unwatched_since(attached_->manifest, next->manifest) : UINT64_MAX;
  histories_ = std::move(histories);
  attached_ = std::move(next);
  if (since_ns != UINT64_MAX) look_again(since_ns);
}

// Waits for a task, a change of the wall clock, a sideband ring's watermark, that of a ring that is being recorded, or
// the tick.
void RecorderThread::wait_for_work(EventTime until_ns) {
  std::vector<pollfd> fds;
  fds.reserve(attached_->sideband.size() + 2);
  const EventTime now_ns = monotonic_now();
  const bool clock_rests = now_ns < clock_alarm_rests_ns_;
  fds.push_back({.fd = tasks_.fd(), .events = POLLIN, .revents = 0});
  fds.push_back({.fd = clock_rests ? -1 : clock_alarm_.fd(), .events = POLLIN, .revents = 0});
  for (const auto& ring : attached_->sideband) fds.push_back({.fd = ring->fd(), .events = POLLIN, .revents = 0});
  const std::size_t others = fds.size();
  watch_streams(fds);
  if (clock_rests) until_ns = std::min(until_ns, clock_alarm_rests_ns_);
  for (const auto& [id, watched] : streams_)
    if (watched.woken_ns != 0) until_ns = std::min(until_ns, now_ns + kTryAgainNs);
  wait_for_any(fds, std::chrono::nanoseconds(until_ns - std::min(until_ns, now_ns)));
  if (fds[1].revents != 0) look_at_set_clock();
  note_wakeups(std::span<const pollfd>(fds).subspan(others));
}

// Before anything else, because the time of this look counts as that of the change.
void RecorderThread::look_at_set_clock() {
  clock_alarm_.take();
  clock_.look();
  clock_alarm_rests_ns_ = monotonic_now() + kClockRestsNs;
}

void RecorderThread::note_clock() {
  clock_.look();
  const std::vector<ClockTriple> added = clock_.take_new();
  if (checkpoint_) warn_of(checkpoint_->append_clock(added));
}

void RecorderThread::note_heads(EventTime now_ns) {
  EventTime oldest = UINT64_MAX;
  EventTime shortest = UINT64_MAX;
  EventTime all_from = 0;
  std::string channel;  // of the ring that holds the least
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    histories_[i].note(now_ns, attached_->rings[i]->head());
    if (!is_recorded(attached_->manifest, attached_->rings[i]->info())) continue;
    oldest = std::min(oldest, histories_[i].oldest_bound_ns());
    if (histories_[i].oldest_ns() > all_from) channel = attached_->rings[i]->info().channel;
    all_from = std::max(all_from, histories_[i].oldest_ns());
    if (histories_[i].overwrites()) shortest = std::min(shortest, now_ns - histories_[i].oldest_ns());
  }
  oldest_held_ns_ = oldest;
  shortest_history_ns_ = shortest;
  all_held_from_ns_ = all_from == 0 ? now_ns : all_from;  // 0: there is no ring, all CPUs of the channels are offline
  const std::lock_guard lock(mutex_);
  shortest_channel_ = std::move(channel);
}

void RecorderThread::reconnect(std::chrono::seconds look_for, std::function<void(Result<bool>)> done) {
  broker_thread_->reconnect(look_for, [this, done = std::move(done)](const Result<bool>& same) {
    if (same && !*same) {
      gaps_.without_broker(broker_thread_->lost_ns(), monotonic_now());
      tasks_.post([this, lost_ns = broker_thread_->lost_ns()] {
        follow_attached();
        look_again(lost_ns, watched_since(attached_->manifest));
      });
    }
    done(same);
  });
}

void RecorderThread::set_recording(bool recording, std::string who, std::function<void(Result<void>)> done) {
  broker_thread_->set_recording(recording, [this, recording, who = std::move(who), done = std::move(done),
                                            before_ns = monotonic_now()](const Result<void>& switched) {
    tasks_.post([this, recording, who, done, before_ns, switched] {
      if (switched && recording && gaps_.paused()) {
        const EventTime since_ns = gaps_.paused_since_ns();
        gaps_.resume(monotonic_now());
        look_again(since_ns);
      }
      if (switched && !recording) {
        gaps_.pause(before_ns, who);
        all_paused_ns_ = monotonic_now();
      }
      done(switched);
    });
  });
}

}  // namespace flight::daemon
