// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder_thread.hpp"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

constexpr EventTime kTickNs = 100'000'000;
constexpr EventTime kNoteEveryNs = 1'000'000'000;
constexpr EventTime kScanEveryNs = 30'000'000'000;  // at most, while the ledger is stale
// A first flightd comes this soon after its broker: systemd starts both, or flightd does.
constexpr EventTime kFirstWithinNs = 10'000'000'000;

}  // namespace

Result<std::unique_ptr<RecorderThread>> RecorderThread::start(BrokerClient broker, std::shared_ptr<Attached> attached,
                                                              std::string broker_path, WallThread::Told told,
                                                              std::optional<Spool> spool) {
  auto wake = TaskQueue::make_wake("recorder");
  if (!wake) return pass(wake.error());
  auto warn = told.warn;
  auto wall = WallThread::start(std::move(broker), std::move(attached), std::move(broker_path), std::move(told));
  if (!wall) return pass(wall.error());
  std::unique_ptr<RecorderThread> out(
      new RecorderThread(std::move(*wall), std::move(*wake), std::move(spool), std::move(warn)));
  out->thread_ = std::thread([recorder = out.get()] { recorder->run(); });
  return out;
}

RecorderThread::RecorderThread(std::unique_ptr<WallThread> wall, UniqueFd wake, std::optional<Spool> spool,
                               std::function<void(Error)> warn)
    : wall_(std::move(wall)), tasks_(std::move(wake)), spool_(std::move(spool)), warn_(std::move(warn)) {
  follow_attached();
  oldest_held_ns_ = UINT64_MAX;
  for (const auto& ring : attached_->rings) oldest_held_ns_ = std::min(oldest_held_ns_.load(), ring->info().enabled_ns);
}

RecorderThread::~RecorderThread() {
  wall_->cut();
  tasks_.post([this] { stopping_ = true; });
  thread_.join();
  wall_.reset();  // it posts tasks here
}

LedgerExport RecorderThread::export_window(EventTime begin_ns, EventTime end_ns,
                                           std::unordered_set<std::uint32_t> pids) {
  return tasks_.ask([this, begin_ns, end_ns, pids = std::move(pids)] {
    drain();
    return ledger_.export_window(begin_ns, end_ns, pids);
  });
}

std::vector<std::string> RecorderThread::comms_of(std::vector<ProcessAt> asked) {
  return tasks_.ask([this, asked = std::move(asked)] {
    drain();
    return ledger_.comms_of(asked);
  });
}

void RecorderThread::note_record_bytes(const std::string& channel, double bytes) {
  const std::lock_guard lock(mutex_);
  record_bytes_[channel] = bytes;
}

void RecorderThread::run() {
  ::pthread_setname_np(::pthread_self(), "recorder");
  replay();
  // Nobody is served before it is known what runs.
  EventTime asked_ns = monotonic_now();
  auto records = wall_->processes();
  if (take_first_scan(records)) {
    asked_ns = monotonic_now();
    records = wall_->processes();
  }
  take_scan(records, asked_ns);
  if (auto counts = wall_->counts()) last_counts_ = std::move(*counts);
  EventTime next_tick_ns = monotonic_now() + kTickNs;
  EventTime next_note_ns = 0;
  while (!stopping_) {
    wait_for_work(next_tick_ns);
    follow_attached();
    tasks_.run();
    drain();
    const EventTime now_ns = monotonic_now();
    answer_late_statuses(now_ns);
    if (now_ns >= next_note_ns) {
      note_heads(now_ns);
      next_note_ns = now_ns + kNoteEveryNs;
      if (ledger_.stats().stale && now_ns - last_scan_ns_ >= kScanEveryNs) scan();
    }
    if (now_ns >= next_tick_ns) next_tick_ns = now_ns + kTickNs;
  }
}

// A new set of rings: those that it shares with the old one keep their notes.
void RecorderThread::follow_attached() {
  std::shared_ptr<Attached> next = wall_->attached();
  if (next == attached_) return;
  std::vector<History> histories;
  for (const auto& ring : next->rings) {
    const auto old = attached_ ? std::find(attached_->rings.begin(), attached_->rings.end(), ring) : next->rings.end();
    if (attached_ && old != attached_->rings.end())
      histories.push_back(std::move(histories_[static_cast<std::size_t>(old - attached_->rings.begin())]));
    else
      histories.emplace_back(ring->info().ring_bytes, ring->info().enabled_ns);
  }
  if (attached_) drain();  // for the last time those that are not in the new set
  histories_ = std::move(histories);
  attached_ = std::move(next);
}

