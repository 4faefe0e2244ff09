// SPDX-License-Identifier: Apache-2.0
// Which requests share a snapshot.
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/control/peer.hpp"
#include "daemon/snapshots/worker.hpp"

namespace flight::daemon {
namespace {

// A request with the window up to now waits at most this long for a running request's `post`.
constexpr EventTime kMaxJoinWaitNs = 10'000'000'000;
// The limit if a person's request would join a trigger's snapshot.
constexpr EventTime kMaxTriggerWaitNs = 1'000'000'000;
// Per snapshot. A requester that disconnects still counts.
constexpr std::size_t kMaxAskers = 1000;

void move_askers(std::vector<SnapshotRequest>& from, std::vector<SnapshotRequest>& to) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
  from.clear();
}

}  // namespace

void SnapshotWorker::request(SnapshotRequest request) {
  const std::lock_guard lock(mutex_);
  if (stopping_) {
    request.done(fail(std::errc::operation_canceled, "flightd is stopping"));
    return;
  }
  if (request.trigger == kBrokerLost) {
    auto last = make_job(std::move(request));
    if (waiting_) move_askers(waiting_->askers, last->askers);
    if (running_ && !running_->frozen) {  // no more records will be written while it waits for `post`
      move_askers(running_->askers, last->askers);
      running_->due_ns = UINT64_MAX;
    }
    move_askers(stranded_, last->askers);
    waiting_ = std::move(last);
  } else if (Job* job = running_ && covers(*running_, request) ? running_.get() : waiting_.get(); job != nullptr) {
    if (job->askers.size() >= kMaxAskers)
      return request.done(fail(std::errc::device_or_resource_busy,
                               "{} other requests already wait for the same snapshot", job->askers.size()));
    widen(*job, std::move(request));
  } else {
    waiting_ = make_job(std::move(request));
  }
  wake_.notify_all();
}

std::unique_ptr<SnapshotWorker::Job> SnapshotWorker::make_job(SnapshotRequest request) const {
  auto job = std::make_unique<Job>();
  job->trigger = request.trigger;
  job->reason = request.who.reason;
  job->automatic = request.automatic;
  job->test = request.test;
  job->fired = request.fired;
  job->window = request.window;
  job->requested_ns = request.requested_ns;
  job->due_ns = request.due_ns;
  job->config = config_;
  job->capture = request.capture.value_or(config_.capture);
  job->askers.push_back(std::move(request));
  return job;
}

// The requested history must still be in the rings when the job is frozen, and the wait for another request's `post`
// is limited.
bool SnapshotWorker::in_time(const Job& job, const SnapshotRequest& request) const {
  if (job.due_ns <= request.due_ns) return true;
  const EventTime most_ns = job.automatic && !request.automatic ? kMaxTriggerWaitNs : kMaxJoinWaitNs;
  const EventTime wait_ns = job.due_ns - request.due_ns;
  const EventTime history_ns = recorder_.shortest_history_ns();
  if (history_ns == UINT64_MAX) return wait_ns <= most_ns;  // nothing is overwritten yet
  const EventTime needed_ns = request.window.begin_ns != 0 ? job.due_ns - std::min(job.due_ns, request.window.begin_ns)
                                                           : history_ns / 10 * 9 + wait_ns;
  return wait_ns <= most_ns && needed_ns <= history_ns;
}

bool SnapshotWorker::covers(const Job& job, const SnapshotRequest& request) const {
  return !job.frozen && in_time(job, request) && job.window.begin_ns <= request.window.begin_ns &&
         job.window.end_ns >= request.window.end_ns && job.due_ns >= request.due_ns &&
         (!request.capture || *request.capture == job.capture);
}

void SnapshotWorker::widen(Job& job, SnapshotRequest request) {
  job.window.begin_ns = std::min(job.window.begin_ns, request.window.begin_ns);
  job.window.end_ns = std::max(job.window.end_ns, request.window.end_ns);
  if (job.trigger != kBrokerLost) job.due_ns = std::max(job.due_ns, request.due_ns);
  if (request.automatic && !job.automatic && job.trigger != kBrokerLost) {
    job.automatic = true;
    job.test = false;
    job.trigger = request.trigger;
    job.reason = request.who.reason;
  }
  if (!job.fired) job.fired = request.fired;
  // If one of the requests asks for a live capture, the job is live.
  if (request.capture == CaptureMode::live) job.capture = CaptureMode::live;
  job.askers.push_back(std::move(request));
}

// The broker died before it created the files: the snapshot `broker-lost`, which contains what was frozen, answers the
// requests of this job. False: there will be no such snapshot.
bool SnapshotWorker::hand_to_last() {
  if (last_taken_ || running_->trigger == kBrokerLost) return false;
  const std::lock_guard lock(mutex_);
  const bool last_waits = waiting_ && waiting_->trigger == kBrokerLost;
  move_askers(running_->askers, last_waits ? waiting_->askers : stranded_);
  running_.reset();
  return true;
}

// Reports how much of `post` is over.
void SnapshotWorker::notify_waiting(const Job& job, EventTime now_ns) {
  for (const SnapshotRequest& asker : job.askers) {
    const EventTime whole_ns = job.due_ns - std::min(job.due_ns, asker.requested_ns);
    const EventTime left_ns = job.due_ns - now_ns;
    if (asker.progress && whole_ns > 0)
      asker.progress("waiting", static_cast<unsigned>(100 - std::min<EventTime>(left_ns * 100 / whole_ns, 100)));
  }
}

void SnapshotWorker::answer(Job& job, const Result<Sidecar>& result) {
  for (SnapshotRequest& asker : job.askers) asker.done(result);
}

void SnapshotWorker::refuse_waiting() {
  if (waiting_) move_askers(waiting_->askers, stranded_);
  for (SnapshotRequest& asker : stranded_) asker.done(fail(std::errc::operation_canceled, "flightd is stopping"));
  stranded_.clear();
}

SnapshotRequest SnapshotRequest::of_flightd(std::string_view trigger, std::string reason) {
  SnapshotRequest request;
  request.trigger = trigger;
  request.who = {.uid = static_cast<std::uint32_t>(::getuid()),
                 .pid = static_cast<std::int32_t>(::getpid()),
                 .comm = "flightd",
                 .time = to_rfc3339(wall_now()),
                 .reason = std::move(reason)};
  request.requested_ns = request.due_ns = monotonic_now();
  return request;
}

std::vector<SidecarRequest> askers_of(std::span<const SnapshotRequest> askers, RecorderThread& recorder) {
  std::vector<SidecarRequest> out;
  std::vector<ProcessAt> unnamed;
  const auto is_unnamed = [](const SnapshotRequest& asker) { return asker.who.comm.empty() && !asker.has_ended; };
  for (const SnapshotRequest& asker : askers) {
    out.push_back(asker.who);
    // /proc may not show the caller (ProtectProc=invisible, or a `kill -USR2` that already exited): the process
    // tracker has its name at the time of the request.
    if (is_unnamed(asker)) unnamed.push_back({static_cast<std::uint32_t>(asker.who.pid), asker.requested_ns});
  }
  if (unnamed.empty()) return out;
  const std::vector<std::string> names = recorder.comms_of(unnamed);
  auto name = names.begin();
  for (std::size_t i = 0; i < out.size(); ++i)
    if (is_unnamed(askers[i])) out[i].comm = plain_comm(*name++);
  return out;
}

}  // namespace flight::daemon
