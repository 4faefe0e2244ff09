// SPDX-License-Identifier: Apache-2.0
// The recorder thread's path from the sideband rings to the process tracker. When records are missing, it requests a
// scan from the broker at once, less often if that happens repeatedly. A snapshot waits for the reply.
#include <algorithm>
#include <utility>

#include "daemon/recorder/recorder_thread.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perf/record_cut.hpp"
#include "libcore/sideband/scan_time.hpp"

namespace flight::daemon {
namespace {

// The limit for one pass, however large the rings are.
constexpr std::size_t kBatchBytes = 4U << 20U;
constexpr std::size_t kKeptBytes = 1U << 20U;  // the part of the batch buffer that is kept between batches
constexpr std::chrono::seconds kSnapshotWaits(1);
constexpr std::size_t kMostWaiters = 16;
constexpr EventTime kBlameEveryNs = 1'000'000'000;
// The first flightd attaches within this time after the start of its broker: systemd starts both, or flightd does.
constexpr EventTime kFirstWithinNs = 10'000'000'000;

}  // namespace

void RecorderThread::drain() {
  const EventTime began_ns = monotonic_now();
  drained_.clear();
  drained_bytes_ = 0;
  std::size_t first = 0;
  const auto& rings = attached_->sideband;
  for (std::size_t i = 0; i < rings.size(); ++i) {
    rings[i]->copy(drained_);
    if (i + 1 < rings.size() && drained_.size() < kBatchBytes) continue;
    // `began_ns` only with the last batch: rings that are read later may still have older records.
    take_batch(first, i + 1, i + 1 == rings.size() ? began_ns : drained_ns_);
    first = i + 1;
  }
  may_know_ = false;
  drained_ns_ = began_ns;
  if (drained_.capacity() > kKeptBytes) RecordBuffer().swap(drained_);
}

void RecorderThread::take_batch(std::size_t first, std::size_t end, EventTime complete_ns) {
  const EventTime now_ns = monotonic_now();
  if (drained_.empty() && !strangers_.due(now_ns) && !intake_.due()) return;
  drained_bytes_ += drained_.size();
  intake_.skim(drained_);  // before the passes that cost more
  cut_ += repair_records(drained_);
  strangers_.sift(drained_, now_ns);
  if (may_know_) tracker_.drop_known(drained_);
  intake_.sift(drained_, now_ns, complete_ns);
  strangers_.report(drained_);
  // In this order: whenever flightd dies, the next one finds the records in the checkpoint or in the ring.
  if (checkpoint_) warn_of(checkpoint_->append(tracker_, drained_));
  for (std::size_t i = first; i < end; ++i) attached_->sideband[i]->release();
  const std::uint64_t lost = tracker_.lost();
  tracker_.add(drained_, complete_ns);
  bool full = false;
  for (std::size_t i = first; i < end; ++i) {
    const SidebandRing& ring = *attached_->sideband[i];
    if (!ring.was_full()) continue;
    const auto cpu = static_cast<std::uint32_t>(ring.info().cpu);
    tracker_.add_full(cpu, intake_.last_of(cpu), monotonic_now());
    intake_.lost(intake_.last_of(cpu), monotonic_now());
    full = true;
  }
  if (full || tracker_.lost() != lost) blame();
  if (checkpoint_) warn_of(checkpoint_->keep_up(tracker_, monotonic_now(), [this] { return clock_.triples(); }));
  drained_.clear();
}

void RecorderThread::blame() {
  const EventTime now_ns = monotonic_now();
  if (now_ns - blamed_ns_ < kBlameEveryNs) return;
  blamed_ns_ = now_ns;
  const Intake::Loudest loudest = intake_.loudest();
  if (loudest.pid == 0) return;
  tracker_.blame(fmt::format("{} wrote {} % of all", named_in_gap(loudest.pid, now_ns),
                             loudest.records * 100 / std::max<std::uint64_t>(loudest.all, 1)));
}

// The lost records may include an exec, so the tracker's name is used only if /proc has the same.
std::string RecorderThread::named_in_gap(std::uint32_t pid, EventTime time_ns) const {
  const ProcessAt asked{pid, time_ns};
  const std::string known = tracker_.comms_of(std::span(&asked, 1)).front();
  if (known.empty()) return named(pid, time_ns);
  const auto living = read_line(fmt::format("/proc/{}/comm", pid));
  return living && *living == known ? named(pid, time_ns)
                                    : fmt::format("a process (pid {}, last known as {})", pid, own_name(known));
}

std::string RecorderThread::named(std::uint32_t pid, EventTime time_ns) const {
  const ProcessAt asked{pid, time_ns};
  const std::string comm = tracker_.comms_of(std::span(&asked, 1)).front();
  return fmt::format("{} (pid {})", comm.empty() ? "a process" : own_name(comm), pid);
}

EventTime RecorderThread::first_enabled_ns() const {
  EventTime enabled_ns = UINT64_MAX;
  for (const auto& ring : attached_->sideband) enabled_ns = std::min(enabled_ns, ring->info().enabled_ns);
  return enabled_ns;
}

// Whether the tracker has the names of all processes that exited since the rings were enabled. Without a checkpoint
// that holds only for the first flightd right after its broker.
Result<void> RecorderThread::assess_checkpoint(const CheckpointContents& left) {
  if (left.found && left.complete) return {};
  if (left.found)
    return fail(std::errc::no_message_available,
                "the previous flightd could not save all its data about processes: names of processes that exited "
                "shortly before it ended can be missing");
  const EventTime enabled_ns = first_enabled_ns();
  const EventTime now_ns = monotonic_now();
  if (enabled_ns > now_ns || now_ns - enabled_ns < kFirstWithinNs) return {};
  tracker_.know_from(now_ns);
  return fail(std::errc::no_message_available,
              "events have been recorded for {} s, but there is no data of an earlier flightd about processes: names "
              "of processes that have exited can be missing",
              (now_ns - enabled_ns) / 1'000'000'000);
}

// Reads the checkpoint of the previous flightd, before the rings are drained; then writes a new one, to which the
// drained records are appended.
void RecorderThread::replay() {
  if (!checkpoint_) return;
  if (auto left = checkpoint_->read(); !left) {
    tracker_.know_from(monotonic_now());
    warn_(left.error());
  } else {
    clock_.restore(left->clock);
    if (left->found) tracker_.replay(std::as_bytes(std::span<const char>(left->records)), left->losses);
    // Gaps: the records that the checkpoint lacks, and the time before another broker's rings existed.
    // (No ring: nothing is recorded yet.)
    const EventTime now_ns = monotonic_now();
    if (left->found) tracker_.add_gap_until(left->complete ? std::min(first_enabled_ns(), now_ns) : now_ns);
    warn_of(assess_checkpoint(*left));
  }
  may_know_ = true;
  begin_checkpoint();
}

void RecorderThread::begin_checkpoint() {
  if (checkpoint_) warn_of(checkpoint_->begin(tracker_, monotonic_now(), [this] { return clock_.triples(); }));
}

// Nothing was recorded since then, up to `until_ns` or now, so a scan must find which processes started, exited or
// changed.
void RecorderThread::look_again(EventTime since_ns, EventTime until_ns) {
  drain();
  until_ns = std::max(since_ns, std::min(until_ns, monotonic_now()));
  tracker_.add_gap(since_ns, until_ns);
  intake_.lost(since_ns, until_ns);
  scan();
}

EventTime RecorderThread::note_request() {
  pace_.requested(pace_clock_.now());
  return monotonic_now();
}

// `again`: requested because the last answer was older than its request. It is not requested a third time: only a
// broker's first answer can be older.
void RecorderThread::scan(bool again) {
  const EventTime asked_ns = note_request();
  scanning_ = true;
  intake_.looking();
  broker_thread_->processes([this, again, asked_ns](Result<Mapping> records) {
    // A task has to be copyable.
    auto answer = std::make_shared<const Result<Mapping>>(std::move(records));
    tasks_.post([this, again, asked_ns, answer = std::move(answer)] {
      scanning_ = false;
      if (!take_scan(*answer, asked_ns) && !again) scan(/*again=*/true);
    });
  });
}

void RecorderThread::scan_if_due() {
  if (scanning_ || (!tracker_.wants_scan() && !intake_.wants_scan() && wanted_.empty())) return;
  const bool loss = tracker_.has_open_gap() || intake_.wants_scan();
  if (pace_.take_turn(pace_clock_.now(), {.loss = loss, .snapshot_waits = !scan_waiters_.empty()})) scan();
}

// Runs on the caller's thread. A scan that takes longer is not waited for; its processes stay unknown.
void RecorderThread::await_scan(const std::unordered_set<std::uint32_t>& pids) {
  auto scanned = std::make_shared<std::promise<void>>();
  auto answer = scanned->get_future();
  tasks_.post([this, scanned, pids] {
    drain();
    const bool lacks = tracker_.lacks(pids);
    if ((!tracker_.stale() && !intake_.wants_scan() && !lacks) || broker_gone()) return scanned->set_value();
    if (lacks) wanted_ = pids;
    if (scan_waiters_.size() >= kMostWaiters)
      scan_waiters_.erase(scan_waiters_.begin());  // the oldest request waits no longer
    scan_waiters_.push_back(scanned);
    scan_if_due();
  });
  answer.wait_for(kSnapshotWaits);
}

// False: the scan is older than its request, as a broker's first one is, so it lacks what has started since then.
bool RecorderThread::take_scan(const Result<Mapping>& records, EventTime asked_ns) {
  if (!records) {  // the process tracker stays stale
    wanted_.clear();
    answer_waiters();
    return true;
  }
  drain();
  clock_.look();
  const EventTime scanned_ns =
      tracker_.add_scan(records->bytes(), asked_ns, wanted_, clock_.history(), monotonic_now());
  intake_.looked(scanned_ns);
  begin_checkpoint();  // with the processes that only the scan knew
  if (!tracker_.stale()) answer_waiters();
  if (scanned_ns != asked_ns) return false;
  wanted_.clear();
  return true;
}

void RecorderThread::answer_waiters() {
  for (const auto& waiter : scan_waiters_) waiter->set_value();
  scan_waiters_.clear();
}

// The broker makes its first scan when the sideband is on and no event samples yet. It is added before the sideband is
// drained, because every record is newer: added later, it would be ignored for a process that has records and has
// exited since. False: the scan is a later one.
bool RecorderThread::take_first_scan(const Result<Mapping>& records) {
  if (!records || records->bytes().empty() || attached_->rings.empty()) return false;
  const EventTime began_ns = scan_time(records->bytes());
  for (const auto& ring : attached_->rings)
    if (began_ns > ring->info().enabled_ns) return false;
  clock_.look();
  tracker_.add_scan(records->bytes(), began_ns, {}, clock_.history(), monotonic_now());
  return true;
}

}  // namespace flight::daemon
