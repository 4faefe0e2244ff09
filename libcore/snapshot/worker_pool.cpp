// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/worker_pool.hpp"

#include <algorithm>
#include <latch>

#include "libcore/base/thread.hpp"
#include "libcore/base/worker_thread.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {

Result<std::unique_ptr<WorkerPool>> WorkerPool::start(std::vector<PlannedWorker> plan) {
  std::unique_ptr<WorkerPool> out(new WorkerPool(std::move(plan)));
  if (auto started = out->start_threads(); !started) return wrap(started.error(), "a thread for each worker");
  return out;
}

Result<void> WorkerPool::start_threads() {
  threads_.reserve(own_.size());
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    if (auto started = start_one(fmt::format("worker-{}", i)); !started) return started;
    std::vector<int>& cpus = plan_[i].runs_on;
    std::sort(cpus.begin(), cpus.end());
    const int refused = cpus.empty() ? 0 : keep_on_cpus(threads_.back(), cpus);
    if (refused != 0)
      warnings_.push_back(
          fmt::format("snapshot.workers: worker {} could not be pinned to CPUs {} ({}) and runs on any CPU", i,
                      format_cpu_list(cpus), std::generic_category().message(refused)));
  }
  if (auto started = start_one("merge"); !started) return started;
  return start_one("writer");
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  workers_wake_.notify_all();
  others_wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<void> WorkerPool::start_one(const std::string& name) {
  auto thread = start_thread(name, [this, number = threads_.size()] { work(number); });
  if (!thread) return propagate(thread.error());
  threads_.push_back(std::move(*thread));
  return {};
}

std::optional<std::size_t> WorkerPool::worker_of(int cpu) const {
  for (std::size_t i = 0; i < plan_.size(); ++i)
    if (std::find(plan_[i].serves.begin(), plan_[i].serves.end(), cpu) != plan_[i].serves.end()) return i;
  return std::nullopt;
}

void WorkerPool::post(Job job) {
  {
    const std::lock_guard lock(mutex_);
    shared_.push_back(std::move(job));
  }
  workers_wake_.notify_one();
}

// Wakes all threads that could take it: only one of them does.
void WorkerPool::post_own(std::size_t thread, Job job) {
  {
    const std::lock_guard lock(mutex_);
    own_[thread].push_back(std::move(job));
  }
  (thread < plan_.size() ? workers_wake_ : others_wake_).notify_all();
}

void WorkerPool::for_each_ring(std::span<const int> cpus, const std::function<void(std::size_t)>& job) {
  std::latch done(static_cast<std::ptrdiff_t>(cpus.size()));
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const Job run = [&, i](std::size_t) {
      job(i);
      done.count_down();
    };
    if (const auto worker = worker_of(cpus[i])) {
      post_own(*worker, run);
    } else {
      post(run);
    }
  }
  done.wait();
}

void WorkerPool::merge(const std::function<void()>& job) {
  std::latch done(1);
  post_own(plan_.size(), [&](std::size_t) {
    job();
    done.count_down();
  });
  done.wait();
}

void WorkerPool::write(std::function<void()> job) {
  post_own(plan_.size() + 1, [job = std::move(job)](std::size_t) { job(); });
}

void WorkerPool::work(std::size_t thread) {
  lower_this_thread();
  const bool worker = thread < plan_.size();
  std::condition_variable& wake = worker ? workers_wake_ : others_wake_;
  std::deque<Job>& own = own_[thread];
  std::deque<Job>& shared = worker ? shared_ : own;
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake.wait(lock, [&] { return stopping_ || !own.empty() || !shared.empty(); });
      std::deque<Job>& queue = own.empty() ? shared : own;
      if (queue.empty()) return;
      job = std::move(queue.front());
      queue.pop_front();
    }
    job(thread);
  }
}

}  // namespace flight
