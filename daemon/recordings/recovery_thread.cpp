// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/recovery_thread.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "daemon/log/log.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/units.hpp"
#include "libcore/base/worker_thread.hpp"

namespace flight::daemon {
namespace {

constexpr std::uint64_t kBesideCopyBytes = 1U << 20U;  // its features, and its sidecar

}  // namespace

RecoveryThread::RecoveryThread(boost::asio::io_context& loop, std::unique_ptr<TaskThread> thread,
                               RecorderThread& recorder, StoreService& store, std::string host, AgainAfter again_after)
    : loop_(loop),
      recorder_(recorder),
      store_(store),
      host_(std::move(host)),
      again_after_(std::move(again_after)),
      timer_(loop),
      thread_(std::move(thread)) {}

RecoveryThread::~RecoveryThread() {
  stop();
  thread_->join();
}

bool RecoveryThread::wait_until(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, end, [this] { return busy_ == 0; });
}

void RecoveryThread::recover(const std::vector<std::uint64_t>& seqs, RecordingEnd why) {
  std::vector<Job> jobs;
  for (const std::uint64_t seq : seqs) jobs.push_back({.seq = seq, .why = why});
  run(std::move(jobs));
}

void RecoveryThread::run(std::vector<Job> jobs) {
  if (jobs.empty() || stopping_) return;
  {
    const std::lock_guard lock(mutex_);
    ++busy_;
  }
  thread_->post([this, jobs = std::move(jobs)] {
    boost::asio::post(loop_, [this, left = work(jobs)]() mutable {
      store_.keep_budget();
      store_.refresh_use();
      again(std::move(left));
    });
    const std::lock_guard lock(mutex_);
    --busy_;
    changed_.notify_all();
  });
}

std::vector<RecoveryThread::Job> RecoveryThread::work(std::vector<Job> jobs) {
  lower_this_thread();
  PartStore files(recorder_, store_.folder());
  std::vector<std::uint64_t> seqs;
  for (const Job& job : jobs) seqs.push_back(job.seq);
  const std::set<std::uint64_t> last = last_parts(store_.folder(), seqs, host_);
  std::vector<Job> left;
  for (Job& job : jobs) {
    if (stopping_) break;
    const auto done = recover_part(files, {.seq = job.seq,
                                           .host = host_,
                                           .why = job.why,
                                           .last = last.contains(job.seq),
                                           .make_room = [this](std::uint64_t bytes) { return make_room(bytes); },
                                           .stop = [this] { return stopping_.load(); }});
    if (done) {
      log::warn("{}", *done);
      continue;
    }
    if (stopping_) break;
    if (job.tries == 0) log::warn("part {} of a recording is not finished yet: {}", job.seq, done.error().what);
    job.at = std::chrono::steady_clock::now() + again_after_(done.error());
    // A full disk is looked at again as long as flightd runs.
    if (job.tries == 0 || !is_full(done.error().errno_value())) ++job.tries;
    left.push_back(job);
  }
  return left;
}

// A copy beside the part: only if it leaves the disk not full.
Result<void> RecoveryThread::make_room(std::uint64_t bytes) {
  const auto room = store_.make_part_room(bytes);
  if (!room) return propagate(room.error());
  if (!*room) return fail(std::errc::timed_out, "{} does not answer", store_.folder());
  if ((*room)->free_bytes >= bytes + kBesideCopyBytes) return {};
  return sys_error(ENOSPC, "a copy of {} in {}: {} are free, and no snapshot may be deleted for it",
                   format_bytes(bytes), store_.folder(), format_bytes((*room)->free_bytes));
}

void RecoveryThread::again(std::vector<Job> left) {
  const auto gave_up =
      std::stable_partition(left.begin(), left.end(), [](const Job& job) { return job.tries < kMostTries; });
  for (auto job = gave_up; job != left.end(); ++job)
    log::warn("part {} of a recording could not be finished; the next start of flightd tries again", job->seq);
  waiting_.insert(waiting_.end(), left.begin(), gave_up);
  if (waiting_.empty() || stopping_) return;
  const auto earlier = [](const Job& one, const Job& other) { return one.at < other.at; };
  timer_.expires_at(std::min_element(waiting_.begin(), waiting_.end(), earlier)->at);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const auto now = std::chrono::steady_clock::now();
    const auto later =
        std::stable_partition(waiting_.begin(), waiting_.end(), [now](const Job& job) { return job.at <= now; });
    std::vector<Job> due(waiting_.begin(), later);
    waiting_.erase(waiting_.begin(), later);
    if (due.empty()) return again({});
    run(std::move(due));
  });
}

}  // namespace flight::daemon
