// SPDX-License-Identifier: Apache-2.0
// The worker pool: a fixed set of threads that do a snapshot's work after the freeze at low priority (nice,
// SCHED_BATCH, I/O priority), because the machine is busy with its own work. Idle between snapshots.
//
//   worker-0 … worker-N   walk, sort and compress; a ring goes to the worker that serves its CPU, if there is one
//   merge             walks through the steps of one snapshot and merges
//   writer            writes the slices that are ready while the next are compressed
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/sysinfo/worker_plan.hpp"

namespace flight {

class WorkerPool {
 public:
  // Starts all threads, or returns an error: no thread is started later for a snapshot.
  [[nodiscard]] static Result<std::unique_ptr<WorkerPool>> start(std::vector<PlannedWorker> plan);
  [[nodiscard]] static Result<std::unique_ptr<WorkerPool>> start(std::size_t workers) {
    return start(std::vector<PlannedWorker>(workers));
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();  // waits for the posted jobs

  [[nodiscard]] std::size_t size() const { return plan_.size(); }  // workers
  // Runs `job` on any worker; `worker` is its index. The caller limits how much it posts.
  void post(std::function<void(std::size_t worker)> job);
  // Runs job(i) for each of the rings, where ring i belongs to CPU cpus[i], and waits for all.
  void for_each_ring(std::span<const int> cpus, const std::function<void(std::size_t ring)>& job);
  // Runs `job` on the merge thread and waits.
  void merge(const std::function<void()>& job);
  // Runs `job` on the writer and does not wait.
  void write(std::function<void()> job);

  // The worker that serves a CPU's rings alone; nullopt: any.
  [[nodiscard]] std::optional<std::size_t> worker_of(int cpu) const;
  // Which workers could not be pinned to their CPUs, and why.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  using Job = std::function<void(std::size_t)>;
  void post_own(std::size_t thread, Job job);
  explicit WorkerPool(std::vector<PlannedWorker> plan) : plan_(std::move(plan)), own_(plan_.size() + 2) {}
  [[nodiscard]] Result<void> start_threads();
  [[nodiscard]] Result<void> start_one(const std::string& name);
  void work(std::size_t thread);

  std::vector<PlannedWorker> plan_;
  std::mutex mutex_;
  std::condition_variable workers_wake_, others_wake_;
  std::deque<Job> shared_;            // for any worker
  std::vector<std::deque<Job>> own_;  // for each thread: the workers, merge, writer
  bool stopping_ = false;
  std::vector<std::string> warnings_;
  std::vector<std::thread> threads_;
};

}  // namespace flight
