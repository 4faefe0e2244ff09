// SPDX-License-Identifier: Apache-2.0
// The crew: a fixed set of threads that do a snapshot's work after the freeze (walk, compress) at low priority:
// nice, SCHED_BATCH, idle I/O class, because the machine is busy with its own trouble. Idle between snapshots.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// Lowers the calling thread: nice 5, SCHED_BATCH, best-effort I/O priority 7.
void lower_this_thread();

// How many workers "cpu", "core", "package", "numa" or a number mean on this machine; at least 1, at most 64.
[[nodiscard]] Result<std::size_t> crew_size(std::string_view words);

class Crew {
 public:
  explicit Crew(std::size_t workers, std::string name = "crew");
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();  // waits for what was posted

  [[nodiscard]] std::size_t size() const { return threads_.size(); }
  // Runs `job` on some worker; `worker` is its index. The caller bounds how much it posts.
  void post(std::function<void(std::size_t worker)> job);
  // Runs job(i) for i in [0, count) on the workers and waits for all.
  void for_each(std::size_t count, const std::function<void(std::size_t index)>& job);

 private:
  void work(std::size_t worker);
  std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void(std::size_t)>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace flight