// Until a task, a sideband ring's watermark, or the tick.
void RecorderThread::wait_for_work(EventTime until_ns) {
  std::vector<pollfd> fds;
  fds.reserve(attached_->sideband.size() + 1);
  fds.push_back({.fd = tasks_.fd(), .events = POLLIN, .revents = 0});
  for (const auto& ring : attached_->sideband) fds.push_back({.fd = ring->fd(), .events = POLLIN, .revents = 0});
  const EventTime now_ns = monotonic_now();
  const EventTime left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
  const timespec timeout{.tv_sec = static_cast<time_t>(left_ns / 1'000'000'000),
                         .tv_nsec = static_cast<long>(left_ns % 1'000'000'000)};
  ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
}

void RecorderThread::drain() {
  drained_.clear();
  for (const auto& ring : attached_->sideband) ring->copy(drained_);
  if (drained_.empty()) return;
  if (std::exchange(may_know_, false)) ledger_.drop_known(drained_);
  // In this order: whenever we are killed, the next flightd finds them in the spool or in the ring.
  if (spool_) warn_of(spool_->append(ledger_, drained_));
  for (const auto& ring : attached_->sideband) ring->release();
  ledger_.add(drained_);
  if (spool_) warn_of(spool_->keep_up(ledger_, monotonic_now()));
}

// Whether it has the names of all that ended since the rings were enabled. Where there is none, this is their first
// flightd only if it came right after the broker.
Result<void> RecorderThread::judge_spool(const SpoolContents& left) const {
  if (left.found && left.complete) return {};
  if (left.found)
    return fail(std::errc::no_message_available,
                "the flightd before this one could not keep all that it knew of processes: names of those that ended "
                "shortly before it did can be missing");
  EventTime enabled_ns = UINT64_MAX;
  for (const auto& ring : attached_->sideband) enabled_ns = std::min(enabled_ns, ring->info().enabled_ns);
  const EventTime now_ns = monotonic_now();
  if (enabled_ns > now_ns || now_ns - enabled_ns < kFirstWithinNs) return {};
  return fail(
      std::errc::no_message_available,
      "events have been recorded for {} s, and what an earlier flightd knew of processes is not there: names of "
      "those that ended before now can be missing",
      (now_ns - enabled_ns) / 1'000'000'000);
}

// What the flightd before this one knew of the processes whose samples are still in the rings. Before the rings are
// drained, and then kept again, with what will be drained.
void RecorderThread::replay() {
  if (!spool_) return;
  if (auto left = spool_->read(); !left) {
    warn_(left.error());
  } else {
    if (!left->records.empty()) ledger_.replay(std::as_bytes(std::span<const char>(left->records)), left->evicted);
    warn_of(judge_spool(*left));
  }
  may_know_ = true;
  begin_spool();
}

void RecorderThread::begin_spool() {
  if (spool_) warn_of(spool_->begin(ledger_, monotonic_now()));
}

void RecorderThread::scan() {
  last_scan_ns_ = monotonic_now();
  wall_->processes([this, asked_ns = last_scan_ns_](Result<std::string> records) {
    tasks_.post([this, asked_ns, records = std::move(records)] { take_scan(records, asked_ns); });
  });
}

void RecorderThread::take_scan(const Result<std::string>& records, EventTime asked_ns) {
  last_scan_ns_ = asked_ns;
  if (!records) return;  // the ledger stays stale
  drain();
  const std::span<const char> text(*records);
  ledger_.add_scan(std::as_bytes(text), asked_ns);
  begin_spool();  // with those who were not known
}

// What ran before anything was recorded lies below all that the sideband rings hold, so it comes before they are
// drained. False: the scan is a later one.
bool RecorderThread::take_first_scan(const Result<std::string>& records) {
  if (!records) return false;
  const auto bytes = std::as_bytes(std::span<const char>(*records));
  const auto record = next_record(bytes);
  const auto trailer = record.empty() ? std::nullopt : parse_trailer(record);
  if (!trailer) return false;
  for (const auto& ring : attached_->sideband)
    if (trailer->time_ns > ring->info().enabled_ns) return false;
  ledger_.add_scan(bytes, trailer->time_ns);
  return true;
}

void RecorderThread::note_heads(EventTime now_ns) {
  EventTime oldest = UINT64_MAX;
  EventTime shortest = UINT64_MAX;
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    histories_[i].note(now_ns, attached_->rings[i]->head());
    oldest = std::min(oldest, histories_[i].oldest_bound_ns());
    if (histories_[i].overwrites()) shortest = std::min(shortest, now_ns - histories_[i].oldest_ns());
  }
  oldest_held_ns_ = oldest;
  shortest_history_ns_ = shortest;
  if (!fold_held_ && oldest != UINT64_MAX) ledger_.fold(oldest);
}

void RecorderThread::reconnect(std::function<void(Result<bool>)> done) {
  wall_->reconnect([this, done = std::move(done)](const Result<bool>& same) {
    if (same && !*same) {
      gaps_.without_broker(wall_->lost_ns(), monotonic_now());
      tasks_.post([this] { scan(); });
    }
    done(same);
  });
}

void RecorderThread::set_recording(bool recording, std::string who, std::function<void(Result<void>)> done) {
  wall_->set_recording(recording, [this, recording, who = std::move(who), done = std::move(done),
                                   before_ns = monotonic_now()](const Result<void>& switched) {
    tasks_.post([this, recording, who, done, before_ns, switched] {
      if (switched && recording && gaps_.paused()) {
        gaps_.resume(monotonic_now());
        scan();  // who was started and who ended meanwhile
      }
      if (switched && !recording) gaps_.pause(before_ns, who);
      done(switched);
    });
  });
}

}  // namespace flight
