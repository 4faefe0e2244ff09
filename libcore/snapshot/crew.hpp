// SPDX-License-Identifier: Apache-2.0
// The crew: a fixed set of threads that do a snapshot's work after the freeze at low priority (nice, SCHED_BATCH, I/O
// priority), because the machine is busy with its own trouble. Idle between snapshots.
//
//   crew-0 … crew-N   walk, sort and compress; a ring goes to the worker that serves its CPU, where one does
//   merge             walks through the steps of one snapshot and merges
//   writer            writes the slices that are ready while the next are compressed
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/snapshot/crew_plan.hpp"

namespace flight {

// Lowers the calling thread: nice 5, SCHED_BATCH, best-effort I/O priority 7.
void lower_this_thread();

class Crew {
 public:
  explicit Crew(std::vector<CrewWorker> plan);
  explicit Crew(std::size_t workers) : Crew(std::vector<CrewWorker>(workers)) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();  // waits for what was posted

  [[nodiscard]] std::size_t size() const { return plan_.size(); }  // workers
  // Runs `job` on some worker; `worker` is its index. The caller bounds how much it posts.
  void post(std::function<void(std::size_t worker)> job);
  // Runs job(i) for each of the rings, ring i being of CPU cpus[i], and waits for all.
  void for_each_ring(std::span<const int> cpus, const std::function<void(std::size_t ring)>& job);
  // On the merge thread; waits.
  void merge(const std::function<void()>& job);
  // On the writer; does not wait.
  void write(std::function<void()> job);

  // Which worker serves a CPU's rings alone; nullopt: any.
  [[nodiscard]] std::optional<std::size_t> worker_of(int cpu) const;
  // Which workers could not be kept on their CPUs, and why.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  using Job = std::function<void(std::size_t)>;
  void post_own(std::size_t thread, Job job);
  void start(std::string_view name);
  void work(std::size_t thread, const std::string& name);

  std::vector<CrewWorker> plan_;
  std::mutex mutex_;
  std::condition_variable workers_wake_, others_wake_;
  std::deque<Job> shared_;            // for any worker
  std::vector<std::deque<Job>> own_;  // of each thread: the workers, merge, writer
  bool stopping_ = false;
  std::vector<std::string> warnings_;
  std::vector<std::thread> threads_;
};

}  // namespace flight
